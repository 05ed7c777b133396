"""Validation against recordings of the official package: it passes what is equal, and it can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import edits
from kazeia import ConfigError, KazeiaError, OptionError, Report, validate
from kazeia.dumps import read_dump
from kazeia.testing import make_checkpoint
from kazeia.validation import RELATIVE_TOLERANCE, SNR_FLOOR_DB, relative_error, snr_db

GOLDEN = Path(__file__).resolve().parent / "golden"
STAGES = (
    "text ids",
    "prompt rows",
    "trailing rows",
    "talker hidden",
    "talker logits",
    "codebook 0, teacher-forced",
    "predictor, teacher-forced",
    "free greedy run",
    "codec decoder",
)
Tensors = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint that a golden dump was made of."""
    folder = tmp_path_factory.mktemp("models")

    def model(name: str) -> Path:
        if not (folder / name).exists():
            origin = read_dump(GOLDEN / name).info["random"]
            make_checkpoint(folder / name, origin["shape"], origin["seed"])
        return folder / name

    return model


@pytest.fixture
def dump(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a golden dump, changed."""

    def dump(
        name: str,
        tensors: Callable[[Tensors], None] | None = None,
        info: Callable[[dict[str, Any]], None] | None = None,
    ) -> Path:
        folder = edits.copy(GOLDEN / name, tmp_path / "dump")
        if tensors is not None:
            found = {key: array.copy() for key, array in load_file(folder / "dump.safetensors").items()}
            tensors(found)
            save_file(found, folder / "dump.safetensors")
        if info is not None:
            edits.change_json(folder / "dump.json", info)
        return folder

    return dump


def failed(report: Report) -> set[str]:
    return {stage.name for stage in report.stages if not stage.ok}


@pytest.mark.parametrize("name", ["whole", "streamed"])
def test_what_is_equal_passes_and_every_stage_is_there(model: Callable[[str], Path], name: str) -> None:
    report = validate(model(name), GOLDEN / name, threads=1)
    assert tuple(stage.name for stage in report.stages) == STAGES
    assert report.ok
    lines = report.lines()
    assert len(lines) == len(STAGES) + 2
    assert lines[-1] == "equal to the dump"
    assert not any("FAIL" in line for line in lines)


# ---- a changed recording ----


def bend(name: str, at: Any, factor: float = 1.05) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name][at] *= factor

    return change


def set_to(name: str, at: Any, value: float) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name][at] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "wrong"),
    [
        ("whole", set_to("text_ids", 2, 1), {"text ids"}),
        ("whole", lambda t: t.update(text_ids=t["text_ids"][:-1].copy()), {"text ids"}),
        ("whole", bend("talker_hidden", 3), {"talker hidden"}),
        ("whole", bend("talker_logits", 4), {"talker logits"}),
        ("streamed", bend("predictor_logits", (0, 14)), {"predictor, teacher-forced"}),
        ("streamed", bend("waveform", slice(1920)), {"codec decoder"}),
        ("whole", set_to("waveform", 15359, 1.0), {"codec decoder"}),
        ("whole", set_to("waveform", 0, np.nan), {"codec decoder"}),
        ("whole", set_to("talker_logits", (7, 0), np.nan), {"talker logits", "codebook 0, teacher-forced"}),
        ("whole", set_to("talker_logits", (5, 0), 99), {"talker logits", "codebook 0, teacher-forced"}),
        # The last row of text is fed to nobody within these frames.
        ("streamed", bend("trailing_rows", -1), {"trailing rows"}),
        # What feeds later stages is missed there too.
        ("whole", bend("talker_hidden", -1, 1.5), {"talker hidden", "predictor, teacher-forced"}),
    ],
)
def test_a_change_in_the_recording_is_found_in_its_own_stage(
    model: Callable[[str], Path],
    dump: Callable[..., Path],
    name: str,
    change: Callable[[Tensors], None],
    wrong: set[str],
) -> None:
    report = validate(model(name), dump(name, change), threads=1)
    assert failed(report) == wrong
    assert not report.ok
    assert sum("FAIL" in line for line in report.lines()) == len(wrong)
    assert report.lines()[-1] == "NOT equal to the dump"


def test_a_changed_code_is_found_wherever_codes_are_used(
    model: Callable[[str], Path], dump: Callable[..., Path]
) -> None:
    def change(tensors: Tensors) -> None:
        tensors["codes"][-1, 5] ^= 1

    report = validate(model("whole"), dump("whole", change), threads=1)
    # Its own choice needs no codes after it, so the talker does not see the last frame's.
    assert failed(report) == {"predictor, teacher-forced", "free greedy run", "codec decoder"}
    free = next(stage for stage in report.stages if stage.name == "free greedy run")
    assert free.result.startswith("127/128 codes, first difference at frame 7, codebook 5 (margin there: ")


# ---- a changed model ----


@pytest.mark.parametrize(
    ("tensor", "wrong"),
    [
        ("speech_tokenizer/decoder.decoder.2.block.3.conv1.conv.weight", {"codec decoder"}),
        ("speech_tokenizer/decoder.pre_transformer.layers.1.self_attn.o_proj.weight", {"codec decoder"}),
        (
            "talker.code_predictor.lm_head.3.weight",
            {"predictor, teacher-forced", "free greedy run"},
        ),
        (
            "talker.codec_head.weight",
            {"talker logits", "codebook 0, teacher-forced", "free greedy run"},
        ),
        (
            "talker.model.layers.2.mlp.down_proj.weight",
            {"talker hidden", "talker logits", "codebook 0, teacher-forced", "free greedy run"},
        ),
        ("talker.text_projection.linear_fc2.bias", {"prompt rows", "trailing rows"}),
    ],
)
def test_a_wrong_weight_is_found_in_its_own_stage(
    model: Callable[[str], Path], tmp_path: Path, tensor: str, wrong: set[str]
) -> None:
    folder = edits.copy(model("whole"), tmp_path / "model")
    part, _, name = tensor.rpartition("/")
    edits.change_tensor(folder / part, name, lambda values: -values)
    report = validate(folder, GOLDEN / "whole", threads=1, cache_dir=tmp_path / "cache")
    assert wrong <= failed(report)
    # The free run starts from our own prompt, so it may or may not get over a small change.
    assert failed(report) - wrong <= {"free greedy run"}


@pytest.mark.parametrize("quant", ["q8", "q4"])
def test_quantised_weights_are_close_and_said_not_to_be_equal(
    model: Callable[[str], Path], quant: str
) -> None:
    report = validate(model("whole"), GOLDEN / "whole", quant=quant, threads=1)
    assert not report.ok
    assert "quantised weights are close, not equal; use f32" in report.lines()[-1]
    # What is not quantised stays equal, and the predictor agrees nearly always.
    assert not failed(report) & {"text ids", "prompt rows", "trailing rows", "codec decoder"}
    results = {stage.name: stage.result for stage in report.stages}
    assert int(results["predictor, teacher-forced"].split("/")[0]) >= 110
    error = float(results["talker hidden"].removeprefix("relative error "))
    assert RELATIVE_TOLERANCE < error < (0.1 if quant == "q8" else 0.5)


# ---- what is no recording of this model ----


@pytest.mark.parametrize(("name", "other"), [("whole", "streamed"), ("codec", "whole"), ("heads", "codec")])
def test_a_recording_of_another_model_is_refused_by_name(
    model: Callable[[str], Path], name: str, other: str
) -> None:
    with pytest.raises(
        ConfigError, match=f"{GOLDEN / other}: a dump of another model: .*this model"
    ) as caught:
        validate(model(name), GOLDEN / other, threads=1)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("key", ["size", "hidden", "layers", "vocab", "codebook"])
def test_every_number_of_the_model_must_agree(
    model: Callable[[str], Path], dump: Callable[..., Path], key: str
) -> None:
    changed = dump("whole", info=lambda info: info["model"].update({key: 7}))
    with pytest.raises((ConfigError, OptionError), match=key if key in ("size", "layers") else "7"):
        validate(model("whole"), changed, threads=1)


@pytest.mark.parametrize(
    "change",
    [
        *(
            (lambda info, key=key: info.pop(key))
            for key in (
                "format",
                "version",
                "text",
                "voice",
                "language",
                "instruct",
                "layout",
                "seed",
                "model",
            )
        ),
        lambda info: info.pop("frames"),
        lambda info: info.pop("repetition_penalty"),
        lambda info: info["model"].pop("codebook"),
        lambda info: info.update(model=5),
        lambda info: info.update(frames="many"),
        lambda info: info.update(frames=7),
        lambda info: info.update(frames=0),
        lambda info: info.update(layout="sideways"),
        lambda info: info.update(text=5),
        lambda info: info.update(version=2),
        lambda info: info.update(voice="nobody"),
        lambda info: info.update(language="klingon"),
        lambda info: info.update(repetition_penalty="much"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused_by_name(
    model: Callable[[str], Path], dump: Callable[..., Path], change: Callable[[dict[str, Any]], None]
) -> None:
    folder = dump("whole", info=change)
    with pytest.raises(KazeiaError) as caught:
        validate(model("whole"), folder, threads=1)
    assert re.search(r"dump\.json|dump\.safetensors|known: ", str(caught.value))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        *(
            (lambda t, name=name: t.pop(name), name)
            for name in ("codes", "waveform", "prompt_rows", "text_ids")
        ),
        (lambda t: t.update(extra=t["codes"]), "extra"),
        (lambda t: t.update(codes=t["codes"][:, :15].copy()), "codes"),
        (lambda t: t.update(codes=t["codes"].astype(np.int32)), "codes"),
        (lambda t: t.update(talker_logits=t["talker_logits"][:, :-1].copy()), "talker_logits"),
        (lambda t: t.update(waveform=t["waveform"].astype(np.float64)), "waveform"),
        (lambda t: t.update(trailing_rows=t["trailing_rows"][:0].copy()), "trailing_rows must not be empty"),
        (set_to("codes", (0, 0), 128), "codes reach from"),
        (set_to("codes", (3, 9), -1), "codes reach from"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    model: Callable[[str], Path], dump: Callable[..., Path], change: Callable[[Tensors], None], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        validate(model("whole"), dump("whole", change), threads=1)


@pytest.mark.parametrize("file", ["dump.json", "dump.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff" * 40, b"[]", None])
def test_damaged_files_are_refused_by_name(
    model: Callable[[str], Path], dump: Callable[..., Path], file: str, content: bytes | None
) -> None:
    folder = dump("whole")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(OptionError, match=file):
        validate(model("whole"), folder, threads=1)


def test_a_folder_that_is_none_is_refused(model: Callable[[str], Path], tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(OptionError, match="not a dump"):
            validate(model("whole"), folder)


def test_the_free_run_is_left_out_when_the_recording_was_drawn(
    model: Callable[[str], Path], dump: Callable[..., Path]
) -> None:
    report = validate(model("whole"), dump("whole", info=lambda info: info.update(seed=5)), threads=1)
    assert tuple(stage.name for stage in report.stages) == tuple(s for s in STAGES if "free" not in s)
    assert report.ok


def test_the_measures_measure() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    assert relative_error(rows, rows) == 0
    off = rows.copy()
    off[3] *= 1.01
    assert relative_error(off, rows) == pytest.approx(0.01, rel=1e-4)  # the worst row, not the mean
    assert relative_error(rows[:4], rows) == float("inf")
    assert relative_error(rows[:0], rows[:0]) == 0
    assert not relative_error(np.full_like(rows, np.nan), rows) <= RELATIVE_TOLERANCE
    assert relative_error(rows, np.zeros_like(rows)) > 1
    wave = rows.reshape(-1)
    assert snr_db(wave, wave) == float("inf")
    assert snr_db(wave * 1.1, wave) == pytest.approx(20, abs=0.01)
    assert snr_db(wave[1:], wave) == float("-inf")
    assert not snr_db(wave * np.nan, wave) >= SNR_FLOOR_DB


def test_the_goldens_themselves_are_untouched_by_all_this() -> None:
    info = json.loads((GOLDEN / "whole" / "dump.json").read_text("utf-8"))
    assert info["frames"] == 8

"""Dumps: the goldens fit together, and broken ones are refused by name."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from kazeia.errors import InputError
from kazeia.testing import SHAPES, make_checkpoint, read_dump
from kazeia.testing.tensors import RECIPE
from oracle import load, require

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir())
CODEBOOK_ROWS = 1024  # control rows above the codes


def test_there_are_goldens_and_they_are_small() -> None:
    assert len(NAMES) >= 3
    assert sum(file.stat().st_size for file in GOLDEN.rglob("*") if file.is_file()) < 1_500_000


@pytest.mark.parametrize("name", NAMES)
def test_goldens_belong_to_this_recipe(name: str) -> None:
    # A failure means: run tools/make_goldens.py again.
    origin = read_dump(GOLDEN / name).info["random"]
    assert origin["recipe"] == RECIPE
    assert origin["shape"] in SHAPES


@pytest.mark.parametrize("name", NAMES)
def test_prompt_length_follows_the_formula(name: str) -> None:
    dump = read_dump(GOLDEN / name)
    info, texts = dump.info, len(dump.text_ids)
    # spec §2.4; a dialect speaker gets its language also when none is asked.
    dialect = {"eric", "dylan"} & {str(info["voice"]).lower()}
    named = info["language"] not in (None, "auto") or bool(dialect)
    tail, trailing = (texts + 2, 1) if info["layout"] == "whole" else (1, texts)
    head = 3 + (3 + named) + 1 + 1
    if info["instruct"] is None:
        assert len(dump.prompt_rows) == head + tail
    else:
        assert len(dump.prompt_rows) > head + tail
    assert len(dump.trailing_rows) == trailing


@pytest.mark.parametrize("name", NAMES)
def test_codes_are_the_greedy_choice_of_the_logits(name: str) -> None:
    dump = read_dump(GOLDEN / name)
    assert np.array_equal(dump.predictor_logits.argmax(-1), dump.codes[:, 1:])
    vocab, seen = dump.talker_logits.shape[1], list[int]()
    for frame, logits in enumerate(dump.talker_logits):
        scores = logits.copy()
        for code in set(seen):
            scores[code] *= 1 / 1.05 if scores[code] >= 0 else 1.05
        end = vocab - CODEBOOK_ROWS + 102
        kept = scores[end] if frame >= 2 else -np.inf
        scores[vocab - CODEBOOK_ROWS :] = -np.inf
        scores[end] = kept
        assert scores.argmax() == dump.codes[frame, 0]
        seen.append(int(dump.codes[frame, 0]))


@pytest.mark.parametrize("name", NAMES)
def test_goldens_are_fit_to_compare_with(name: str) -> None:
    dump = read_dump(GOLDEN / name)
    best = np.sort(dump.predictor_logits, axis=-1)
    assert (best[..., -1] - best[..., -2]).min() > 1e-4  # no near-tie
    assert len(set(dump.codes[:, 0].tolist())) >= 4
    assert 0.02 < dump.waveform.std() < 0.25
    assert np.abs(dump.waveform).max() < 1  # unclipped
    assert dump.frame_hidden.shape == (dump.frames, dump.info["model"]["hidden"])


def broken(kind: str, folder: Path) -> None:
    """Spoil the dump in `folder`."""
    info, path = folder / "dump.json", folder / "dump.safetensors"
    match kind:
        case "no json":
            info.unlink()
        case "no tensors":
            path.unlink()
        case "cut tensors":
            path.write_bytes(path.read_bytes()[:-4])
        case "version":
            info.write_text(json.dumps(json.loads(info.read_text()) | {"version": 2}))
        case "not an object":
            info.write_text("[]")
        case "tensor missing":
            tensors = load_file(path)
            del tensors["codes"]
            save_file(tensors, str(path))
        case "wrong shape":
            tensors = load_file(path)
            tensors["waveform"] = tensors["waveform"][:-1].copy()
            save_file(tensors, str(path))
        case "wrong type":
            tensors = load_file(path)
            tensors["codes"] = tensors["codes"].astype(np.int32)
            save_file(tensors, str(path))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no json", r"is not a dump: cannot read dump\.json"),
        ("no tensors", r"dump\.safetensors: cannot be read"),
        ("cut tensors", r"dump\.safetensors: cannot be read"),
        ("version", r"expected format 'kazeia-dump' version 1, found 'kazeia-dump' version 2"),
        ("not an object", r"expected format 'kazeia-dump' version 1, found None"),
        ("tensor missing", r"expected the tensors \['codes'"),
        ("wrong shape", r"waveform is float32 \(15359,\); expected float32 \(15360,\)"),
        ("wrong type", r"codes is int32 \(8, 16\); expected int64 \(8, 16\)"),
    ],
)
def test_broken_dumps_are_refused_by_name(kind: str, message: str, tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "whole", tmp_path / "dump")
    broken(kind, folder)
    with pytest.raises(InputError, match=message):
        read_dump(folder)


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_goldens_are_still_what_the_official_package_says(name: str, tmp_path: Path) -> None:
    dump = read_dump(GOLDEN / name)
    origin, info = dump.info["random"], dump.info
    official = load(make_checkpoint(tmp_path / "model", origin["shape"], origin["seed"]))
    trace = official.trace(
        info["text"],
        info["voice"],
        info["language"] or "Auto",
        info["instruct"],
        non_streaming_mode=info["layout"] == "whole",
        frames=info["frames"],
    )
    assert np.array_equal(trace.codes, dump.codes)
    assert np.array_equal(trace.text_ids, dump.text_ids)
    np.testing.assert_allclose(trace.prompt_rows, dump.prompt_rows, atol=1e-4)
    np.testing.assert_allclose(trace.talker_logits, dump.talker_logits, atol=1e-3)
    np.testing.assert_allclose(official.waveform(trace.codes), dump.waveform, atol=1e-4)


@pytest.fixture
def command() -> Callable[[list[str]], int]:
    """main of tools/dump_official.py."""
    require()
    return importlib.import_module("dump_official").main


@pytest.mark.oracle
def test_the_command_writes_a_dump_of_any_checkpoint(
    tmp_path: Path, command: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_checkpoint(tmp_path / "model", "tiny-ends")
    ask = ["--model", str(model), "--text", "hi", "--voice", "ryan", "--frames", "5", "--layout", "streamed"]
    assert command([*ask, "--out", str(tmp_path / "a")]) == 0
    assert "5 frames (the limit), prompt of" in capsys.readouterr().out
    greedy = read_dump(tmp_path / "a")
    assert (greedy.info["text"], greedy.info["layout"], greedy.info["seed"]) == ("hi", "streamed", None)
    for name in ("b", "c"):
        command([*ask, "--out", str(tmp_path / name), "--seed", "7"])
    sampled = read_dump(tmp_path / "b")
    assert np.array_equal(sampled.codes, read_dump(tmp_path / "c").codes)
    assert not np.array_equal(sampled.codes, greedy.codes)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--frames", "1"], "--frames must be at least 2"),
        (["--seed", "-1"], "--seed must be from 0"),
        (["--model", "nowhere"], "--model nowhere has no config.json"),
        ([], "--voice is needed; this model has serena, vivian"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(
    change: list[str],
    message: str,
    tmp_path: Path,
    command: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = make_checkpoint(tmp_path / "model", "tiny")
    with pytest.raises(SystemExit, match="2"):
        command(["--model", str(model), "--out", str(tmp_path / "dump"), "--text", "hi", *change])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "dump").exists()

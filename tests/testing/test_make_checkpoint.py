"""make_checkpoint: the official layout, the same bytes every time, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from kazeia.errors import CheckpointError, OptionError
from kazeia.testing import SHAPES, Shape, checkpoint, make_checkpoint
from kazeia.testing.tensors import RECIPE, codec_tensors, talker_tensors

TINY = [name for name in SHAPES if name.startswith("tiny")]
FILES = {
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/model.safetensors",
    "speech_tokenizer/preprocessor_config.json",
}


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder`."""
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("preset", TINY)
def test_every_preset_has_the_complete_layout(preset: str, tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "new" / "model", preset)
    assert folder == tmp_path / "new" / "model"
    assert set(contents(folder)) == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("preset", TINY)
def test_weights_files_hold_the_listed_tensors_in_the_right_type(preset: str, tmp_path: Path) -> None:
    folder, shape = make_checkpoint(tmp_path / "model", preset), SHAPES[preset]
    for path, tensors, dtype in (
        (folder / "model.safetensors", talker_tensors(shape), "BF16"),
        (folder / "speech_tokenizer" / "model.safetensors", codec_tensors(shape), "F32"),
    ):
        with safe_open(path, "numpy") as file:
            found = {
                name: (file.get_slice(name).get_dtype(), tuple(file.get_slice(name).get_shape()))
                for name in file.keys()  # noqa: SIM118
            }
        assert found == {tensor.name: (dtype, tensor.shape) for tensor in tensors}


def test_codec_file_reads_back_as_the_values_it_was_made_of(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "model", "tiny", seed=5)
    found = load_file(folder / "speech_tokenizer" / "model.safetensors")
    for tensor in codec_tensors(SHAPES["tiny"]):
        assert np.array_equal(found[tensor.name], tensor.values(5)), tensor.name
        assert np.isfinite(found[tensor.name]).all()


def test_same_shape_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    first = contents(make_checkpoint(tmp_path / "a", "tiny", seed=1))
    assert contents(make_checkpoint(tmp_path / "b", SHAPES["tiny"], seed=1)) == first
    other = contents(make_checkpoint(tmp_path / "c", "tiny", seed=2))
    assert {name for name in FILES if other[name] != first[name]} == {
        "model.safetensors",
        "speech_tokenizer/model.safetensors",
    }


def test_bytes_change_only_with_the_recipe_version(tmp_path: Path) -> None:
    # A failure means: raise RECIPE, write the goldens again (tools/make_goldens.py), set the new digests.
    found = contents(make_checkpoint(tmp_path / "model", "tiny"))
    assert (RECIPE, found["model.safetensors"][:16], found["speech_tokenizer/model.safetensors"][:16]) == (
        1,
        "56da1c7d5e8f5787",
        "89b12ee62eee5391",
    )


def test_progress_rises_to_the_size_of_the_weights(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = make_checkpoint(tmp_path / "model", progress=lambda done, total: seen.append((done, total)))
    size = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    assert {total for _, total in seen} == {size}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == size


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert set(contents(make_checkpoint(tmp_path / "model"))) == FILES


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_already_is_refused_and_kept(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    if kind == "folder":
        target.mkdir()
        (target / "mine").write_text("x")
    else:
        target.write_text("x")
    with pytest.raises(CheckpointError, match=r"model already exists and is not empty; remove it"):
        make_checkpoint(target)
    assert (target / "mine" if kind == "folder" else target).read_text() == "x"


@pytest.mark.parametrize("stop", [OSError("no space left"), KeyboardInterrupt()], ids=["disk", "ctrl-c"])
def test_nothing_is_left_of_a_checkpoint_that_failed(
    stop: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *_: object, **__: object) -> None:
        path.write_bytes(b"half")
        raise stop

    monkeypatch.setattr(checkpoint, "write_safetensors", fail)
    expected = CheckpointError if isinstance(stop, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        make_checkpoint(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_unknown_preset_is_refused_and_the_known_ones_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'huge'; expected one of: tiny, .*0\.6b, 1\.7b"):
        make_checkpoint(tmp_path / "model", "huge")


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "1"])
def test_seeds_out_of_range_are_refused(seed: object, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="seed must be an integer from 0"):
        make_checkpoint(tmp_path / "model", "tiny", seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", TINY)
def test_config_agrees_with_the_shape(preset: str, tmp_path: Path) -> None:
    folder, shape = make_checkpoint(tmp_path / "model", preset), SHAPES[preset]
    config = json.loads((folder / "config.json").read_text())
    talker = config["talker_config"]
    predictor = talker["code_predictor_config"]
    codec = json.loads((folder / "speech_tokenizer" / "config.json").read_text())["decoder_config"]
    assert talker["vocab_size"] == predictor["vocab_size"] + 1024
    assert predictor["vocab_size"] == codec["codebook_size"] == shape.codebook
    assert sum(talker["rope_scaling"]["mrope_section"]) == shape.head_dim // 2
    assert all(shape.codebook <= index < talker["vocab_size"] for index in talker["spk_id"].values())
    assert set(talker["spk_is_dialect"]) == set(talker["spk_id"])
    assert {d for d in talker["spk_is_dialect"].values() if d} <= set(talker["codec_language_id"])
    assert np.prod(codec["upsample_rates"] + codec["upsampling_ratios"]) == 1920
    assert max(v for k, v in config.items() if k.endswith("_token_id")) < talker["text_vocab_size"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("codec_pad_id", 2148),
        ("codec_bos_id", 2149),
        ("codec_eos_token_id", 2150),
        ("codec_think_id", 2154),
        ("codec_nothink_id", 2155),
        ("codec_think_bos_id", 2156),
        ("codec_think_eos_id", 2157),
        ("vocab_size", 3072),
        ("text_vocab_size", 151936),
    ],
)
def test_full_size_ids_are_the_released_ones(key: str, value: int) -> None:
    config = checkpoint.model_config(SHAPES["0.6b"], {})["talker_config"]
    assert config[key] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("vivian", 3065), ("uncle_fu", 3010), ("aiden", 2861), ("eric", 2875), ("dylan", 2878)],
)
def test_full_size_speakers_are_the_released_ones(name: str, value: int) -> None:
    assert checkpoint.model_config(SHAPES["1.7b"], {})["talker_config"]["spk_id"][name] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("english", 2050), ("french", 2061), ("portuguese", 2071), ("sichuan_dialect", 2062)],
)
def test_full_size_languages_are_the_released_ones(name: str, value: int) -> None:
    assert checkpoint.model_config(SHAPES["1.7b"], {})["talker_config"]["codec_language_id"][name] == value


KINDS = {
    "every head its own keys": lambda s: s.heads == s.kv_heads,
    "eight queries a key": lambda s: s.heads == 8 * s.kv_heads,
    "heads of 16": lambda s: s.head_dim == 16,
    "heads of 64": lambda s: s.head_dim == 64,
    "heads of 128": lambda s: s.head_dim == 128,
    "a projection": lambda s: s.projected and s.model_size == "1b7",
    "no projection": lambda s: not s.projected and s.model_size == "0b6",
    "two layers": lambda s: s.layers == 2,
    "28 layers": lambda s: s.layers == 28,
    "heads not as wide as the model": lambda s: s.heads * s.head_dim != s.hidden,
    "codec widths all different": lambda s: (
        len({s.codebook_dim, s.latent, s.codec_hidden, s.codec_heads * s.codec_head_dim, s.decoder_dim}) == 5
    ),
    "no speakers": lambda s: not s.speakers and s.model_type == "voice_design",
}


@pytest.mark.parametrize("kind", KINDS)
def test_some_tiny_preset_is_of_each_kind(kind: str) -> None:
    assert any(KINDS[kind](SHAPES[name]) for name in TINY)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"heads": 3}, "heads must be a multiple of kv_heads"),
        ({"predictor_heads": 3}, "predictor_heads must be a multiple"),
        ({"head_dim": 31}, "head_dim must be even"),
        ({"decoder_dim": 40}, "decoder_dim must be a multiple of 16"),
        ({"codebook_dim": 33}, "codebook_dim must be even"),
        ({"encoder_heads": 3}, "must equal encoder_hidden"),
        ({"text_vocab": 300}, "text_vocab must hold the tokenizer's ids"),
        ({"full_vocabulary": True}, "text_vocab must hold the tokenizer's ids"),
        ({"model_type": "base"}, "model_type must be"),
    ],
)
def test_impossible_shapes_are_refused_by_name(change: dict[str, int], rule: str) -> None:
    with pytest.raises(OptionError, match=rule):
        Shape(**change)  # type: ignore[arg-type]

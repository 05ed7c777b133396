"""random_model_path: names, reuse, and several makers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kazeia.errors import CheckpointError, ModelNotFoundError
from kazeia.testing import checkpoint, make_checkpoint, random_model_path


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_model_is_made_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = random_model_path("random:tiny", tmp_path / "cache")
    assert weights(first) == weights(make_checkpoint(tmp_path / "plain", "tiny", 0))
    monkeypatch.setattr(checkpoint, "make_checkpoint", lambda *_: pytest.fail("made again"))
    assert random_model_path("random:tiny", tmp_path / "cache") == first


def test_the_seed_follows_the_at_sign(tmp_path: Path) -> None:
    seven = random_model_path("random:tiny-mha@7", tmp_path)
    assert weights(seven) == weights(make_checkpoint(tmp_path / "plain", "tiny-mha", 7))
    assert seven != random_model_path("random:tiny-mha", tmp_path)


def test_a_new_recipe_makes_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = random_model_path("random:tiny-mha", tmp_path)
    monkeypatch.setattr(checkpoint, "RECIPE", 999)
    assert random_model_path("random:tiny-mha", tmp_path) != old


@pytest.mark.parametrize(
    "name",
    [
        "random:",
        "random:huge",
        "random:tiny@",
        "random:tiny@-1",
        "random:tiny@x",
        "tiny",
        "random:../tiny",
        "x",
    ],
)
def test_other_names_are_refused_and_the_known_ones_listed(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"PRESET is one of: tiny, .*0\.6b, 1\.7b") as error:
        random_model_path(name, tmp_path)
    assert repr(name) in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_makers_at_once_all_find_one_whole_checkpoint(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: random_model_path("random:tiny", tmp_path), range(4)))
    assert set(found) == {found[0]}
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == [found[0]]
    assert weights(found[0]) == weights(make_checkpoint(tmp_path / "plain", "tiny"))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CheckpointError, match=r"cannot write a checkpoint to .*cache"):
        random_model_path("random:tiny", tmp_path / "cache")


def test_a_damaged_model_is_made_again_and_leftovers_go(tmp_path: Path) -> None:
    folder = random_model_path("random:tiny", tmp_path)
    weights = folder / "speech_tokenizer" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    (tmp_path / f".{folder.name}-left").mkdir()
    assert random_model_path("random:tiny", tmp_path) == folder
    assert weights.read_bytes() == whole
    assert not (tmp_path / f".{folder.name}-left").exists()

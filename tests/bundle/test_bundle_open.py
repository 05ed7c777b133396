"""Opening a bundle: only what was built is ever run; anything else is refused, or built again (L08)."""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edits
import kazeia
from kazeia import BundleError, KazeiaError, KazeiaWarning, ModelNotFoundError, OptionError
from kazeia.bundle import BUNDLE_VERSION, is_bundle, open_bundle, seal

TEXT = "Hello there."
MANIFEST = "manifest.json"


@pytest.fixture(scope="module")
def built(checkpoint: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle in f32; not to be changed."""
    folder = tmp_path_factory.mktemp("built")
    return kazeia.build_bundle(checkpoint("tiny"), quant="f32", out=folder / "bundle")


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    """A copy of it, for changes."""
    return edits.copy(built, tmp_path / "bundle")


def names(bundle: Path) -> list[str]:
    return sorted(p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file())


def speak(model: Path, cache: Path | None = None, quant: str = "f32") -> np.ndarray:
    with kazeia.load(model, quant=quant, threads=1, cache_dir=cache) as engine:
        return engine.synthesize(TEXT, seed=1, max_frames=3).pcm


def flip(file: Path, at: int | None = None) -> None:
    """Change one bit; size and times of modification stay as they were."""
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    with file.open("r+b") as stream:
        stream.write(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file.stat().st_size == times.st_size
    assert file.stat().st_mtime_ns == times.st_mtime_ns


def flip_first(file: Path) -> None:
    flip(file, 0)


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\n")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: tuple[Callable[[Path], None], ...] = (
    flip,
    flip_first,
    shorten,
    lengthen,
    empty,
    Path.unlink,
    replace_by_folder,
)


def test_a_bundle_moved_elsewhere_says_the_same_bits(
    built: Path, bundle: Path, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    said = speak(built)
    assert np.array_equal(speak(checkpoint("tiny")), said)
    moved = bundle.rename(tmp_path / "moved elsewhere")
    assert np.array_equal(speak(moved), said)
    assert np.array_equal(speak(Path(os.path.relpath(moved)), tmp_path / "cache"), said)
    assert not (tmp_path / "cache" / "bundles").exists()  # used where it lies
    os.symlink(moved, tmp_path / "link")
    assert np.array_equal(speak(tmp_path / "link"), said)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda d: d.__name__)
def test_damage_to_any_file_is_refused_by_its_name(built: Path, tmp_path: Path, damage: Any) -> None:
    listed = names(built)
    assert len(listed) > 20
    # Big files are known by their hashes of before: let them be remembered first.
    cache = tmp_path / "cache"
    bundle = edits.copy(built, tmp_path / "bundle")
    time.sleep(0.06)
    open_bundle(bundle, cache)
    for name in listed:
        if name == MANIFEST and damage is lengthen:
            continue  # white space after it changes nothing
        whole = (bundle / name).read_bytes()
        damage(bundle / name)
        with pytest.raises(BundleError) as caught:
            kazeia.load(bundle, quant="f32", cache_dir=cache)
        message = str(caught.value)
        assert name in message, message
        assert "again" in message or "cannot be read" in message
        with pytest.raises(KazeiaError):
            kazeia.inspect(bundle, cache_dir=cache)
        if (bundle / name).is_dir():
            (bundle / name).rmdir()
        (bundle / name).write_bytes(whole)
    open_bundle(bundle, cache)


def test_the_big_files_are_remembered_and_still_found_out(built: Path, tmp_path: Path) -> None:
    bundle = edits.copy(built, tmp_path / "bundle")
    big = [name for name in names(bundle) if (bundle / name).stat().st_size >= 1 << 20]
    assert big  # otherwise nothing here is tested
    time.sleep(0.06)
    open_bundle(bundle, tmp_path / "cache")
    remembered = json.loads((tmp_path / "cache" / "file-hashes.json").read_text())
    assert {os.path.realpath(bundle / name) for name in big} <= set(remembered)
    for name in big:
        flip(bundle / name)
        with pytest.raises(BundleError, match=f"{name}.*changed since"):
            open_bundle(bundle, tmp_path / "cache")
        flip(bundle / name)


def test_no_byte_of_the_manifest_can_change_unseen(bundle: Path) -> None:
    file = bundle / MANIFEST
    data = file.read_bytes()
    draw = random.Random(3)
    for at in draw.sample(range(len(data)), 150):
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        if json_or_none(bytes(changed)) == json.loads(data):
            continue  # white space
        file.write_bytes(changed)
        with pytest.raises(BundleError, match=r"manifest\.json|bundle version"):
            open_bundle(bundle)


def json_or_none(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m.pop("files"), "'files'"),
        (lambda m: m.update(files=[]), "'files'"),
        (lambda m: m.update(files={}), "changed since it was written"),
        (lambda m: m["files"].update({"talker.onnx": 5}), "changed since it was written"),
        (lambda m: m["files"].popitem(), "changed since it was written"),
        (lambda m: m.update(quant="q8"), "changed since it was written"),
        (lambda m: m.update(codec_states={"a": [1]}), "changed since it was written"),
        (lambda m: m.pop("sha256"), "changed since it was written"),
        (lambda m: m.update(sha256=None), "changed since it was written"),
        (lambda m: m.update(fingerprint=7), "'fingerprint'"),
        (lambda m: m.pop("version"), "bundle version None"),
        (lambda m: m.update(format="other"), "not the manifest"),
    ],
)
def test_a_manifest_that_was_edited_is_refused(
    bundle: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    edits.change_json(bundle / MANIFEST, change)
    with pytest.raises(BundleError, match=told):
        kazeia.load(bundle, quant="f32")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"kazeia-bundle"', b"[" * 100_000]
)
def test_a_manifest_that_is_none_is_refused_as_a_bundle(bundle: Path, content: bytes) -> None:
    (bundle / MANIFEST).write_bytes(content)
    assert is_bundle(bundle)  # not sent to the reader of checkpoints, who would miss the weights
    with pytest.raises(BundleError, match=r"manifest\.json"):
        kazeia.load(bundle, quant="f32")


@pytest.mark.parametrize("version", [0, 1, BUNDLE_VERSION + 1, "2", None])
def test_a_bundle_of_another_version_is_refused_and_says_so(bundle: Path, version: object) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest.update(version=version, kazeia="0.0.9")
        manifest["sha256"] = seal(manifest)

    edits.change_json(bundle / MANIFEST, change)
    told = rf"{bundle}.*version {version!r}.*Kazeia 0\.0\.9.*reads version {BUNDLE_VERSION}.*kazeia convert"
    with pytest.raises(BundleError, match=told):
        kazeia.load(bundle, quant="f32")


@pytest.mark.parametrize("quant", ["q8", "q4"])
def test_a_bundle_of_another_format_is_refused_by_name(built: Path, quant: str) -> None:
    with pytest.raises(OptionError, match=f"f32 weights, but {quant}.*asked for"):
        kazeia.load(built, quant=quant)


def test_neither_bundle_nor_checkpoint_is_no_model(tmp_path: Path) -> None:
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "missing")
    (tmp_path / MANIFEST).write_text('{"format": "other"}')
    assert not is_bundle(tmp_path)
    with pytest.raises(ModelNotFoundError):
        kazeia.load(tmp_path)


# ---- in the cache ----


def cached(cache: Path) -> Path:
    (bundle,) = (p for p in (cache / "bundles").iterdir() if p.suffix != ".lock")
    return bundle


@pytest.fixture(scope="module")
def filled(checkpoint: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the bundle in it, all hashes remembered; its damage is repaired by every test."""
    cache = tmp_path_factory.mktemp("filled")
    speak(checkpoint("tiny"), cache)
    time.sleep(0.06)
    speak(checkpoint("tiny"), cache)
    return cache


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("talker.weights", flip),
        ("heads/07.onnx", Path.unlink),
        ("codec_decoder.weights", empty),
        (MANIFEST, flip),
        ("text_rows.npy", replace_by_folder),
    ],
)
def test_damage_in_the_cache_is_repaired_with_a_warning_that_names_it(
    built: Path, checkpoint: Callable[[str], Path], filled: Path, name: str, damage: Any
) -> None:
    before = cached(filled)
    damage(before / name)
    with pytest.warns(KazeiaWarning, match=f"made again.*{name}") as warned:
        said = speak(checkpoint("tiny"), filled)
    assert warned[0].filename == __file__
    assert cached(filled) == before
    assert np.array_equal(said, speak(built))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kazeia.load(checkpoint("tiny"), quant="f32", cache_dir=filled).close()


def test_an_older_version_in_the_cache_is_built_again_with_a_warning(
    built: Path, checkpoint: Callable[[str], Path], filled: Path
) -> None:
    edits.change_json(cached(filled) / MANIFEST, lambda m: m.update(version=0))
    with pytest.warns(KazeiaWarning, match=r"made again.*bundle version 0"):
        assert np.array_equal(speak(checkpoint("tiny"), filled), speak(built))


def test_altered_weights_are_not_spoken_with_the_old_bundle(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    model = edits.copy(checkpoint("tiny"), tmp_path / "model")
    cache = tmp_path / "cache"
    said = speak(model, cache)
    time.sleep(0.06)
    speak(model, cache)
    weights = model / "model.safetensors"
    times = weights.stat()
    data = np.frombuffer(weights.read_bytes(), np.uint8).copy()
    place = 8 + int.from_bytes(data[:8].tobytes(), "little")
    for name, (_, _, stored) in edits.read_tensors(weights).items():
        if name == "talker.codec_head.weight":
            data[place + 1 : place + len(stored) : 2] ^= 0x80  # the sign of every bfloat16
        place += len(stored)
    with weights.open("r+b") as stream:
        stream.write(data.tobytes())
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert weights.stat().st_size == times.st_size
    assert not np.array_equal(speak(model, cache), said)
    assert len([p for p in (cache / "bundles").iterdir() if p.suffix != ".lock"]) == 2


def test_a_bundle_of_a_random_model_still_says_that_it_makes_noise(tmp_path: Path) -> None:
    folder = kazeia.build_bundle("random:tiny", quant="q8", out=tmp_path / "bundle")
    assert kazeia.inspect(folder).is_random
    with kazeia.load(folder) as engine:
        assert engine.is_random

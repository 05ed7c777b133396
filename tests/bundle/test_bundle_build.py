"""Building a bundle: whole or not at all, whatever happens meanwhile (L02, L07)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edits
import kazeia
from kazeia import BundleError, ConfigError, KazeiaWarning, OptionError, WeightsError
from kazeia.bundle import BUNDLE_VERSION, open_bundle
from kazeia.testing import make_checkpoint

TEXT = "Hello there."
PROJECTION = "talker.code_predictor.small_to_mtp_projection"


def bundles(cache: Path) -> list[Path]:
    """Everything in the cache's folder of bundles but the locks."""
    folder = cache / "bundles"
    return sorted(p for p in folder.iterdir() if p.suffix != ".lock") if folder.is_dir() else []


def speak(model: Path, cache: Path, quant: str = "f32") -> np.ndarray:
    with kazeia.load(model, quant=quant, threads=1, cache_dir=cache) as engine:
        return engine.synthesize(TEXT, seed=1, max_frames=3).pcm


def speaker(model: Path, cache: Path) -> list[str]:
    """A command that loads the model and prints a hash of what it says."""
    program = (
        "import sys, hashlib, kazeia\n"
        "engine = kazeia.load(sys.argv[1], quant='f32', threads=1, cache_dir=sys.argv[2])\n"
        "pcm = engine.synthesize('Hello there.', seed=1, max_frames=3).pcm\n"
        "print(hashlib.sha256(pcm.tobytes()).hexdigest())\n"
    )
    return [sys.executable, "-W", "error", "-c", program, str(model), str(cache)]


# ---- tensors ----


def test_the_projection_is_wanted_exactly_when_the_widths_differ(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    tiny, wide = checkpoint("tiny"), checkpoint("tiny-1b7")
    assert PROJECTION + ".weight" not in edits.read_tensors(tiny / "model.safetensors")
    assert len(speak(tiny, tmp_path)) == len(speak(wide, tmp_path)) == 3 * 1920
    for part in ("weight", "bias"):
        lacking = edits.copy(wide, tmp_path / part)
        edits.change_tensor(lacking, f"{PROJECTION}.{part}", lambda values: None)
        with pytest.raises(WeightsError, match=f"{PROJECTION}.{part}.*missing"):
            kazeia.load(lacking, quant="f32", cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("talker.model.layers.2.self_attn.k_norm.weight", "f32"),
        ("talker.codec_head.weight", "q8"),
        ("talker.code_predictor.lm_head.14.weight", "q4"),
        ("talker.text_projection.linear_fc2.bias", "f32"),
        ("speech_tokenizer/decoder.decoder.6.conv.bias", "f32"),
        ("speech_tokenizer/decoder.quantizer.rvq_rest.vq.layers.14._codebook.cluster_usage", "q8"),
    ],
)
def test_a_missing_or_misshapen_tensor_is_named_and_nothing_is_left(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str, quant: str
) -> None:
    changes: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
        "missing": lambda values: None,
        "found shape": lambda values: np.concatenate([values, values[:1]]),
        "expected": lambda values: values[None],
    }
    for number, (told, change) in enumerate(changes.items()):
        folder = edits.copy(checkpoint("tiny"), tmp_path / str(number))
        part, _, tensor = name.rpartition("/")
        edits.change_tensor(folder / part, tensor, change)
        with pytest.raises(WeightsError, match=f"{tensor}.*{told}"):
            kazeia.load(folder, quant=quant, cache_dir=tmp_path / "cache")
    with pytest.raises(WeightsError, match=tensor):
        kazeia.build_bundle(folder, quant=quant, out=tmp_path / "out", cache_dir=tmp_path / "cache")
    assert not bundles(tmp_path / "cache")
    assert not [p for p in tmp_path.iterdir() if "out" in p.name]


def test_a_kind_of_model_that_cannot_speak_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "design", "tiny-design")
    cache = tmp_path / "cache"
    with pytest.raises(ConfigError, match=r"voice_design.*custom_voice"):
        kazeia.load(folder, cache_dir=cache)
    with pytest.raises(ConfigError, match="voice_design"):
        kazeia.build_bundle(folder, quant="q8", out=tmp_path / "out", cache_dir=cache)
    assert not bundles(cache)
    assert not (tmp_path / "out").exists()
    assert kazeia.inspect(folder, cache_dir=cache).type == "voice_design"  # it may be looked at


# ---- the cache ----


def test_a_bundle_is_built_once_and_progress_is_told(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    told: list[tuple[str, float]] = []
    for _ in range(2):
        kazeia.load(
            checkpoint("tiny"),
            quant="q8",
            cache_dir=tmp_path,
            progress=lambda *stage: told.append(stage),
        ).close()
    shares = [share for _, share in told]
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(bundles(tmp_path)) == 1


def test_every_format_and_every_content_has_a_bundle_of_its_own(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = edits.copy(checkpoint("tiny"), tmp_path / "model")
    cache = tmp_path / "cache"
    first = speak(folder, cache)
    speak(folder, cache, "q8")
    assert len(bundles(cache)) == 2
    moved = folder.rename(tmp_path / "moved")
    assert np.array_equal(speak(moved, cache), first)
    assert len(bundles(cache)) == 2  # content counts, not the place
    edits.change_tensor(moved, "talker.codec_head.weight", lambda values: -values)
    assert not np.array_equal(speak(moved, cache), first)
    assert len(bundles(cache)) == 3
    edits.change_tensor(moved / "speech_tokenizer", "decoder.decoder.6.conv.weight", lambda values: -values)
    speak(moved, cache)
    edits.change_json(moved / "generation_config.json", lambda c: c.update(max_new_tokens=99))
    speak(moved, cache)
    assert len(bundles(cache)) == 5


def test_two_processes_that_build_at_once_make_one_sound_bundle(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    commands = [
        subprocess.Popen(speaker(checkpoint("tiny"), tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = {process.communicate()[0] for process in commands}
    assert [process.returncode for process in commands] == [0, 0]
    assert len(said) == 1
    (bundle,) = bundles(tmp_path)
    open_bundle(bundle)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("stage", ["talker", "checksums"])
def test_a_build_killed_half_way_is_repaired_by_the_next(
    checkpoint: Callable[[str], Path], tmp_path: Path, stage: str
) -> None:
    program = (
        "import os, signal, sys, kazeia\n"
        "def progress(stage, share):\n"
        "    if stage == sys.argv[3]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "kazeia.load(sys.argv[1], quant='f32', cache_dir=sys.argv[2], progress=progress)\n"
    )
    command = [sys.executable, "-c", program, str(checkpoint("tiny")), str(tmp_path), stage]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    (left,) = bundles(tmp_path)
    assert left.name.startswith(".building-")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        speak(checkpoint("tiny"), tmp_path)  # and no lock is in the way
    (bundle,) = bundles(tmp_path)
    assert not bundle.name.startswith(".")


def test_a_waiting_process_takes_what_the_other_has_built(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    # The lock is held from outside: the process must wait, then find the bundle instead of building it.
    from filelock import FileLock

    elsewhere = tmp_path / "elsewhere"
    speak(checkpoint("tiny"), elsewhere)
    (ready,) = bundles(elsewhere)
    cache = tmp_path / "cache"
    (cache / "bundles").mkdir(parents=True)
    target = cache / "bundles" / ready.name
    program = (
        "import sys, kazeia\nkazeia.load(sys.argv[1], quant='f32', cache_dir=sys.argv[2], progress=print)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(checkpoint("tiny")), str(cache)]
    with FileLock(f"{target}.lock"):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        time.sleep(1.5)
        assert process.poll() is None
        shutil.copytree(ready, target)
        built = target.stat().st_ino
    said, _ = process.communicate()
    assert process.returncode == 0
    assert said == b""  # no progress: nothing was built
    assert target.stat().st_ino == built


# ---- disks and folders ----


def full(*args: object, **kwargs: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "place",
    [
        "kazeia.bundle_build.shutil.copyfile",
        "kazeia.bundle_build._write_table",
        "kazeia.graphs.builder.WeightFile.append",
        "kazeia.graphs.builder.GraphBuilder.save",
        "kazeia.bundle_build.json.dump",
        "kazeia.bundle_build.os.fsync",
        "pathlib.Path.rename",
    ],
)
def test_a_full_disk_is_a_named_error_and_leaves_nothing(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(place, full)
        with pytest.raises(BundleError, match=r"No space left.*nothing was left.*[Ff]ree some space"):
            kazeia.load(checkpoint("tiny"), quant="f32", cache_dir=tmp_path)
        with pytest.raises(BundleError, match="No space left"):
            kazeia.build_bundle(checkpoint("tiny"), quant="q8", out=tmp_path / "out", cache_dir=tmp_path)
    assert not bundles(tmp_path)
    assert not [p for p in tmp_path.iterdir() if "out" in p.name]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a small tmpfs")
def test_a_disk_that_is_really_full_does_not_kill_the_process(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    # A table written through a memory map would end in SIGBUS; no except clause sees that.
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    program = (
        "import subprocess, sys, kazeia\n"
        "for size in (1000, 1600, 2000, 2400, 2800, 3400):\n"
        "    subprocess.run(['mount', '-o', f'remount,size={size}k', sys.argv[2]], check=True)\n"
        "    try:\n"
        "        kazeia.load(sys.argv[1], quant='f32', cache_dir=sys.argv[2])\n"
        "    except kazeia.BundleError as error:\n"
        "        print(error)\n"
    )
    command = [sys.executable, "-c", program, str(checkpoint("tiny")), str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        left = bundles(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert all("No space left" in line for line in lines)
    assert not left


def test_an_interrupt_leaves_nothing(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    def progress(stage: str, share: float) -> None:
        if stage == "talker":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kazeia.load(checkpoint("tiny"), quant="f32", cache_dir=tmp_path, progress=progress)
    assert not bundles(tmp_path)


@pytest.mark.parametrize("where", ["cache", "cache/bundles", "parent"])
def test_a_cache_that_cannot_be_made_is_said_with_what_to_do(
    checkpoint: Callable[[str], Path], tmp_path: Path, where: str
) -> None:
    cache = tmp_path / "cache"
    if where == "parent":
        (tmp_path / "file").write_text("in the way")
        cache = tmp_path / "file" / "cache"
    else:
        (tmp_path / where).parent.mkdir(exist_ok=True)
        (tmp_path / where).write_text("in the way")
    with pytest.raises(BundleError, match=r"cache_dir=.*KAZEIA_CACHE") as caught:
        kazeia.load(checkpoint("tiny"), cache_dir=cache)
    assert str(cache) in str(caught.value)


def test_a_ready_bundle_in_a_read_only_cache_works(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = speak(checkpoint("tiny"), tmp_path)
    for lock in (tmp_path / "bundles").glob("*.lock"):
        lock.unlink()

    def refuse(*args: object, **kwargs: object) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for place in (
        "filelock.FileLock.acquire",
        "pathlib.Path.mkdir",
        "tempfile.mkstemp",
        "pathlib.Path.rename",
        "os.replace",
    ):
        monkeypatch.setattr(place, refuse)
    assert np.array_equal(speak(checkpoint("tiny"), tmp_path), said)
    with pytest.raises(BundleError, match=r"Read-only.*cache_dir="):
        speak(checkpoint("tiny"), tmp_path, "q8")  # this one would have to be built


@pytest.mark.parametrize("name", ["é 中 文", "-a.b..[c]*"])
def test_folders_of_any_name_hold_models_caches_and_bundles(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    model = edits.copy(checkpoint("tiny"), tmp_path / name / "model")
    said = speak(model, tmp_path / name / "cache")
    out = kazeia.build_bundle(model, quant="f32", out=tmp_path / name / "out", cache_dir=tmp_path / "cache")
    assert np.array_equal(speak(out, tmp_path / "cache"), said)


def test_the_cache_may_be_named_by_the_environment(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAZEIA_CACHE", str(tmp_path / "there"))
    kazeia.load(checkpoint("tiny"), quant="q4", threads=1).close()
    assert len(bundles(tmp_path / "there")) == 1
    kazeia.load(checkpoint("tiny"), quant="q4", threads=1, cache_dir=tmp_path / "here").close()
    assert len(bundles(tmp_path / "here")) == 1
    assert len(bundles(tmp_path / "there")) == 1


# ---- build_bundle(out=…) ----


def test_out_may_be_new_empty_or_an_older_bundle_but_nothing_else(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    def build(out: Path, quant: str = "f32") -> Path:
        return kazeia.build_bundle(checkpoint("tiny"), quant=quant, out=out, cache_dir=tmp_path / "cache")

    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "deep", tmp_path / "empty"):
        assert open_bundle(build(out)).quant == "f32"
    edits.change_json(tmp_path / "empty" / "manifest.json", lambda m: m.update(version=0))
    assert open_bundle(build(tmp_path / "empty", "q8")).quant == "q8"
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "taken", checkpoint("tiny")):
        with pytest.raises(BundleError, match=r"not a bundle.*new folder"):
            build(out)
    assert (tmp_path / "file").read_text() == (tmp_path / "taken" / "thesis.txt").read_text() == "mine"
    assert not list(tmp_path.rglob(".building-*"))


def test_unknown_formats_are_refused_by_name_before_any_work(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="q5"):
        kazeia.build_bundle(checkpoint("tiny"), quant="q5", out=tmp_path / "out", cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_manifest_tells_what_the_bundle_is(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    out = kazeia.build_bundle(checkpoint("tiny"), quant="q4", out=tmp_path / "out", cache_dir=tmp_path)
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert manifest["format"] == "kazeia-bundle"
    assert manifest["version"] == BUNDLE_VERSION
    assert manifest["quant"] == "q4"
    assert manifest["kazeia"] == kazeia.__version__
    listed = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == listed
    info = kazeia.inspect(out)
    assert (info.type, info.size, info.sample_rate) == ("custom_voice", "0b6", 24000)


def test_a_bundle_made_in_passing_has_the_bytes_of_any_other(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    # Nothing in it depends on the time, the place or the process.
    def files(folder: Path) -> dict[str, bytes]:
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    out = kazeia.build_bundle(checkpoint("tiny"), quant="q4", out=tmp_path / "out", cache_dir=tmp_path)
    kazeia.load(checkpoint("tiny"), quant="q4", cache_dir=tmp_path / "cache").close()
    (cached,) = bundles(tmp_path / "cache")
    assert files(cached) == files(out)


def test_a_damaged_bundle_in_the_cache_is_replaced_not_mended(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    said = speak(checkpoint("tiny"), tmp_path)
    (bundle,) = bundles(tmp_path)
    (bundle / "manifest.json").unlink()
    (bundle / "stray").write_text("left by someone")
    with pytest.warns(KazeiaWarning, match=r"made again.*manifest\.json"):
        assert np.array_equal(speak(checkpoint("tiny"), tmp_path), said)
    assert bundles(tmp_path) == [bundle]
    assert not (bundle / "stray").exists()


@pytest.mark.parametrize("name", ["notes.txt", "talker.onnx", "mine.wav"])
def test_a_folder_with_the_users_own_files_is_never_replaced(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    folder = kazeia.build_bundle(checkpoint("tiny"), quant="q8", out=tmp_path / "bundle")
    kazeia.build_bundle(checkpoint("tiny"), quant="q4", out=folder)  # a bundle may be replaced
    (tmp_path / "own").mkdir()
    for place in (folder, tmp_path / "own"):
        if name == "talker.onnx" and place == folder:
            continue  # that one is the bundle's
        (place / name).write_text("precious")
        with pytest.raises(kazeia.BundleError, match="not a bundle alone"):
            kazeia.build_bundle(checkpoint("tiny"), quant="q8", out=place)
        assert (place / name).read_text() == "precious"


def test_a_bundle_may_be_replaced_from_within(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kazeia.build_bundle(checkpoint("tiny"), quant="q8", out=tmp_path / "bundle")
    monkeypatch.chdir(folder)
    kazeia.build_bundle(checkpoint("tiny"), quant="q4", out=".")
    assert kazeia.load(folder, quant="q4").quant == "q4"
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_an_obstacle_in_the_cache_is_replaced(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = kazeia.build_bundle(checkpoint("tiny"), quant="q8", cache_dir=tmp_path)
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    with pytest.warns(kazeia.KazeiaWarning, match="made again"):
        assert kazeia.build_bundle(checkpoint("tiny"), quant="q8", cache_dir=tmp_path) == folder
    assert folder.is_dir()


def test_a_bundle_is_no_checkpoint(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = kazeia.build_bundle(checkpoint("tiny"), quant="q8", out=tmp_path / "bundle")
    with pytest.raises(kazeia.OptionError, match="a bundle already"):
        kazeia.build_bundle(folder, quant="q4", out=tmp_path / "other")

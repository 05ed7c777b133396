"""From a model's name to an opened bundle: folders, hub ids, random models, and the cache of bundles."""

from __future__ import annotations

import hashlib
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from kazeia._warn import warn
from kazeia.bundle import BUNDLE_VERSION, Bundle, foreign_files, is_bundle, open_bundle
from kazeia.bundle_build import Progress, build_bundle_at, remove_leftovers
from kazeia.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from kazeia.errors import BundleError, ConfigError, ModelNotFoundError, OptionError
from kazeia.quant import quant_name

RANDOM = "random:"
EMBEDDED = "embedded"
"""The name of the voice that the package carries."""
_VOICE = Path(__file__).parent / "voice"


@dataclass(frozen=True)
class OpenModel:
    """A bundle, and how it was named."""

    bundle: Bundle
    name: str


@dataclass(frozen=True)
class ModelInfo:
    """What a model says of itself, without being loaded."""

    name: str
    """The name it was asked for by."""
    path: Path
    """Its folder."""
    type: str
    """"custom_voice", "base" or "voice_design"."""
    size: str
    """"0b6" or "1b7"."""
    voices: tuple[str, ...]
    """Preset voices; the first is the default."""
    languages: tuple[str, ...]
    """Languages, besides "auto"."""
    sample_rate: int
    """Hz."""
    is_random: bool
    """Whether the weights are random numbers, and the sound therefore noise."""


def inspect(model: str | os.PathLike[str] | None = None, *, cache_dir: str | Path | None = None) -> ModelInfo:
    """Read a model's description. Nothing is built or loaded. Raises CheckpointError or BundleError."""
    name, cache = model_name(model), cache_folder(cache_dir)
    folder = _bundle_folder(name)
    opened: Bundle | Checkpoint
    if folder is not None:
        opened = open_bundle(folder, cache)
    else:
        with _checkpoint(name, cache) as opened:
            pass
    is_random = is_random_name(name) or (isinstance(opened, Bundle) and opened.is_random)
    talker = opened.config.talker
    return ModelInfo(
        name=name,
        path=opened.path,
        type=opened.config.tts_model_type,
        size=opened.config.tts_model_size,
        voices=tuple(talker.spk_id),
        languages=talker.languages,
        sample_rate=opened.codec_config.sample_rate,
        is_random=is_random,
    )


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The cache: `cache_dir`, else KAZEIA_CACHE, else the platform's cache folder for kazeia."""
    chosen = cache_dir or os.environ.get("KAZEIA_CACHE")
    return (
        Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("kazeia", appauthor=False))
    )


def model_name(model: str | os.PathLike[str] | None) -> str:
    """The name given, else KAZEIA_MODEL, else "embedded". Raises ModelNotFoundError for an empty name."""
    name = os.fspath(model) if model is not None else os.environ.get("KAZEIA_MODEL") or EMBEDDED
    if not name:
        raise ModelNotFoundError(
            "the model's name is empty; pass a checkpoint folder, a bundle, a hub id such as "
            f'"Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice", or "{EMBEDDED}" for the voice that comes with Kazeia'
        )
    return name


def _bundle_folder(name: str) -> Path | None:
    """The bundle that a name means, if it means one."""
    folder = Path(name).expanduser()
    return folder if name != EMBEDDED and is_bundle(folder) else None


def open_model(
    model: str | Path | None,
    quant: str,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> OpenModel:
    """Open the model's bundle, building it in the cache when it is not there yet.

    A bundle in the cache that is damaged is built again, with a KazeiaWarning that says why.
    Raises ModelNotFoundError, ConfigError, WeightsError, OptionError or BundleError.
    """
    quant = quant_name(quant)
    name = model_name(model)
    cache = cache_folder(cache_dir)
    if folder := _bundle_folder(name):
        bundle = open_bundle(folder, cache)
        check_kind(bundle.config, folder)
        if bundle.quant != quant:
            raise OptionError(
                f"{folder}: this bundle holds {bundle.quant} weights, but {quant} was asked for; "
                f"ask for {bundle.quant}, or give the checkpoint it was made from"
            )
        return OpenModel(bundle, name)
    with _checkpoint(name, cache, progress) as checkpoint:
        check_kind(checkpoint.config, checkpoint.path)
        bundle = _cached_bundle(checkpoint, quant, cache, name, progress)
    return OpenModel(bundle, name)


def build_bundle(
    model: str | Path,
    *,
    quant: str,
    out: str | Path | None = None,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build the bundle of a checkpoint, at `out` or in the cache, and return its folder.

    `out` must not exist yet, or be an older bundle, which is replaced. Raises as `open_model` does.
    """
    quant = quant_name(quant)
    cache = cache_folder(cache_dir)
    name = os.fspath(model)
    if _bundle_folder(name):
        raise OptionError(f"{name}: this is a bundle already; give the checkpoint it was made from")
    with _checkpoint(name, cache, progress) as checkpoint:
        check_kind(checkpoint.config, checkpoint.path)
        if out is None:
            return _cached_bundle(checkpoint, quant, cache, name, progress).path
        folder = Path(out).expanduser().resolve()
        _check_place(os.fspath(out), folder)
        fingerprint = checkpoint.fingerprint(cache)
        with _lock_for(folder, cache):
            remove_leftovers(folder)
            build_bundle_at(
                checkpoint, quant, folder, fingerprint, progress, is_random=is_random_name(name), replace=True
            )
        return folder


def _check_place(asked: str, folder: Path) -> None:
    """Raise BundleError unless a bundle may be written at `folder`: new, empty, or nothing but a bundle."""
    if not asked:
        raise BundleError("the folder for the bundle has an empty name; give a new folder")
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return
    foreign = foreign_files(folder)
    if foreign:
        raise BundleError(
            f"{folder}: exists and is not a bundle alone (it holds {', '.join(foreign[:3])}); "
            "choose a new folder"
        )


def _lock_for(folder: Path, cache: Path) -> AbstractContextManager[object]:
    """A lock against others who build at the same place; none where the cache cannot be written."""
    try:
        return _lock(cache / "locks" / hashlib.sha256(os.fsencode(folder)).hexdigest())
    except BundleError:
        return nullcontext()


def check_kind(config: ModelConfig, path: Path) -> None:
    """Raise ConfigError for a kind of model that this version cannot speak with."""
    if config.tts_model_type != "custom_voice":
        raise ConfigError(
            f"{path}: tts_model_type is {config.tts_model_type!r}; this version of "
            'Kazeia speaks with "custom_voice" models only'
        )


def _checkpoint(name: str, cache: Path, progress: Progress | None = None) -> Checkpoint:
    if not is_random_name(name):
        return open_checkpoint(_VOICE if name == EMBEDDED else name)
    from kazeia.testing import random_model_path

    def written(done: int, total: int) -> None:
        if progress is not None:
            progress("random weights", done / total)

    return open_checkpoint(random_model_path(name, cache / "random", written))


def is_random_name(name: str) -> bool:
    """Whether the name asks for a model of random numbers."""
    return name.startswith(RANDOM)


def _cached_bundle(
    checkpoint: Checkpoint, quant: str, cache: Path, name: str, progress: Progress | None
) -> Bundle:
    fingerprint = checkpoint.fingerprint(cache)
    folder = cache / "bundles" / f"{fingerprint[:20]}-{quant}-v{BUNDLE_VERSION}"
    try:
        return open_bundle(folder, cache)
    except BundleError as error:
        damage = error if os.path.lexists(folder) else None
    lock = _lock(folder)
    with lock:
        remove_leftovers(folder)
        try:  # another process may have built it while this one waited
            return open_bundle(folder, cache)
        except BundleError:
            if damage is not None:
                warn(f"the prepared model is made again now, because it cannot be used: {damage}")
        build_bundle_at(
            checkpoint,
            quant,
            folder,
            fingerprint,
            progress,
            is_random=is_random_name(name),
            replace=damage is not None,
        )
    return open_bundle(folder, cache)


def _lock(folder: Path) -> FileLock:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        with lock:
            pass
    except OSError as error:
        raise BundleError(
            f"{folder.parent}: the model has to be prepared once, and this cache folder cannot be written "
            f"({error.strerror or error}); choose another with cache_dir=, --cache-dir or KAZEIA_CACHE"
        ) from error
    return lock

"""From a name to the folder of a checkpoint (spec §1.1).

A local folder comes first, then the hub's cache, and only then the hub itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kazeia.checkpoint._fields import read_json
from kazeia.checkpoint.config import (
    CODEC_CONFIG_FILE,
    CONFIG_FILE,
    MODEL_TYPE,
    TOKENIZER_TYPE,
)
from kazeia.checkpoint.generation import GENERATION_FILE
from kazeia.checkpoint.safetensors import read_weight_map
from kazeia.errors import CheckpointError, ConfigError, ModelNotFoundError, WeightsError

CODEC_FOLDER = "speech_tokenizer"
TOKENIZER_FILES = ("vocab.json", "merges.txt")
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_WEIGHTS = (WEIGHTS_FILE, INDEX_FILE, "model-*.safetensors")
_HUB_FILES = [
    CONFIG_FILE,
    GENERATION_FILE,
    *TOKENIZER_FILES,
    *_WEIGHTS,
    CODEC_CONFIG_FILE,
    *(f"{CODEC_FOLDER}/{pattern}" for pattern in _WEIGHTS),
]
_NAMED_AT_MOST = 5


def resolve_folder(name: str | Path) -> Path:
    """The folder of the checkpoint `name`: a path, or a hub id "owner/name".

    An existing local path always wins and is never sent to a hub. A hub id is looked up in the local
    cache without any network call; the hub is asked only when files are missing there.
    Raises ModelNotFoundError, listing what is missing and where it looked, and ConfigError for the
    folder of another kind of model.
    """
    text = os.fspath(name)
    if not text.strip():
        raise ModelNotFoundError('the model\'s name is empty; give a folder or a hub id such as "owner/name"')
    path = Path(os.path.expanduser(text))
    if os.path.isdir(path):
        check_folder(path)
        return path
    if os.path.exists(path):
        raise ModelNotFoundError(
            f"{path}: is a file; give the folder that holds {CONFIG_FILE}, such as {path.absolute().parent}"
        )
    if isinstance(name, str) and _HUB_ID.fullmatch(name):
        return _from_hub(name, path)
    raise ModelNotFoundError(
        f'{text}: no such folder (looked at {_absolute(path)}), and not a hub id of the form "owner/name"'
    )


def check_folder(folder: Path) -> None:
    """Raise unless `folder` holds every file of a checkpoint; the error lists all that is missing."""
    missing = missing_files(folder)
    _refuse_other_model(folder, missing)
    if missing:
        raise ModelNotFoundError(
            f"{_absolute(folder)}: not a complete checkpoint; missing: {', '.join(missing)}{_advice(folder)}"
        )


def missing_files(folder: Path, *, shards: bool = False) -> list[str]:
    """The files of a checkpoint that `folder` lacks, by their paths in it.

    With `shards` the shards listed by an index are looked for too; opening the weights does so anyway.
    """
    missing = [name for name in (CONFIG_FILE, *TOKENIZER_FILES) if not (folder / name).is_file()]
    missing += _missing_weights(folder, "", shards)
    codec = folder / CODEC_FOLDER
    if not codec.is_dir():
        return [*missing, f"{CODEC_FOLDER}/ (the folder of the codec)"]
    if not (codec / "config.json").is_file():
        missing.append(CODEC_CONFIG_FILE)
    return missing + _missing_weights(codec, f"{CODEC_FOLDER}/", shards)


def _missing_weights(folder: Path, prefix: str, shards: bool) -> list[str]:
    if (folder / WEIGHTS_FILE).is_file():
        return []
    index = folder / INDEX_FILE
    if not index.is_file():
        return [prefix + WEIGHTS_FILE]
    if not shards:
        return []
    try:
        names = sorted(set(read_weight_map(index).values()))
    except WeightsError:
        return []  # opening it tells what is wrong with it
    return [prefix + name for name in names if not (folder / name).is_file()]


def _model_type(folder: Path) -> str | None:
    try:
        found = read_json(folder / CONFIG_FILE).get("model_type")
    except ConfigError:
        return None
    return found if isinstance(found, str) else None


def _refuse_other_model(folder: Path, missing: list[str]) -> None:
    """Raise ConfigError when the folder's config.json is another model's; ours, or none, is let through."""
    file = folder / CONFIG_FILE
    if not file.is_file():
        return
    found = read_json(file).get("model_type")
    if found == MODEL_TYPE:
        return
    if found == TOKENIZER_TYPE:
        raise ConfigError(
            f"{file}: this is the speech tokenizer alone; give the folder of a whole model, with the "
            f"speech tokenizer in {CODEC_FOLDER}/"
        )
    told = "no model_type" if found is None else f'model_type "{found}"'
    also = f". Missing there as well: {', '.join(missing)}" if missing else ""
    raise ConfigError(
        f'{file}: found {told}, expected model_type "{MODEL_TYPE}": '
        f"not the folder of a Qwen3-TTS-12Hz model{also}"
    )


def _advice(folder: Path) -> str:
    """Where a checkpoint lies nearby, if one does: in a hub cache's snapshot, or one folder down."""
    snapshots = [*_snapshots(folder), *(s for child in _folders(folder) for s in _snapshots(child))]
    if snapshots:
        return f". This is a hub cache; use the snapshot in it: {_list(snapshots)}"
    inside = [child for child in _folders(folder) if _model_type(child) == MODEL_TYPE]
    if inside:
        return f". These folders in it look like checkpoints, give one of them: {_list(inside)}"
    return ""


def _snapshots(folder: Path) -> list[Path]:
    return [child for child in _folders(folder / "snapshots") if _model_type(child) == MODEL_TYPE]


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError:
        return []


def _list(paths: list[Path]) -> str:
    shown = ", ".join(str(_absolute(path)) for path in paths[:_NAMED_AT_MOST])
    rest = len(paths) - _NAMED_AT_MOST
    return shown if rest <= 0 else f"{shown} and {rest} more"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _from_hub(repo: str, looked_at: Path) -> Path:
    # Imported here: it is slow to import, and a local folder does without it.
    from huggingface_hub import constants, snapshot_download

    cache = constants.HF_HUB_CACHE
    folder = _cached(repo)
    if folder is not None and not missing_files(folder, shards=True):
        check_folder(folder)
        return folder
    state = f"{repo}: no such folder (looked at {_absolute(looked_at)}); as a hub id it is "
    state += f"not in the local cache {cache}" if folder is None else f"incomplete in the cache, {folder}"
    try:
        # The config first: gigabytes of another model are not fetched to find out that it is another.
        folder = Path(snapshot_download(repo, allow_patterns=[CONFIG_FILE]))
        _refuse_other_model(folder, [])
        folder = Path(snapshot_download(repo, allow_patterns=_HUB_FILES))
    except CheckpointError:
        raise
    except Exception as error:  # the HTTP library's own errors differ from version to version of the hub's
        raise ModelNotFoundError(f"{state}, and {_why(error)}") from error
    missing = missing_files(folder, shards=True)
    if missing:
        # Without network the library may return the incomplete copy without a word.
        raise ModelNotFoundError(
            f"{repo}: its copy from the hub, {folder}, lacks {', '.join(missing)}: either this is not a "
            "Qwen3-TTS-12Hz model, or the hub could not be reached (no network, or offline mode "
            "HF_HUB_OFFLINE) to complete the copy"
        )
    check_folder(folder)
    return folder


def _cached(repo: str) -> Path | None:
    """The repository's snapshot in the local cache, complete or not; no network call is made."""
    from huggingface_hub import snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo, allow_patterns=_HUB_FILES, local_files_only=True))
    except LocalEntryNotFoundError:
        # Newer versions of the library also say this when any file is missing, even one we can do without.
        config = try_to_load_from_cache(repo, CONFIG_FILE)
        return Path(config).parent if isinstance(config, str) else None
    except ValueError as error:
        raise ModelNotFoundError(f"{repo}: neither a folder nor a valid hub id ({error})") from error


def _why(error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return "the hub wants you to accept its licence and log in first ('hf auth login')"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no such model, or it is private and you are not logged in"
    if isinstance(error, LocalEntryNotFoundError):
        return (
            "the hub could not be reached (no network, or offline mode HF_HUB_OFFLINE); "
            "connect once to download it, or give a local folder"
        )
    return f"downloading it failed ({type(error).__name__}: {error})"

"""Content hashes of a checkpoint's files, with a small cache for the big ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kazeia.errors import CheckpointError

CACHE_FILE = "file-hashes.json"

_BIG = 1 << 20  # bytes; smaller files are hashed faster than looked up
_ENTRIES_AT_MOST = 256
_BLOCK = 1 << 22  # bytes
_TICK = 50_000_000  # ns; file times move in steps of up to 10 ms
_COARSE_TICK = 2_000_000_000  # ns; some file systems keep whole seconds


def fingerprint(files: Mapping[str, Path], cache: Path | None = None) -> str:
    """A SHA-256 (hex) over names and contents: equal files give it wherever they lie.

    `files` maps a name within the checkpoint to the file; `cache` is as in `file_digests`.
    Raises CheckpointError when a file cannot be read.
    """
    whole = hashlib.sha256()
    for name, digest in sorted(file_digests(files, cache).items()):
        whole.update(f"{name}\0{digest}\n".encode())
    return whole.hexdigest()


def file_digests(files: Mapping[str, Path], cache: Path | None = None) -> dict[str, str]:
    """The SHA-256 (hex) of each file, by the name it was given under.

    `cache` is a folder where the hashes of big files are remembered by real path, size, and times of
    modification and change; one that cannot be read or written is passed over. Raises
    CheckpointError when a file cannot be read.
    """
    known = _load(cache) if cache is not None else {}
    fresh: dict[str, list[int | str]] = {}
    digests = {name: _digest(path, known, fresh) for name, path in files.items()}
    if cache is not None and fresh:
        _save(cache, {**known, **fresh})
    return digests


def _digest(path: Path, known: Mapping[str, list[int | str]], fresh: dict[str, list[int | str]]) -> str:
    real = os.path.realpath(path)
    began = time.time_ns()
    try:
        before = _state(real)
        entry = known.get(real)
        if entry is not None and entry[:3] == before:
            return str(entry[3])
        digest = _hash(real)
        # A file that changed while it was read, or may yet change within one tick of its clock, has no
        # hash worth remembering.
        if before[0] >= _BIG and _state(real) == before and _settled(before, began):
            fresh[real] = [*before, digest]
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    return digest


def _state(real: str) -> list[int]:
    status = os.stat(real)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _settled(state: list[int], now: int) -> bool:
    """True when a later change of the file must show in its times; `now` is in ns since the epoch."""
    latest = max(state[1:])
    whole_seconds = all(moment % 1_000_000_000 == 0 for moment in state[1:])
    return now - latest > (_COARSE_TICK if whole_seconds else _TICK)


def _hash(real: str) -> str:
    digest = hashlib.sha256()
    with open(real, "rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _load(cache: Path) -> dict[str, list[int | str]]:
    try:
        table = json.loads((cache / CACHE_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {path: entry for path, entry in table.items() if _is_entry(entry)}


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 4
        and all(type(number) is int for number in entry[:3])
        and isinstance(entry[3], str)
        and len(entry[3]) == 64
    )


def _save(cache: Path, table: Mapping[str, list[int | str]]) -> None:
    kept = dict(list(table.items())[-_ENTRIES_AT_MOST:])
    temporary = ""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=CACHE_FILE, suffix=".part", dir=cache)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(kept, stream)
        os.replace(temporary, cache / CACHE_FILE)
    except (OSError, ValueError):
        # Only time is lost: the files are hashed again next time.
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

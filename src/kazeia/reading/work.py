"""The folder beside the output in which a reading keeps what it has spoken, until the book is whole.

manifest.jsonl   a line about the reading, then one for each finished piece
<key>.wav        a piece, 16 bit; `Piece.key` is its name, so that a changed text or setting is another file
lock             held by the process that is at work
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from kazeia._warn import warn
from kazeia.audio.files import atomic_file
from kazeia.audio.wav import HEADER_BYTES, wav_bytes
from kazeia.errors import AudioError, OptionError
from kazeia.generation import FinishReason
from kazeia.random import check_seed

SUFFIX = ".kazeia"
MANIFEST = "manifest.jsonl"
LOCK = "lock"
VERSION = 1
_PIECE = re.compile(r"[0-9a-f]{40}\.wav")
_TEMPORARY = re.compile(r"\..*\.tmp")


@dataclass(frozen=True)
class Finished:
    """A piece that has been spoken and stored."""

    key: str
    samples: int
    sha256: str
    """Of the file."""
    finish_reason: FinishReason
    seed: int
    text: str


def work_path(output: str | os.PathLike[str]) -> Path:
    """Where the folder of an output is."""
    return Path(os.path.realpath(output) + SUFFIX)


class WorkFolder:
    """The folder of one output file, locked as long as the block lasts.

    Raises AudioError when it cannot be made or written, belongs to something else, or another process is
    at work in it.
    """

    def __init__(self, output: str | os.PathLike[str], sample_rate: int) -> None:
        self.path = work_path(output)
        self.seed: int | None = None
        """Of the reading that was begun here, None if there was none."""
        self.finished: dict[str, Finished] = {}
        self._output, self._rate = os.fspath(output), sample_rate
        self._lock = FileLock(self.path / LOCK)

    def __enter__(self) -> WorkFolder:
        try:
            foreign = self._foreign() if os.path.lexists(self.path) else []
            if foreign:
                raise AudioError(
                    f"{self.path}: a reading into {self._output} is kept under this name while it is made, "
                    f"but there is something else (it holds {', '.join(foreign[:3])}); move that away"
                )
            self.path.mkdir(exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise AudioError(
                f"cannot write {self._output}: another process is reading into it (it holds "
                f"{self.path / LOCK}); wait for it, or choose another name"
            ) from None
        except OSError as error:
            raise self._cannot_write(error) from error
        try:
            self._sweep()
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self.finished:
            self.remove()  # there is nothing to go on from
        self._lock.release()

    def begin(self, seed: int) -> None:
        """Write down the seed. Pieces of other readings stay until the end: they may be wanted again."""
        self.seed = seed
        self._write_manifest()

    def save(self, key: str, pcm: NDArray[np.float32], reason: FinishReason, seed: int, text: str) -> None:
        """Keep a piece. pcm: (n,) floats of -1 … 1. Raises AudioError, and GenerationError for NaN."""
        data = wav_bytes(pcm, self._rate)
        with atomic_file(self._file(key)) as file:
            file.write(data)
        entry = Finished(key, len(pcm), hashlib.sha256(data).hexdigest(), reason, seed, text)
        try:
            with open(self.path / MANIFEST, "ab") as manifest:
                manifest.write(_line(asdict(entry)))
                manifest.flush()
                os.fsync(manifest.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error
        self.finished[key] = entry

    def pcm(self, key: str) -> NDArray[np.float32]:
        """A finished piece (n,), floats that become the stored 16-bit samples again."""
        try:
            data = self._file(key).read_bytes()[HEADER_BYTES:]
        except OSError as error:
            raise AudioError(f"cannot read {self._file(key)}: {error.strerror or error}") from error
        samples: NDArray[np.float32] = np.frombuffer(data, "<i2").astype(np.float32)
        samples /= 32767
        return samples

    def remove(self) -> None:
        """Take the folder away. What cannot be removed stays, with a warning."""
        try:
            for name in os.listdir(self.path):
                if name != LOCK and self._is_ours(name):
                    os.unlink(self.path / name)
            self._lock.release()  # not every system removes what is held
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / LOCK)
            os.rmdir(self.path)
        except OSError as error:
            warn(f"{self.path} could not be removed ({error.strerror or error}); it is not needed any more")

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.wav"

    def _foreign(self) -> list[str]:
        """What is in the way: names that are none of ours, or the path itself if it is no folder."""
        if not self.path.is_dir():
            return [self.path.name]
        names = sorted(os.listdir(self.path))
        return [name for name in names if not self._is_ours(name)]

    @staticmethod
    def _is_ours(name: str) -> bool:
        return name in (MANIFEST, LOCK) or bool(_PIECE.fullmatch(name) or _TEMPORARY.fullmatch(name))

    def _sweep(self) -> None:
        """Remove what a killed process had half written."""
        for name in os.listdir(self.path):
            if _TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):
                    os.unlink(self.path / name)

    def _open(self) -> None:
        """Read the manifest as far as it goes, and keep what is sound."""
        try:
            lines = (self.path / MANIFEST).read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._cannot_write(error) from error
        head = _parsed(lines[0])
        if head is None or head.get("version") != VERSION or not _is_seed(head.get("seed")):
            warn(f"{self.path / MANIFEST} is damaged or from another version of Kazeia: all is spoken anew")
            return
        self.seed = head["seed"]
        for line in lines[1:]:
            entry = _parsed(line)
            if entry is None or "kazeia" in entry:
                continue  # what a killed process was writing
            finished = Finished(**entry)
            state = self._state(finished)
            if state == "sound":
                self.finished[finished.key] = finished
            elif state == "damaged":
                warn(f"{self._file(finished.key)} has changed since it was written: it is spoken anew")

    def _state(self, entry: Finished) -> Literal["sound", "damaged", "missing"]:
        try:
            data = self._file(entry.key).read_bytes()
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise AudioError(f"cannot read {self._file(entry.key)}: {error.strerror or error}") from error
        return "sound" if hashlib.sha256(data).hexdigest() == entry.sha256 else "damaged"

    def _write_manifest(self) -> None:
        head = {"kazeia": "reading", "version": VERSION, "seed": self.seed, "output": self._output}
        with atomic_file(self.path / MANIFEST) as file:
            for fields in (head, *map(asdict, self.finished.values())):
                file.write(_line(fields))

    def _cannot_write(self, error: OSError) -> AudioError:
        return AudioError(
            f"cannot write in {self.path}: {error.strerror or error}; choose another place for the output, "
            "or make room there"
        )


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _is_seed(value: object) -> bool:
    try:
        check_seed(value)
    except OptionError:
        return False
    return True


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line of the manifest, None for one that is not whole."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    wanted = {"kazeia", "version", "seed", "output"}, set(Finished.__dataclass_fields__)
    return fields if isinstance(fields, dict) and set(fields) in wanted else None

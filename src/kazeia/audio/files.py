"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kazeia.errors import AudioError


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise AudioError if `path` plainly cannot be written: better before the work than after it."""
    target = Path(path)
    parent = target.parent
    if os.path.isdir(target):
        raise AudioError(f"cannot write {target}: it is a folder; give the name of a file in it")
    if not os.path.isdir(parent):
        found = "it is not a folder" if os.path.exists(parent) else "there is no such folder"
        raise AudioError(f"cannot write {target}: {parent}: {found}; make it first")
    try:
        os.lstat(target)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _cannot_write(target, error) from error


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it: a raw (unbuffered) file may take less than it is given."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> AudioError:
    reason = error.strerror or str(error)
    return AudioError(f"cannot write {os.fspath(path)}: {reason}; choose another place, or make room there")


@contextlib.contextmanager
def atomic_file(
    path: str | os.PathLike[str], *, scratch: str | os.PathLike[str] | None = None
) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` only if the block ends without an error.

    Until then it lies beside it (or in the folder `scratch`, which must be on the same disk) under a
    hidden temporary name, which is removed on any error, Ctrl-C included. A link is followed; an existing
    file keeps its permissions. What is no regular file (a named pipe, /dev/stdout) is written to directly.
    Raises AudioError, saying what and where.
    """
    check_target(path)
    try:
        mode = os.stat(path).st_mode if os.path.exists(path) else None
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as device:
                yield device
            return
        real = os.path.realpath(path)
        folder, name = os.path.split(real)
        # Cut to leave room for the suffix: names are limited to 255 bytes.
        temporary = os.path.join(scratch or folder, f".{name[:40]}.{secrets.token_hex(6)}.tmp")
        # O_EXCL through mode "x", readable too because a muxer may look back; the umask applies as always.
        file = open(temporary, "x+b")  # noqa: SIM115  closed below, before the rename
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            if mode is not None:
                with contextlib.suppress(OSError):
                    os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, real)
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise _cannot_write(path, error) from error

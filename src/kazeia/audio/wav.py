"""16-bit PCM WAV, mono: whole or as a stream, to files, pipes and memory."""

from __future__ import annotations

import os
import struct
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kazeia.audio.files import atomic_file, write_all
from kazeia.errors import AudioError, GenerationError, OptionError

HEADER_BYTES = 44
UNKNOWN_SIZE = 0xFFFF_FFFF
"""Both sizes of a header written to a pipe, where the length cannot be filled in afterwards."""

_BYTES_PER_SAMPLE = 2
_MAX_DATA = UNKNOWN_SIZE - 1 - (HEADER_BYTES - 8)


def to_int16(pcm: NDArray[Any]) -> NDArray[np.int16]:
    """Floating-point samples (n,) of -1 … 1 as int16: clamped, never wrapped.

    The value is x * 32767 rounded half to even, so that both full scales are reached alike.
    Raises GenerationError if a sample is NaN or infinite, OptionError if this is not a row of floats.
    """
    samples = np.asarray(pcm)
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise OptionError(f"pcm has shape {samples.shape} of {samples.dtype}; expected (samples,) of floats")
    finite = np.isfinite(samples)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        raise GenerationError(
            f"codec decoder: {bad.size} of {samples.size} samples are NaN or infinite, the first at sample "
            f"{bad[0]}; the weights or the build are damaged; rebuild the bundle or try quant='f32'"
        )
    # float64 holds the product exactly, so halves are seen as halves.
    scaled = np.clip(samples.astype(np.float64), -1.0, 1.0) * 32767.0
    return np.rint(scaled).astype(np.int16)


def wav_header(data_bytes: int | None, sample_rate: int) -> bytes:
    """The canonical 44-byte header for 16-bit mono; sizes are 0xFFFFFFFF if `data_bytes` is None."""
    if isinstance(sample_rate, bool) or not isinstance(sample_rate, Integral):
        raise OptionError(f"sample_rate is {sample_rate!r}; it must be an integer, in Hz")
    if not 0 < sample_rate <= UNKNOWN_SIZE // _BYTES_PER_SAMPLE:
        raise OptionError(f"sample_rate is {sample_rate}; it must be a positive number of Hz")
    if data_bytes is not None and data_bytes > _MAX_DATA:
        raise AudioError(f"{data_bytes} bytes of audio; a WAV file holds at most {_MAX_DATA} (4 GiB)")
    riff = UNKNOWN_SIZE if data_bytes is None else data_bytes + HEADER_BYTES - 8
    data = UNKNOWN_SIZE if data_bytes is None else data_bytes
    rate = int(sample_rate)
    # "fmt " chunk: 16 bytes, PCM, 1 channel, rate, bytes per second, block align, bits
    form = struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * _BYTES_PER_SAMPLE, _BYTES_PER_SAMPLE, 16)
    return b"RIFF" + struct.pack("<I", riff) + b"WAVEfmt " + form + b"data" + struct.pack("<I", data)


def pcm_bytes(pcm: NDArray[Any]) -> bytes:
    """The samples as little-endian 16-bit PCM; see `to_int16`."""
    return to_int16(pcm).astype("<i2", copy=False).tobytes()


def wav_bytes(pcm: NDArray[Any], sample_rate: int) -> bytes:
    """A complete WAV file in memory, with exact sizes. pcm: (n,) floats of -1 … 1."""
    data = pcm_bytes(pcm)
    return wav_header(len(data), sample_rate) + data


def write_wav(path: str | os.PathLike[str], pcm: NDArray[Any], sample_rate: int) -> Path:
    """Write a WAV file atomically: under `path` there is the whole file or what was there before.

    Raises AudioError, saying what and where, if it cannot be written.
    """
    data = wav_bytes(pcm, sample_rate)
    with atomic_file(path) as file:
        file.write(data)
    return Path(path)


class WavWriter:
    """Writes a WAV piece by piece to an open binary file, which stays open afterwards.

    A seekable file gets exact sizes when the writer is closed, also when fewer samples came than
    hoped for. A pipe gets sizes of 0xFFFFFFFF, which players read as "until it ends", and is never
    sought. Each piece is flushed, for someone may be listening.
    """

    def __init__(self, file: BinaryIO, sample_rate: int) -> None:
        self.samples_written = 0
        self._file = file
        self._rate = sample_rate
        self._start = file.tell() if can_patch(file) else None
        self._closed = False
        # Unknown sizes at first: a seekable file that is cut off here still plays.
        self._put(wav_header(None, sample_rate))

    def write(self, pcm: NDArray[Any]) -> None:
        """Append samples (n,), floats of -1 … 1; n may be 0."""
        if self._closed:
            raise AudioError("this WAV is closed; open another writer")
        data = pcm_bytes(pcm)
        total = self.samples_written * _BYTES_PER_SAMPLE + len(data)
        if self._start is not None and total > _MAX_DATA:
            raise AudioError(f"{total} bytes of audio; a WAV file holds at most {_MAX_DATA} (4 GiB)")
        self._put(data)
        self.samples_written += len(data) // _BYTES_PER_SAMPLE

    def close(self) -> None:
        """Fill in the sizes if the file can be sought; may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._start is not None:
            self._file.seek(self._start)
            self._put(wav_header(self.samples_written * _BYTES_PER_SAMPLE, self._rate))
            self._file.seek(0, os.SEEK_END)

    def _put(self, data: bytes) -> None:
        write_all(self._file, data)
        self._file.flush()

    def __enter__(self) -> WavWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a failed write, patching would only hide the first error.
        if kind is None:
            self.close()


def can_patch(file: BinaryIO) -> bool:
    """True if what was written can be rewritten later: seekable, and not opened for appending."""
    if not file.seekable():
        return False
    if "a" in str(getattr(file, "mode", "")):
        return False
    try:
        import fcntl  # `program >> file`: every write lands at the end, wherever one seeks

        return not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_APPEND
    except (ImportError, OSError):  # no such thing on Windows; no descriptor for a BytesIO
        return True

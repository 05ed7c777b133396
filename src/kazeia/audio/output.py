"""Audio files in the formats that people listen to: the format by the name's end, written piece by piece."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from numpy.typing import NDArray

from kazeia.audio.encode import FORMATS, AudioFormat, AvEncoder, Chapter, Encoder, Pipe, pyav, stream_encoder
from kazeia.audio.files import atomic_file, write_all
from kazeia.audio.wav import WavWriter, can_patch
from kazeia.errors import AudioError, OptionError

FILE_FORMATS = {
    name: FORMATS[name] if name != "m4a" else AudioFormat("m4a", "audio/mp4", "aac", "ipod", "fltp", 96_000)
    for name in ("wav", "mp3", "opus", "flac", "m4a", "aac", "pcm")
}
"""The formats of files by their names; those that can be streamed too are in `encode.FORMATS`."""

SUFFIXES = {
    ".wav": "wav",
    ".wave": "wav",
    ".mp3": "mp3",
    ".opus": "opus",
    ".ogg": "opus",
    ".oga": "opus",
    ".flac": "flac",
    ".m4a": "m4a",
    ".m4b": "m4a",
    ".aac": "aac",
    ".pcm": "pcm",
}
"""Which format a file's name asks for by its end, in any case."""

CHAPTERED = ("mp3", "opus", "flac", "m4a")
"""The formats that hold chapter marks."""


class AudioWriter(Protocol):
    """Samples in, in order; the file is complete when it is closed."""

    def write(self, pcm: NDArray[Any]) -> None:
        """Append samples (n,), floats of -1 … 1; n may be 0."""

    def close(self) -> None:
        """Write what is left; may be called twice."""

    def __enter__(self) -> AudioWriter: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def check_format(name: str) -> AudioFormat:
    """The file format called `name`, if it can be made here.

    Raises OptionError listing the known ones, MissingDependencyError where its encoder is not installed.
    """
    if name not in FILE_FORMATS:
        raise OptionError(f"unknown audio format {name!r}; expected one of: {', '.join(FILE_FORMATS)}")
    form = FILE_FORMATS[name]
    if form.codec:
        pyav()
    return form


def format_of(path: str | os.PathLike[str], asked: str | None = None) -> str:
    """The format for a file: `asked`, else by its name's end; without one, "wav".

    Raises OptionError for an end that no format has, or that belongs to another format than `asked`.
    """
    suffix = Path(path).suffix
    meant = SUFFIXES.get(suffix.lower())
    if asked is not None:
        check_format(asked)
        if meant is not None and meant != asked:
            raise OptionError(
                f"{os.fspath(path)}: a name that ends in {suffix} is one of {meant}, but the format asked "
                f"for is {asked}; change one of the two"
            )
        return asked
    if meant is None and suffix:
        raise OptionError(
            f"{os.fspath(path)}: no audio format is known by the end {suffix!r}; expected one of: "
            f"{', '.join(SUFFIXES)}"
        )
    return check_format(meant or "wav").name


def audio_writer(
    file: BinaryIO,
    name: str,
    sample_rate: int,
    *,
    chapters: Sequence[Chapter] = (),
    tags: Mapping[str, str] | None = None,
) -> AudioWriter:
    """A writer of the format `name` to an open binary file, which stays open afterwards.

    Where the file is empty and can be sought the bytes are those of `encode_whole`, whatever the pieces;
    else what would be filled in afterwards is left open. chapters, tags: written where the format holds
    them.
    Raises as `check_format` does, AudioError for a format that needs to seek in a file that cannot.
    """
    form = check_format(name)
    if name == "wav":
        return WavWriter(file, sample_rate)
    if not form.codec:
        return _Writer(stream_encoder(name, sample_rate), file)
    if name == "flac":
        tags = _vorbis_chapters(chapters, sample_rate) | dict(tags or {})
        chapters = ()
    if can_patch(file) and file.tell() == 0:
        return _Writer(AvEncoder(form, sample_rate, file, chapters=chapters, tags=tags), file)
    if name not in FORMATS:
        raise AudioError(f"{name} cannot be written to a pipe while it is made; take aac, or write a file")
    return _Writer(AvEncoder(form, sample_rate, Pipe(), chapters=chapters, tags=tags), file)


@contextlib.contextmanager
def audio_file(
    path: str | os.PathLike[str],
    name: str,
    sample_rate: int,
    *,
    chapters: Sequence[Chapter] = (),
    tags: Mapping[str, str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Iterator[AudioWriter]:
    """An audio file that takes the name `path` only if the block ends without an error; see `atomic_file`."""
    with (
        atomic_file(path, scratch=scratch) as file,
        audio_writer(file, name, sample_rate, chapters=chapters, tags=tags) as writer,
    ):
        yield writer


class _Writer:
    """An encoder's bytes on their way to a file. An encoder that writes there itself returns none."""

    def __init__(self, encoder: Encoder, file: BinaryIO) -> None:
        self._encoder, self._file = encoder, file
        self._closed = False

    def write(self, pcm: NDArray[Any]) -> None:
        self._put(self._encoder.encode(pcm))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._put(self._encoder.finish())
            self._encoder.close()

    def _put(self, data: bytes) -> None:
        write_all(self._file, data)
        if data:
            self._file.flush()  # someone may be listening

    def __enter__(self) -> AudioWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Exception):  # letting go of it writes once more, into what may be broken
            self._encoder.close()


def _vorbis_chapters(chapters: Sequence[Chapter], sample_rate: int) -> dict[str, str]:
    """Chapters as Vorbis comments (the Ogg chapter extension), which FFmpeg's FLAC muxer does not write."""
    tags = {}
    for index, chapter in enumerate(chapters):
        ms = round(chapter.start * 1000 / sample_rate)
        seconds, ms = divmod(ms, 1000)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
        tags[f"CHAPTER{index:03}"] = time
        tags[f"CHAPTER{index:03}NAME"] = chapter.title
    return tags

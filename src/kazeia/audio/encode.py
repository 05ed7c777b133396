"""Speech in the formats that people listen to, encoded piece by piece.

PCM and WAV need nothing; MP3, Opus, AAC and FLAC are FFmpeg's, through PyAV, imported only when used.
The bytes depend on the samples alone, not on the pieces they come in: samples are gathered to the
codec's own frames, and the containers carry no time stamps or random serial numbers. `output` writes files.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from kazeia.audio.wav import pcm_bytes, to_int16, wav_bytes, wav_header
from kazeia.errors import AudioError, MissingDependencyError, OptionError


@dataclass(frozen=True)
class AudioFormat:
    """How a format is named, sent and made."""

    name: str
    media_type: str
    """As in Content-Type; `{rate}` stands for the sample rate."""
    codec: str = ""
    """FFmpeg's encoder; empty for PCM and WAV."""
    container: str = ""
    """FFmpeg's muxer."""
    sample_format: str = "s16"
    """What the encoder takes."""
    bit_rate: int = 0
    """Bits per second; 0 where the format is lossless."""
    codec_options: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    """The muxer's options while streaming."""


FORMATS = {
    f.name: f
    for f in (
        AudioFormat(
            "mp3",
            "audio/mpeg",
            "libmp3lame",
            "mp3",
            "s16p",
            96_000,
            options={"write_xing": "0", "id3v2_version": "0"},  # neither can be filled in while streaming
        ),
        AudioFormat(
            "opus",
            "audio/ogg; codecs=opus",
            "libopus",
            "ogg",
            "s16",
            64_000,
            {"application": "audio", "frame_duration": "20"},
            {"page_duration": "60000"},  # microseconds; a page of one second would be heard a second late
        ),
        AudioFormat("aac", "audio/aac", "aac", "adts", "fltp", 96_000),
        AudioFormat("flac", "audio/flac", "flac", "flac", "s16"),
        AudioFormat("wav", "audio/wav"),
        AudioFormat("pcm", "audio/pcm; rate={rate}; channels=1"),
    )
}
"""The formats by their names in OpenAI's speech contract."""


def audio_format(name: str) -> AudioFormat:
    """The format called `name`. Raises OptionError listing the known ones."""
    if name not in FORMATS:
        raise OptionError(f"unknown audio format {name!r}; expected one of: {', '.join(FORMATS)}")
    return FORMATS[name]


@dataclass(frozen=True)
class Chapter:
    """A chapter mark: samples `start` to `end`, the end not included."""

    title: str
    start: int
    end: int


class Encoder(Protocol):
    """Samples in, bytes out, in order; put together they are one file."""

    def encode(self, pcm: NDArray[Any]) -> bytes:
        """The bytes that these samples (n,), floats of -1 … 1, bring forth; there may be none yet."""

    def finish(self) -> bytes:
        """The last bytes. Nothing can be encoded afterwards."""

    def close(self) -> None:
        """Let go of the codec, finished or not. May be called twice."""


def stream_encoder(name: str, sample_rate: int) -> Encoder:
    """An encoder whose bytes can be sent while more is made.

    Raises OptionError for an unknown format, MissingDependencyError without PyAV.
    """
    form = audio_format(name)
    if form.codec:
        return AvEncoder(form, sample_rate, Pipe())
    return _PcmEncoder(b"" if name == "pcm" else wav_header(None, sample_rate))


def encode_whole(name: str, pcm: NDArray[Any], sample_rate: int) -> bytes:
    """A complete file in memory, its sizes exact. pcm: (n,) floats of -1 … 1.

    Raises as `stream_encoder` does, and GenerationError for NaN.
    """
    form = audio_format(name)
    if name == "pcm":
        return pcm_bytes(pcm)
    if name == "wav":
        return wav_bytes(pcm, sample_rate)
    memory = io.BytesIO()
    encoder = AvEncoder(form, sample_rate, memory)
    try:
        encoder.encode(pcm)
        encoder.finish()
        return memory.getvalue()
    finally:
        encoder.close()


class _PcmEncoder:
    def __init__(self, header: bytes) -> None:
        self._header = header

    def encode(self, pcm: NDArray[Any]) -> bytes:
        header, self._header = self._header, b""
        return header + pcm_bytes(pcm)

    def finish(self) -> bytes:
        header, self._header = self._header, b""
        return header

    def close(self) -> None:
        pass


class Pipe:
    """What the muxer writes to while streaming: it can only go forward."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class AvEncoder:
    """An FFmpeg codec at work, into a `Pipe` whose bytes `encode` and `finish` return, or into a file.

    A file is an open one that can be sought: sizes and durations are filled in at the end, and marks and
    tags (such as title) written where the container has a place for them. What its `write` raises comes
    through. Raises AudioError for what cannot be encoded, MissingDependencyError without PyAV.
    """

    def __init__(
        self,
        form: AudioFormat,
        sample_rate: int,
        target: Pipe | BinaryIO,
        *,
        chapters: Sequence[Chapter] = (),
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self._av = pyav()
        self._form, self._rate, self._target = form, sample_rate, target
        self._left = np.empty(0, np.int16)  # samples that do not fill a codec frame yet
        self._position = 0
        # Without a time or a chance in them, equal samples give equal bytes.
        options = {"fflags": "+bitexact", "flush_packets": "1"}
        if isinstance(target, Pipe):
            options |= form.options
        try:
            self._container: Any = self._av.open(
                target, mode="w", format=form.container, container_options=options
            )
            self._stream: Any = self._container.add_stream(
                form.codec, rate=sample_rate, options={"flags": "+bitexact"} | form.codec_options
            )
            context = self._stream.codec_context
            context.layout, context.format = "mono", form.sample_format
            context.thread_count = 1
            if form.bit_rate:
                context.bit_rate = form.bit_rate
            self._container.metadata.update(tags or {})
            if chapters:
                self._container.set_chapters([_mark(c, i, sample_rate) for i, c in enumerate(chapters)])
            self._container.start_encoding()
        except (self._av.FFmpegError, ValueError) as error:
            raise AudioError(
                f"{form.name} cannot be encoded at {sample_rate} Hz: {error}; take wav or pcm, "
                "or install a PyAV that has this codec"
            ) from error
        self._size: int = context.frame_size or 1024

    def encode(self, pcm: NDArray[Any]) -> bytes:
        samples = np.concatenate([self._left, to_int16(pcm)])
        whole = len(samples) // self._size * self._size
        for start in range(0, whole, self._size):
            self._put(samples[start : start + self._size])
        self._left = samples[whole:]
        return self._taken()

    def finish(self) -> bytes:
        if len(self._left):
            self._put(self._left)
        self._left = np.empty(0, np.int16)
        for packet in self._stream.encode(None):
            self._container.mux(packet)
        self._container.close()
        return self._taken()

    def close(self) -> None:
        self._container.close()

    def _put(self, samples: NDArray[np.int16]) -> None:
        for packet in self._stream.encode(self._frame(samples)):
            self._container.mux(packet)

    def _frame(self, samples: NDArray[np.int16]) -> Any:
        values: NDArray[Any] = samples[None, :]  # (1, n)
        if self._form.sample_format == "fltp":
            values = values.astype(np.float32) / 32768.0
        frame = self._av.AudioFrame.from_ndarray(
            np.ascontiguousarray(values), format=self._form.sample_format, layout="mono"
        )
        frame.sample_rate = self._rate
        frame.pts = self._position
        self._position += len(samples)
        return frame

    def _taken(self) -> bytes:
        return self._target.take() if isinstance(self._target, Pipe) else b""


def _mark(chapter: Chapter, index: int, sample_rate: int) -> dict[str, Any]:
    return {
        "id": index,
        "start": chapter.start,
        "end": chapter.end,
        "time_base": Fraction(1, sample_rate),
        "metadata": {"title": chapter.title},
    }


def encode_stream(name: str, pieces: Iterator[NDArray[Any]], sample_rate: int) -> Iterator[bytes]:
    """Encode pieces of audio one after the other; the bytes that are empty are left out."""
    encoder = stream_encoder(name, sample_rate)
    try:
        for pcm in pieces:
            if data := encoder.encode(pcm):
                yield data
        if data := encoder.finish():
            yield data
    finally:
        encoder.close()


def pyav() -> Any:
    """The module `av`. Raises MissingDependencyError without it."""
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError(
            "MP3, Opus, AAC and FLAC need the package av (PyAV), which is not installed; "
            'run: pip install "kazeia[formats]", or ask for wav or pcm'
        ) from error
    return av

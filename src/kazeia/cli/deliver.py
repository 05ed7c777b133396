"""Where the audio goes: a file, standard output, the loudspeaker."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kazeia.cli.guard import standard_output
from kazeia.cli.order import STDIO

if TYPE_CHECKING:
    from kazeia import Engine, Speech
    from kazeia.audio.output import AudioWriter


_AUDIO = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"\xff")  # how our files begin; M4A has "ftyp" at 4


@dataclass(frozen=True)
class Target:
    """Where one or several speeches go."""

    output: str | None
    """A path, "-" for standard output, None for none."""
    format: str
    play: bool
    stream: bool
    """Whether audio is written while it is generated."""

    def __post_init__(self) -> None:
        from kazeia.audio.encode import FORMATS
        from kazeia.errors import OptionError

        if self.output == STDIO and self.stream and self.format not in FORMATS:
            raise OptionError(
                f"{self.format} cannot be streamed to standard output; take aac, give -o FILE, or leave out "
                "--stream"
            )


def choose_target(output: str | None, format: str | None, play: bool, stream: bool) -> Target:
    """Where the audio goes, refused before any work if it cannot go there."""
    from kazeia.audio.output import check_format

    where = _where(output, play)
    if where is None or where == STDIO:
        name = check_format(format or "wav").name
    else:
        name = checked_file(where, format)
    return Target(where, name, play, stream)


def checked_file(path: str, format: str | None) -> str:
    """The format for a file, if there can be one of that name."""
    from kazeia.audio.files import check_target
    from kazeia.audio.output import check_format, format_of

    name = check_format(format or "wav").name if _is_special(path) else format_of(path, format)
    check_target(path)
    _refuse_other_files(path)
    return name


def _where(output: str | None, play: bool) -> str | None:
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if output is None:
        if play:
            return None
        if terminal or sys.stdout is None:
            raise typer.BadParameter("where should the audio go? give -o FILE, --play, or a pipe")
        return STDIO
    if output == STDIO and terminal:
        raise typer.BadParameter("audio is binary, and standard output is a terminal; give -o FILE")
    return output


def _refuse_other_files(output: str) -> None:
    """Refuse to write over a file that does not look like audio: a slip of the keyboard would destroy it.

    Where the name's end says that it is audio, it is what is meant.
    """
    from kazeia.audio.output import SUFFIXES
    from kazeia.errors import OptionError

    if Path(output).suffix.lower() not in SUFFIXES and os.path.isfile(output):
        with open(output, "rb") as file:
            start = file.read(8)
        if start and start[4:] != b"ftyp" and not start.startswith(_AUDIO):
            raise OptionError(f"{output}: exists and holds no audio; remove it first, or choose another name")


def refuse_the_source(source: str | os.PathLike[str], *outputs: str | os.PathLike[str]) -> None:
    """Refuse to write over the file that is read."""
    from kazeia.errors import OptionError

    for output in outputs:
        if os.path.exists(output) and os.path.exists(source) and os.path.samefile(output, source):
            raise OptionError(f"{os.fspath(output)}: this is the text to be read; choose another name")


@contextlib.contextmanager
def opened(target: Target, sample_rate: int) -> Iterator[AudioWriter | None]:
    """What the samples are written to; a file is there when the block has ended without an error."""
    from kazeia.audio.files import atomic_file
    from kazeia.audio.output import audio_file, audio_writer

    if target.output is None:
        yield None
    elif target.stream and target.output == STDIO:
        with standard_output() as out, audio_writer(out, target.format, sample_rate) as writer:
            yield writer
    elif target.stream or not _is_special(target.output):
        with audio_file(target.output, target.format, sample_rate) as writer:
            yield writer
    else:  # all at once, with exact sizes
        memory = io.BytesIO()
        with audio_writer(memory, target.format, sample_rate) as writer:
            yield writer
        with standard_output() if target.output == STDIO else atomic_file(target.output) as out:
            out.write(memory.getvalue())


def _is_special(output: str) -> bool:
    """Whether this is standard output, a device or a named pipe, and its name says nothing of a format."""
    return output == STDIO or (os.path.exists(output) and not os.path.isfile(output))


def deliver(
    engine: Engine,
    text: str,
    arguments: dict[str, Any],
    *,
    stream: bool,
    writer: AudioWriter | None,
    player: Any,
) -> Speech:
    """Speak a text into what is open. Raises KeyboardInterrupt when it was cancelled."""
    if not stream and player is None:
        speech = engine.synthesize(text, **arguments)
        _stop_if_cancelled(speech)
        if writer is not None:
            writer.write(speech.pcm)
        return speech
    chunks = engine.stream(text, **arguments)  # bad arguments are refused here
    with contextlib.ExitStack() as stack:
        if hasattr(chunks, "close"):
            stack.callback(chunks.close)
        for chunk in chunks:
            if writer is not None:
                writer.write(chunk.pcm)
            if player is not None:
                player.write(chunk.pcm)
            if chunk.is_last:
                break
        else:
            raise RuntimeError("the stream ended without its last chunk")
        if chunk.speech is None:
            raise RuntimeError("the stream's last chunk came without its speech")
        _stop_if_cancelled(chunk.speech)
        return chunk.speech


def _stop_if_cancelled(speech: Speech) -> None:
    if speech.finish_reason == "cancelled":
        raise KeyboardInterrupt

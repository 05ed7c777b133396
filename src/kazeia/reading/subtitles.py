"""Subtitles beside the audio: SubRip (.srt) and WebVTT (.vtt)."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kazeia.errors import OptionError
from kazeia.text import is_wide

LINE_WIDTH = 42
"""Columns of a line; a full-width character takes two."""


@dataclass(frozen=True)
class Cue:
    """A text, and the samples `start` to `end` (not included) in which it is heard."""

    text: str
    start: int
    end: int


def srt(cues: Sequence[Cue], sample_rate: int) -> str:
    """The cues as a SubRip file."""
    parts = []
    for number, cue in enumerate(cues, 1):
        start, end = (_time(at, sample_rate, ",") for at in (cue.start, cue.end))
        parts.append(f"{number}\n{start} --> {end}\n{wrapped(cue.text)}\n")
    return "\n".join(parts)


def vtt(cues: Sequence[Cue], sample_rate: int) -> str:
    """The cues as a WebVTT file."""
    parts = ["WEBVTT\n"]
    for cue in cues:
        start, end = (_time(at, sample_rate, ".") for at in (cue.start, cue.end))
        parts.append(f"{start} --> {end}\n{html.escape(wrapped(cue.text), quote=False)}\n")
    return "\n".join(parts)


SUBTITLES: dict[str, Callable[[Sequence[Cue], int], str]] = {"srt": srt, "vtt": vtt}
"""The formats by their names, which are also the ends of their files' names."""


def check_subtitles(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. Raises OptionError for one that is no format."""
    for name in names:
        if name not in SUBTITLES:
            raise OptionError(f"unknown subtitles {name!r}; expected one of: {', '.join(SUBTITLES)}")
    return tuple(dict.fromkeys(names))


def wrapped(text: str) -> str:
    """The text in lines of at most `LINE_WIDTH` columns; a longer word gets a line of its own."""
    lines = [""]
    for word, spaced in _words(text):
        joined = f"{lines[-1]} {word}" if spaced and lines[-1] else lines[-1] + word
        if _columns(joined) <= LINE_WIDTH or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return "\n".join(lines)


def _words(text: str) -> list[tuple[str, bool]]:
    """What must not be cut, and whether a space stood before it: words, or single full-width characters."""
    found: list[tuple[str, bool]] = []
    for run in text.split():
        spaced = True
        word = ""
        for char in run:
            # Full-width marks such as 。 stay with what they close.
            if word and is_wide(word[-1]) and (char.isalnum() or not is_wide(char)):
                found.append((word, spaced))
                word, spaced = "", False
            word += char
        found.append((word, spaced))
    return found


def _columns(text: str) -> int:
    return sum(2 if is_wide(char) else 1 for char in text)


def _time(sample: int, sample_rate: int, point: str) -> str:
    ms = round(sample * 1000 / sample_rate)
    seconds, ms = divmod(ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"

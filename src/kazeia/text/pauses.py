"""Pauses in a text: `[pause:400ms]`, and those between segments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from kazeia.errors import EmptyTextError, OptionError, TextError
from kazeia.text.clean import is_speakable
from kazeia.text.segments import split_text

MOST_MS = 60_000
"""The longest pause, in milliseconds."""

# Whatever opens like a pause is meant as one, and must be one: a slip of the pen would be spoken aloud.
_MEANT = re.compile(r"\[\s*pause\s*(?=[:=\]0-9])[^\[\]\n]{0,40}\]?", re.IGNORECASE)
_PAUSE = re.compile(r"\[pause:([0-9]{1,5})ms\]|\[pause:([0-9]{1,2}(?:\.[0-9]{1,3})?)s\]")
_ALLOWED = (
    f"allowed are [pause:1ms] to [pause:{MOST_MS}ms] and [pause:0.001s] to [pause:{MOST_MS // 1000}s], "
    "written exactly so; with markup=False (--no-markup) brackets are ordinary text"
)


def check_pause(name: str, value: object) -> None:
    """Raise OptionError unless `value` is a number of milliseconds from 0 to `MOST_MS`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_MS:
        raise OptionError(f"{name} is {value!r}; expected milliseconds, a number from 0 to {MOST_MS}")


def plan_speech(
    text: str, max_chars: int | None, *, markup: bool = True, segment_pause: float = 0
) -> tuple[list[str], list[float]]:
    """What to say, and how long to pause before, between and after: segments, and one pause more, in ms.

    Pauses written in the text count exactly, and part what stands around them; `segment_pause` is between
    the segments that only the text's length makes (`split_text`). Pauses that follow each other add up.
    Raises TextError for markup that is not allowed, EmptyTextError when there is nothing to say but pauses.
    """
    segments: list[str] = []
    pauses: list[float] = [0]
    parts = list(_parts(text)) if markup else [text]
    for part in parts:
        if not isinstance(part, str):
            pauses[-1] += part
            continue
        if len(parts) > 1:
            part = part.strip()
            if not is_speakable(part):
                continue
        for index, segment in enumerate(split_text(part, max_chars)):
            if index:
                pauses[-1] = segment_pause
            segments.append(segment)
            pauses.append(0)
    if not segments:
        raise EmptyTextError(
            "nothing to say: the text holds nothing but pauses and signs that are not spoken"
        )
    return segments, pauses


def check_markup(text: str) -> None:
    """Raise TextError for a pause in `text` that is not written as it has to be, or too long or short."""
    total_pause(text)


def total_pause(text: str) -> int:
    """The milliseconds of all pauses written in `text`. Raises TextError as `check_markup` does."""
    return sum(part for part in _parts(text) if not isinstance(part, str))


def split_pauses(text: str) -> tuple[str, int]:
    """The text without its pauses, and their sum in ms. Raises as `check_markup` does."""
    return "".join(part for part in _parts(text) if isinstance(part, str)), total_pause(text)


def _parts(text: str) -> Iterator[str | int]:
    """The text between pauses, and the pauses in milliseconds, in order."""
    end = 0
    for meant in _MEANT.finditer(text):
        found = _PAUSE.fullmatch(meant[0])
        length = Decimal(0)
        if found is not None:
            length = Decimal(found[1]) if found[1] else Decimal(found[2]) * 1000
        if not 1 <= length <= MOST_MS:
            what = "is out of range" if found else "looks like a pause and is none"
            raise TextError(f"{meant[0]!r} at character {meant.start()} {what}; {_ALLOWED}")
        yield text[end : meant.start()]
        yield int(length)
        end = meant.end()
    yield text[end:]

"""Cutting a long text into segments that are spoken one after the other.

Only white space between segments is dropped: no character is changed, moved or lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kazeia.errors import OptionError
from kazeia.text._boundaries import Level, cuts, width
from kazeia.text.clean import is_speakable

MAX_CHARS = 300
AIM_CHARS = 150  # several segments are spoken at a time and share the reading of the weights

# What a cut costs, against the squared relative distance of a segment from the even size.
_CUT_COST = {
    Level.LINE: 0.0,
    Level.SENTENCE: 0.1,
    Level.CLAUSE: 0.6,
    Level.WORD: 1.5,
    Level.JOINT: 2.5,
    Level.LENGTH: 4.0,
}
# A segment with nothing to say in it is lost, so it is made only when nothing else fits.
_SILENT_COST = 100.0
# Pieces cut by length are this part of a segment, so that they can still be packed evenly.
_FINENESS = 8


@dataclass(frozen=True)
class _Piece:
    """A part of the text that fits a segment; pieces follow each other without a gap."""

    start: int
    stop: int  # without the white space at its end
    level: Level  # of the cut at its end
    speakable: bool


def split_text(text: str, max_chars: int | None = MAX_CHARS) -> list[str]:
    """Cut `text` into segments of at most `max_chars` Latin characters, of about even size.

    A full-width character counts as three, a run of white space as one. A text that fits is one
    segment, unchanged; None never cuts. The size aimed at is `AIM_CHARS`, where that is less than the
    limit and sentences allow it. Cuts fall at line ends, then behind sentences, clauses,
    words and joints of words, then at a length, never inside a grapheme (one longer than the limit
    stays whole).
    White space around a segment is dropped, and so is a segment that holds nothing to say.
    Raises OptionError when `max_chars` is not an integer above 0.
    """
    if max_chars is not None and (type(max_chars) is not int or max_chars < 1):
        raise OptionError(f"max_chars: found {max_chars!r}, expected an integer above 0, or None")
    if not text:
        return []
    widths = _running_widths(text)
    if max_chars is None or widths[-1] <= max_chars:
        return [text]
    pieces = _pieces(text, widths, max_chars)
    segments = (text[start:stop] for start, stop in _pack(pieces, widths, max_chars))
    return [segment for segment in segments if is_speakable(segment)]


def _running_widths(text: str) -> list[int]:
    """Width of `text[:i]` for every i from 0 to len(text)."""
    running = [0]
    total = 0
    blank = False
    for char in text:
        was_blank, blank = blank, char.isspace()
        if not (blank and was_blank):
            total += width(char)
        running.append(total)
    return running


def _pieces(text: str, widths: list[int], limit: int) -> list[_Piece]:
    """Cut the text, going a level deeper only where a piece is still too long."""
    pieces: list[_Piece] = []
    step = max(1, limit // _FINENESS)

    def keep(start: int, stop: int, level: Level) -> None:
        if stop > start:
            pieces.append(_Piece(start, stop, level, is_speakable(text[start:stop])))

    def add(start: int, end: int, level: Level, outer: Level) -> None:
        stop = start + len(text[start:end].rstrip())
        if widths[stop] - widths[start] <= limit:
            keep(start, stop, outer)
            return
        at_level = cuts(text, start, end, level, step)
        if level in (Level.WORD, Level.JOINT):
            at_level = _thinned(at_level, start, widths, step // 2)
        edges = [start, *at_level, end]
        for left, right in pairwise(edges):
            at_end = outer if right == end else level
            if level is Level.LENGTH:
                keep(left, left + len(text[left:right].rstrip()), at_end)
            else:
                add(left, right, Level(level + 1), at_end)

    add(len(text) - len(text.lstrip()), len(text), Level.LINE, Level.LINE)
    return pieces


def _thinned(at_level: list[int], start: int, widths: list[int], least: int) -> list[int]:
    """The cuts that leave at least `least` of width between them: thousands of tiny pieces pack slowly."""
    kept: list[int] = []
    for cut in at_level:
        if widths[cut] - widths[kept[-1] if kept else start] >= least:
            kept.append(cut)
    return kept


def _pack(pieces: list[_Piece], widths: list[int], limit: int) -> list[tuple[int, int]]:
    """Join pieces into the cheapest row of segments: even sizes, few and shallow cuts."""
    if not pieces:
        return []
    total = widths[pieces[-1].stop] - widths[pieces[0].start]
    even = total / max(-(-total // limit), round(total / AIM_CHARS))
    best = [0.0]  # best[j]: the cost of packing the first j pieces
    origin = [0]  # where the last segment of that packing begins
    for j, last in enumerate(pieces, 1):
        cut = _CUT_COST[last.level] if j < len(pieces) else 0.0
        cheapest, at = float("inf"), j - 1
        speakable = False
        for i in range(j - 1, -1, -1):
            size = widths[last.stop] - widths[pieces[i].start]
            if size > limit and i < j - 1:
                break
            speakable = speakable or pieces[i].speakable
            cost = best[i] + cut + ((size - even) / even) ** 2 + (0.0 if speakable else _SILENT_COST)
            if cost < cheapest:
                cheapest, at = cost, i
        best.append(cheapest)
        origin.append(at)
    spans: list[tuple[int, int]] = []
    j = len(pieces)
    while j:
        spans.append((pieces[origin[j]].start, pieces[j - 1].stop))
        j = origin[j]
    return spans[::-1]

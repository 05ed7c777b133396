"""Paragraphs and headings, and how those of a plain text are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kazeia.reading.headings import is_bare, marked_heading, worded_heading
from kazeia.text import is_wide

_WIDEST_WRAP = 120  # characters; where lines are longer, each is a paragraph of its own
_LONGEST_TITLE = 60


@dataclass(frozen=True)
class Block:
    """A paragraph, or a heading."""

    text: str
    level: int = 0
    """1 to 6 for a heading, 0 for a paragraph."""
    line: int = 1
    """Where it begins in the text, from 1."""


def plain_blocks(lines: Sequence[str]) -> Iterator[Block]:
    """The blocks of a plain text.

    Empty lines part paragraphs, and so does every line end where lines are too long to have been wrapped.
    """
    wrap = max((len(line) for line in lines), default=0)
    for number, group in _groups(lines, wrap):
        marked = marked_heading(group[0])
        if marked is not None:  # without a title it is an ornament
            if marked[1]:
                yield Block(marked[1], marked[0], number)
            rest = group[1:]
        elif worded_heading(group[0]) and (len(group) == 1 or is_bare(group[0])):
            title, rest = group[0].strip(), group[1:]
            if len(rest) == 1 and _is_title(rest[0]):
                title, rest = f"{title} – {rest[0].strip()}", []
            yield Block(title, 1, number)
        else:
            rest = group
        if rest:
            yield Block(_joined(rest, wrap), 0, number + len(group) - len(rest))


def run_on(before: str, after: str) -> str:
    """Two lines of one sentence as one: scripts that are written without spaces get none."""
    apart = "" if before and after and is_wide(before[-1]) and is_wide(after[0]) else " "
    return f"{before}{apart}{after}"


def _groups(lines: Sequence[str], wrap: int) -> Iterator[tuple[int, list[str]]]:
    """Lines that belong together, with the number of the first; a marked heading begins a new group."""
    group: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if group and (not line.strip() or marked_heading(line) or wrap > _WIDEST_WRAP):
            yield number - len(group), group
            group = []
        if line.strip():
            group.append(line)


def _is_title(line: str) -> bool:
    """Whether the line below "Chapter 3" is the chapter's title."""
    return len(line.strip()) <= _LONGEST_TITLE and line.rstrip()[-1:] not in ".!?,;:…"


def _joined(lines: Sequence[str], wrap: int) -> str:
    """The lines of a paragraph: those that were wrapped at a width go on, the others end where they end."""
    text = lines[0].strip()
    for line, following in pairwise(lines):
        wrapped = len(line.rstrip()) + 1 + len(following.split()[0]) > wrap
        indented = following[:1].isspace() and not line[:1].isspace()
        if wrapped and not indented:
            text = run_on(text, following.strip())
        else:
            text += "\n" + following.strip()
    return text

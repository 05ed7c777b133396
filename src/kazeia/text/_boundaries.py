"""Where a text may be cut: lines, sentences, clauses, words, joints of words, and graphemes.

Each function returns cut positions, in order: the index at which the next piece begins, behind the
marks, the closing quotes and the white space that belong to the piece before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import IntEnum


class Level(IntEnum):
    """How deep a cut goes into the text; smaller is better."""

    LINE = 0
    SENTENCE = 1
    CLAUSE = 2
    WORD = 3
    JOINT = 4
    LENGTH = 5


_SURE_CLOSERS = "”’›」』）)］\\]】〉》〕｝}〗＂"
# These close in one language and open in another; they close only where white space follows.
_CLOSERS = _SURE_CLOSERS + "\"'“‘«‹»*_"
_END = f"(?=\\s|$|[{_CLOSERS}.,;:!?…—–-])"
# Closers that touch the mark, and the spaced guillemet of French: « Ah ! »
_CLOSING = f"(?:[{_SURE_CLOSERS}]|[{_CLOSERS}]+{_END}|[ \u00a0\u202f][»›]{_END})*"
_WIDE_STOPS = "。！？；｡．।॥؟۔؛։።፧፨၊။។៕།"
_WIDE_COMMAS = "、，：､，،፣፤፥︐"

_LINE = re.compile("\\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\\s*")
_SENTENCE = re.compile(f"(?P<mark>[.!?…⋯‥{_WIDE_STOPS}]+){_CLOSING}(?P<space>\\s*)")
_CLAUSE = re.compile(f"(?P<mark>[,;:]+|[{_WIDE_COMMAS}]+|[—―]+|–(?=\\s)){_CLOSING}(?P<space>\\s*)")
# A space before closing punctuation, or behind an opening quote, is no place to breathe.
_WORD = re.compile(f"(?<![\\s\u200b«‹„“‘¿¡(])[\\s\u200b]+(?![\\s\u200b!?:;,.…»›)%—–{_SURE_CLOSERS}])")
# Inside compound words and addresses.
_JOINT = re.compile(r"[/?&=\-_.,;:+#@~|\\]+(?=[^\W_])")

_TITLES = frozenset({
    "mr", "mrs", "ms", "dr", "prof", "sr", "sra", "srta", "dra", "jr", "st", "mme", "mlle", "vs", "bzw", "ca",
})  # fmt: skip
_BEFORE_NUMBERS = frozenset({"no", "nr", "vol", "fig", "art", "pag", "pág", "núm", "abb", "p", "pp"})
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_LAST_WORD = re.compile(r"[^\W_]+(?:\.[^\W_]+)*$")

# Signs that do not begin a line in Japanese, and Thai and Lao vowels that follow their consonant.
_NOT_FIRST = frozenset("ーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ々〻ヽヾゝゞ\u0e33\u0eb3")
_NOT_LAST = frozenset("\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4")
_JOINERS = frozenset("\u200c\u200d")
_VIRAMA_CLASS = 9


def cuts(text: str, start: int, end: int, level: Level, step: int) -> list[int]:
    """The cuts of `level` strictly between `start` and `end`; `step` is the width for Level.LENGTH."""
    if level is Level.LENGTH:
        return list(_lengths(text, start, end, step))
    if level is Level.LINE:
        found: Iterator[int] = (match.end() for match in _LINE.finditer(text, start, end))
    elif level is Level.WORD:
        found = (match.end() for match in _WORD.finditer(text, start, end))
    elif level is Level.JOINT:
        found = (match.end() for match in _JOINT.finditer(text, start, end))
    else:
        found = _stops(text, start, end, level)
    return sorted({cut for cut in found if start < cut < end and not _tears(text, cut)})


def _stops(text: str, start: int, end: int, level: Level) -> Iterator[int]:
    for match in _SENTENCE.finditer(text, start, end):
        if _sentence_level(text, match) == level:
            yield _behind_quote(text, match.end())
    if level is Level.CLAUSE:
        for match in _CLAUSE.finditer(text, start, end):
            if _separates(text, match):
                yield match.end()


def _behind_quote(text: str, at: int) -> int:
    """Step over a straight quote at `at` that closes one opened in the same line (text without spaces)."""
    if (
        text[at : at + 1] == '"'
        and not text[at - 1].isspace()
        and text.count('"', text.rfind("\n", 0, at) + 1, at) % 2
    ):
        return at + 1
    return at


def _separates(text: str, match: re.Match[str]) -> bool:
    """False inside numbers (3.14, 12:30) and names (example.com)."""
    mark, after = match["mark"], text[match.end() : match.end() + 1]
    if match["space"] or not after:
        return True
    before = text[match.start() - 1 : match.start()]
    if before.isdigit() and after.isdigit():
        return False
    if mark[-1] in _WIDE_STOPS + _WIDE_COMMAS + "—―":
        return True
    # An ASCII mark in a script that is written without spaces.
    return is_wide(after) and after.isalnum()


def _sentence_level(text: str, match: re.Match[str]) -> Level | None:
    if not _separates(text, match):
        return None
    mark = match["mark"]
    if mark[-1] in _WIDE_STOPS:
        return Level.SENTENCE
    # A small letter carries the sentence on: "Stop!" he said. Well… perhaps.
    if text[match.end() : match.end() + 1].islower():
        return Level.CLAUSE
    if mark == ".":
        last = _LAST_WORD.search(text, max(0, match.start() - 24), match.start())
        word = last[0].lower() if last else ""
        numbered = text[match.end() : match.end() + 1].isdigit() and word in _BEFORE_NUMBERS
        # Initials (J. R. R.) and letters between stops (e.g., z.B.), but "I" may end a sentence.
        if word in _TITLES or numbered or (_INITIALS.fullmatch(word) and word != "i"):
            return None
        if word.isdigit() and len(word) <= 2:  # ordinals (3. Oktober) and list numbers
            return Level.CLAUSE
    return Level.SENTENCE


def _lengths(text: str, start: int, end: int, step: int) -> Iterator[int]:
    """Cuts every `step` of width, or a little later where a grapheme is in the way."""
    filled = width(text[start])
    for at in range(start + 1, end):
        if filled >= step and not _sticks(text, at):
            yield at
            filled = 0
        filled += width(text[at])


def _sticks(text: str, at: int) -> bool:
    """True when a word should not be cut before `text[at]`, even where no grapheme is torn."""
    before, char = text[at - 1], text[at]
    if char.isspace() or char in _NOT_FIRST or before in _NOT_LAST or unicodedata.category(char) == "Cf":
        return True
    return _tears(text, at)


def _tears(text: str, at: int) -> bool:
    """True when a cut before `text[at]` would tear a grapheme."""
    before, char = text[at - 1], text[at]
    if char.isascii():
        return before == "\u200d"
    if unicodedata.category(char)[0] == "M" or char in _JOINERS or before == "\u200d":
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":  # skin tones, tags
        return True
    if unicodedata.combining(before) == _VIRAMA_CLASS:  # the next consonant of a conjunct
        return True
    if _is_hangul(before) and _is_hangul(char):  # a syllable spelled in jamo
        return "\u1160" <= char <= "\u11ff" or "\u1100" <= before <= "\u115f"
    if _is_flag(before) and _is_flag(char):  # flags are pairs of letters
        run = at
        while run > 0 and _is_flag(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return "\ud800" <= before <= "\udbff" and "\udc00" <= char <= "\udfff"


def _is_hangul(char: str) -> bool:
    return "\u1100" <= char <= "\u11ff" or "\uac00" <= char <= "\ud7a3"


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def is_wide(char: str) -> bool:
    """True for full-width characters: Chinese, Japanese, Korean and their marks."""
    return unicodedata.east_asian_width(char) in ("W", "F")


def width(char: str) -> int:
    """How long the character is to say, in Latin letters: a full-width one is about a syllable."""
    return 3 if is_wide(char) else 1

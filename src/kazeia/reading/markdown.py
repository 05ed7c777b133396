"""What Markdown means for the ear: its marks are not spoken, its words are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kazeia.reading.blocks import Block, run_on
from kazeia.reading.headings import marked_heading, worded_heading

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FIELD = re.compile(r"(title|author):\s*(.+?)\s*")
_TARGET = r"(?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\]\n]*\])"
_IMAGE = re.compile(r"!\[([^\]\n]*)\]" + _TARGET)
_LINK = re.compile(r"\[([^\]\n]+)\]" + _TARGET)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_REFERENCE = re.compile(r" {0,3}\[[^\]^][^\]]*\]:[ \t]+\S.*")
_ADDRESS = re.compile(r"<([a-z][a-z0-9+.-]*:[^<>\s]+|[^<>\s@]+@[^<>\s@]+)>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]*)?/?>")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_STRONG = re.compile(r"(\*\*\*|\*\*|~~)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"\*(?=[^\s*])([^*\n]*?[^\s*])\*(?!\*)")
_UNDERLINED = re.compile(r"(?<![\w\\])(___|__|_)(?=[^\s_])(.+?)(?<=[^\s_])\1(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_QUOTE = re.compile(r"(?: {0,3}>[ \t]?)+")
_BULLET = re.compile(r"\s*[-*+][ \t]+(?:\[[ xX]\][ \t]+)?(?=\S)")
_ORDERED = re.compile(r"\s*\d{1,9}[.)][ \t]+\S")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")


def front_matter(lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Title and author of a document that begins with fields between lines of ---.

    Returned with the lines without them; empty ones stand there instead, so that numbers stay.
    """
    kept = list(lines)
    ends = [i for i, line in enumerate(kept) if i and line.rstrip() in ("---", "...")]
    if not kept or kept[0].rstrip() != "---" or not ends:
        return {}, kept
    found = (_FIELD.fullmatch(line) for line in kept[1 : ends[0]])
    fields = {match[1]: match[2].strip("\"'") for match in found if match}
    kept[: ends[0] + 1] = [""] * (ends[0] + 1)
    return fields, kept


def markdown_blocks(lines: Sequence[str]) -> Iterator[Block]:
    """The blocks of a document in Markdown: list items are lines, code is read as it stands."""
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), "\n".join(lines))
    parser = _Parser()
    shown = text.split("\n")
    for number, (line, following) in enumerate(zip(shown, [*shown[1:], ""], strict=True), 1):
        yield from parser.take(number, line, following)
    yield from parser.end()


class _Parser:
    """Lines in, blocks out."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # of the paragraph so far
        self._number = 0  # of its first line
        self._broken = False  # whether the last line was ended on purpose
        self._fence: str | None = None  # what closes the code that is open

    def take(self, number: int, line: str, following: str) -> Iterator[Block]:
        """One more line; `following` is the one behind it."""
        fence = _FENCE.match(line)
        if fence is not None and (self._fence is None or fence[1].startswith(self._fence)):
            yield from self.end()
            self._fence = fence[1] if self._fence is None else None
        elif self._fence is not None:
            yield from self._code(number, line)
        else:
            yield from self._text(number, line[_prefix(_QUOTE, line) :], following)

    def end(self, level: int = 0) -> Iterator[Block]:
        """The paragraph, if there is one, ends here; with a level, it was a heading."""
        if self._lines:
            text = "\n".join(filter(None, (plain(line).strip() for line in self._lines)))
            yield Block(text, level, self._number)
        self._lines = []

    def _code(self, number: int, line: str) -> Iterator[Block]:
        if line.strip():
            self._add(number, line, goes_on=False)
        else:
            yield from self.end()

    def _text(self, number: int, line: str, following: str) -> Iterator[Block]:
        marked, underline = marked_heading(line), _UNDERLINE.fullmatch(line)
        if not line.strip():
            yield from self.end()
        elif marked is not None:
            yield from self.end()
            if marked[1]:
                yield Block(plain(marked[1]), marked[0], number)
        elif underline is not None and len(self._lines) == 1 and self._number == number - 1:
            yield from self.end(1 if underline[1][0] == "=" else 2)
        elif _RULE.fullmatch(line) or _REFERENCE.fullmatch(line):
            yield from self.end()
        elif not self._lines and not following.strip() and worded_heading(plain(line)):
            yield Block(plain(line).strip(), 1, number)
        else:
            bullet = _prefix(_BULLET, line)
            item = bullet > 0 or _ORDERED.match(line) is not None
            self._add(number, line[bullet:], goes_on=not item and not self._broken)
            self._broken = line.endswith(("  ", "\\"))

    def _add(self, number: int, line: str, *, goes_on: bool) -> None:
        words = line.strip().removesuffix("\\")
        if not self._lines:
            self._number = number
        if self._lines and goes_on:
            self._lines[-1] = run_on(self._lines[-1], words)
        else:
            self._lines.append(words)


def _prefix(pattern: re.Pattern[str], line: str) -> int:
    """How many characters of the line's beginning match."""
    found = pattern.match(line)
    return found.end() if found else 0


def plain(text: str) -> str:
    """The words of a line: links and images by their text, code and emphasis without marks, tags left out."""
    kept: list[str] = []  # what is no mark, whatever it looks like; it stands aside meanwhile

    def keep(found: re.Match[str]) -> str:
        kept.append(found[found.lastindex or 0])
        return f"\ue000{len(kept) - 1}\ue001"

    text = _ESCAPE.sub(keep, _CODE.sub(keep, text))
    for pattern, instead in ((_IMAGE, r"\1"), (_LINK, r"\1"), (_FOOTNOTE, ""), (_ADDRESS, r"\1"), (_TAG, "")):
        text = pattern.sub(instead, text)
    for _ in range(3):  # emphasis within emphasis
        text = _UNDERLINED.sub(r"\2", _EMPHASIS.sub(r"\1", _STRONG.sub(r"\2", text)))
    for index, words in enumerate(kept):
        text = text.replace(f"\ue000{index}\ue001", words)
    return text

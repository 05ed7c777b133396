"""Text that is still being written, cut into pieces that can be spoken already."""

from __future__ import annotations

from kazeia.errors import OptionError
from kazeia.text._boundaries import Level, cuts, width
from kazeia.text.clean import check_encoding, is_speakable
from kazeia.text.segments import MAX_CHARS

MIN_CLAUSE = 40


class TextFeed:
    """Takes text as it comes and gives it back in pieces that end where a speaker may pause.

    A sentence or a line is given as soon as something follows it, for only then is its end sure
    ("3." may go on with "14", "Dr." with a name); a clause only when the piece has at least
    `min_clause` Latin characters; any piece before it is longer than `max_chars`. The pieces do not
    depend on how the text was cut when it came. White space around them is dropped; what holds
    nothing to say is kept with what follows, or dropped when it grows long.
    """

    def __init__(self, min_clause: int = MIN_CLAUSE, max_chars: int = MAX_CHARS) -> None:
        for name, value in (("min_clause", min_clause), ("max_chars", max_chars)):
            if type(value) is not int or value < 1:
                raise OptionError(f"{name}: found {value!r}, expected an integer above 0")
        self._min_clause = min_clause
        self._max_chars = max_chars
        self._text = ""

    @property
    def pending(self) -> str:
        """What came and was not given back yet."""
        return self._text

    def push(self, text: str) -> list[str]:
        """Take more text and return the pieces that are complete now. Raises TextEncodingError."""
        check_encoding(text)
        pieces = []
        # Character by character where it matters: a cut is judged when its next character comes.
        for char in text:
            self._text = (self._text + char) if self._text or not char.isspace() else ""
            if not char.isspace() and (piece := self._complete(len(self._text) - 1)):
                pieces.append(piece)
        return pieces

    def flush(self) -> list[str]:
        """Return what is left, complete or not; nothing when it holds nothing to say."""
        text, self._text = self._text.strip(), ""
        return [text] if is_speakable(text) else []

    def clear(self) -> None:
        """Forget what is left."""
        self._text = ""

    def _complete(self, last: int) -> str | None:
        """The piece that ends right before the character at `last`, if one does."""
        text = self._text
        before = text[last - 1 : last]
        if last and not before.isalnum() and self._ends(last) and (piece := self._take(last)):
            return piece
        if _width(text) > self._max_chars:
            if not is_speakable(text):  # a ruled line, say: it is dropped, as in whole texts
                self._text = ""
                return None
            for level in (Level.CLAUSE, Level.WORD, Level.LENGTH):
                found = [cut for cut in cuts(text, 0, len(text), level, self._max_chars // 2 or 1) if cut]
                if found and (piece := self._take(found[-1])):
                    return piece
        return None

    def _ends(self, at: int) -> bool:
        text = self._text
        for level in (Level.LINE, Level.SENTENCE):
            if at in cuts(text, 0, len(text), level, 1):
                return True
        return _width(text[:at].rstrip()) >= self._min_clause and at in cuts(
            text, 0, len(text), Level.CLAUSE, 1
        )

    def _take(self, at: int) -> str | None:
        piece = self._text[:at].strip()
        if not is_speakable(piece):
            return None
        self._text = self._text[at:]
        return piece


def _width(text: str) -> int:
    return sum(map(width, text))

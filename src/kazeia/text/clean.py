"""What may be spoken: checks on text, and decoding of bytes, before anything else happens to it."""

from __future__ import annotations

import re
import unicodedata

from kazeia.errors import EmptyTextError, TextEncodingError, TextError

# Signs that have a spoken name ("percent", "and", "at", …), beside letters, digits and currency signs.
_SIGNS = "%‰‱&@+=#§¶°©®™℠№℃℉±×÷√∞"
# A run of one sign is a rule or a heading mark ("=====", "###"), not words.
_RULE = re.compile(f"([{re.escape(_SIGNS)}\\$€£])\\1\\1+")
# Letters by category, but blank (the Hangul fillers) or a picture (the information sign).
_NOT_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2139")


def is_speakable(text: str) -> bool:
    """True when something in `text` can be said.

    That is a letter, a number or a currency sign in any script, or one of % ‰ & @ + = # § ° © ® ™ and
    their like. A run of three or more of one such sign counts as ornament. Punctuation, emoji,
    combining marks and invisible characters alone say nothing.
    """
    kept = _RULE.sub(" ", text)
    return any(_is_speakable_char(char) for char in kept)


def _is_speakable_char(char: str) -> bool:
    category = unicodedata.category(char)
    if category[0] in "LN":
        return char not in _NOT_LETTERS
    return category == "Sc" or char in _SIGNS


def check_text(text: str) -> None:
    """Raise unless `text` can be spoken.

    TextError for anything but a str, TextEncodingError for lone surrogates (bytes that were decoded
    wrongly), EmptyTextError when there is nothing to say: empty, blank, or nothing that `is_speakable`.
    """
    if not isinstance(text, str):
        raise TextError(f"found {type(text).__name__} as the text, expected str")
    check_encoding(text)
    if not text.strip():
        raise EmptyTextError("nothing to say: the text is empty or only white space")
    if not is_speakable(text):
        shown = text.strip()
        shown = shown if len(shown) <= 20 else shown[:20] + "…"
        raise EmptyTextError(f"nothing to say: {shown!a} holds no letter, number or sign that can be spoken")


def check_encoding(text: str) -> None:
    """Raise TextEncodingError when `text` holds a lone surrogate, which no UTF-8 can carry."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextEncodingError(
            f"the text holds a lone surrogate {text[error.start]!a} at character {error.start}; "
            "it was decoded from bytes that are not UTF-8"
        ) from error


def decode_text(data: bytes, name: str) -> str:
    """Decode UTF-8 `data` that came from `name` (a file's name, or "stdin").

    A byte order mark is dropped and CRLF becomes LF; nothing else changes. Raises TextEncodingError
    naming the offset of the first byte that is not UTF-8.
    """
    mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    try:
        text = data[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = mark + error.start
        hint = "; it looks like UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise TextEncodingError(
            f"{name}: not UTF-8 at byte offset {offset} (found 0x{data[offset]:02x}){hint}; "
            f"convert it to UTF-8, as with: iconv -f {'UTF-16' if hint else 'WINDOWS-1252'} -t UTF-8"
        ) from error
    return text.replace("\r\n", "\n")

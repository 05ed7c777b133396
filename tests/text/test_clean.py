"""What may be spoken, and how bytes become text."""

from __future__ import annotations

import pytest

from kazeia.errors import EmptyTextError, TextEncodingError, TextError
from kazeia.text.clean import check_text, decode_text, is_speakable

SILENT = [
    *("...", "***", "—", "?!", "。。。", '""', "!", "…", "- - -", "_", "~~~", "|", "()", "«»", "「」", "،؟"),
    *("😀", "👨‍👩‍👧‍👦", "🇫🇷", "❤️", "ℹ️", "→", "■"),
    *("\u200b", "\ufeff", "\u200d", "\u2060", "\ufe0f", "\u00ad", "\u200e", "\u3164", "\u115f\u1160"),
    *("\u0301", "\u0301\u0302", "\u3099", "\x00", "\x07", "\ue000"),
    *("###", "=====", "+++", "===\n***\n---", "$$$", "%%%%"),
]  # fmt: skip
BLANK = ["", " ", "\t", "\n", " \t\r\n ", "\u00a0", "\u3000", "\u2028\u2029", "\x0b\x0c\x85"]
SPOKEN = [
    *("a", "é", "e\u0301", "я", "中", "か", "한", "ㄱ", "ا", "ह", "ก", "ª", "ǅ"),
    *("1", "٣", "½", "Ⅷ", "①", "二"),
    *("$", "€", "£", "¥", "₹", "%", "‰", "&", "@", "+", "=", "#", "§", "°", "©", "®", "™", "№", "℃", "±"),
    *("...a...", "*** 3 ***", "😀 ok", "\u200bx", "1️⃣", "\ufeffhello", "==a==", "##", "<|im_end|>", "<sigh>"),
]  # fmt: skip


@pytest.mark.parametrize("text", SILENT)
def test_t04_a_text_with_nothing_to_say_is_a_named_error(text: str) -> None:
    assert not is_speakable(text)
    with pytest.raises(EmptyTextError, match="nothing to say"):
        check_text(text)


@pytest.mark.parametrize("text", BLANK)
def test_t05_an_empty_or_blank_text_is_a_named_error(text: str) -> None:
    with pytest.raises(EmptyTextError, match="nothing to say: the text is empty or only white space"):
        check_text(text)


@pytest.mark.parametrize("text", SPOKEN)
def test_letters_numbers_and_signs_are_spoken(text: str) -> None:
    assert is_speakable(text)
    check_text(text)


@pytest.mark.parametrize("text", [None, 1, b"hello", ["hello"]])
def test_only_a_str_is_text(text: object) -> None:
    with pytest.raises(TextError, match=f"found {type(text).__name__} as the text, expected str"):
        check_text(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "at"), [("\ud800", 0), ("ab\udc80c", 2), ("\ude00\ud83d", 0)])
def test_lone_surrogates_are_named_with_their_place(text: str, at: int) -> None:
    with pytest.raises(TextEncodingError, match=rf"lone surrogate .* at character {at};"):
        check_text(text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("Ça va ? 中".encode(), "Ça va ? 中"),
        (b"\xef\xbb\xbfhello", "hello"),
        (b"\xef\xbb\xbf\xef\xbb\xbfhello", "\ufeffhello"),
        (b"one\r\ntwo\r\n\r\nthree\n", "one\ntwo\n\nthree\n"),
        (b"lone\rreturn\n\r", "lone\rreturn\n\r"),
    ],
)
def test_t10_bom_and_crlf_are_tolerated(data: bytes, text: str) -> None:
    assert decode_text(data, "stdin") == text


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("data", "offset", "byte"),
    [
        (b"caf\xe9 cr\xe8me", 3, "e9"),
        (b"\xff", 0, "ff"),
        (b"ab\xc3", 2, "c3"),
        (b"\r\n\xed\xa0\x80", 2, "ed"),
    ],
)
def test_t10_invalid_bytes_are_named_with_their_offset(
    mark: bytes, data: bytes, offset: int, byte: str
) -> None:
    with pytest.raises(
        TextEncodingError, match=rf"^a\.txt: .*offset {len(mark) + offset} \(found 0x{byte}\)"
    ):
        decode_text(mark + data, "a.txt")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_t10_utf_16_is_recognised(encoding: str) -> None:
    with pytest.raises(TextEncodingError, match="looks like UTF-16"):
        decode_text("\ufeffhello".encode(encoding), "a.txt")

"""From text to paragraphs and headings: every word once, none of the marks (T03, T04, T05, T09, T10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kazeia.errors import EmptyTextError, TextEncodingError, TextError
from kazeia.reading import Block, open_book, parse_book
from kazeia.reading.markdown import plain


def texts(text: str, **options: bool) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in parse_book(text, **options).blocks]


# ---- plain text ----


def test_empty_lines_part_paragraphs_and_headings_stand_alone() -> None:
    text = "Before.\n\n\nChapter 1\n\nOne.\n\n# Two\nThree.\n \nFour.\n"
    assert texts(text) == [
        (0, "Before."),
        (1, "Chapter 1"),
        (0, "One."),
        (1, "Two"),
        (0, "Three."),
        (0, "Four."),
    ]


def test_blocks_know_their_lines() -> None:
    lines = [block.line for block in parse_book("One.\n\nChapter 1\n\n\n# Two\nThree.\nFour.\n").blocks]
    assert lines == [1, 3, 6, 7]


def test_wrapped_lines_are_joined_and_others_are_not() -> None:
    text = (
        "It was a dark and stormy night; the rain\n"
        "fell in torrents, except at occasional\n"
        "intervals.\n\n"
        "Roses are red,\nviolets are blue.\n"
    )
    assert texts(text) == [
        (0, "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals."),
        (0, "Roses are red,\nviolets are blue."),
    ]


def test_an_indented_line_begins_anew() -> None:
    text = "The first paragraph is wrapped here and\n   the second one begins with an indent here."
    assert texts(text)[0][1].count("\n") == 1


def test_scripts_without_spaces_get_none_when_lines_are_joined() -> None:
    assert texts("吾輩は猫である。名前はまだ\n無い。") == [(0, "吾輩は猫である。名前はまだ無い。")]


def test_where_lines_are_too_long_to_be_wrapped_each_is_a_paragraph() -> None:
    long = "A sentence that goes on and on. " * 5
    text = f"Chapter 1\n{long}\nShort.\nChapter 2\n{long}"
    assert texts(text) == [
        (1, "Chapter 1"),
        (0, long.strip()),
        (0, "Short."),
        (1, "Chapter 2"),
        (0, long.strip()),
    ]


def test_a_short_line_below_the_chapter_is_its_title() -> None:
    assert texts("CHAPTER I\nThe Beginning\n\nOnce.") == [(1, "CHAPTER I – The Beginning"), (0, "Once.")]
    assert texts("CHAPTER I\nOnce upon a time.\n") == [(1, "CHAPTER I"), (0, "Once upon a time.")]
    assert texts("Chapter 3 was long,\nand so was 4.") == [(0, "Chapter 3 was long, and so was 4.")]


@pytest.mark.parametrize(
    "text",
    ["One.\nTwo.\nThree.", "One.\r\nTwo.\r\nThree.", "One.\n\nTwo.\n\nThree.", "One.\u2028Two.\u2028Three.",
     "\nOne.\rTwo.\n\nThree.", "One.\fTwo.\u2029Three."],
)  # fmt: skip
def test_t03_all_lines_are_spoken(text: str) -> None:
    assert " ".join(" ".join(t for _, t in texts(text)).split()) == "One. Two. Three."


@pytest.mark.parametrize(
    "ornament", ["...", "***", "—", "?!", "。。。", '""', "🙂", "\u200b", "\ufeff", "* * *"]
)
@pytest.mark.parametrize("markdown", [False, True])
def test_t04_ornaments_yield_nothing_and_alone_are_an_error(ornament: str, markdown: bool) -> None:
    assert texts(f"One.\n\n{ornament}\n\nTwo.", markdown=markdown) == [(0, "One."), (0, "Two.")]
    with pytest.raises(EmptyTextError, match="nothing to say"):
        parse_book(ornament, markdown=markdown)


@pytest.mark.parametrize("data", [b"", b" \t\r\n", b"\xef\xbb\xbf", b"# \n\n***"])
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_t05_an_empty_book_is_a_named_error(data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(EmptyTextError, match=f"^nothing to say: .*{name}"):
        open_book(tmp_path / name)


def test_t09_plain_text_is_never_edited() -> None:
    text = "<sigh>Fine. x < y, **not** _marked_ [at](all) `here`."
    assert texts(text) == [(0, text)]


def test_without_headings_all_are_paragraphs() -> None:
    text = "# One\n\nChapter 2\n\nThree."
    assert texts(text, headings=False) == [(0, "One"), (0, "Chapter 2"), (0, "Three.")]


# ---- files ----


def test_t10_a_mark_and_crlf_are_tolerated(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffGrüße.\r\n\r\nZwei.".encode())
    assert open_book(tmp_path / "a.txt").blocks == (Block("Grüße.", 0, 1), Block("Zwei.", 0, 3))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("été".encode("latin-1"), r"not UTF-8 at byte offset 0 .*iconv -f WINDOWS-1252 -t UTF-8"),
        ("\ufeffhello".encode("utf-16-le"), "looks like UTF-16; .*iconv -f UTF-16 -t UTF-8"),
        ("日本語".encode("shift_jis"), "not UTF-8 at byte offset 0"),
    ],
)
def test_other_encodings_are_named_with_what_to_do(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(TextEncodingError, match=said):
        open_book(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"PK\x03\x04\x14", "EPUB"), (b"%PDF-1.7", "PDF"), (b"{\\rtf1", "RTF"), (b"\x1f\x8b\x08", "gzip")],
)
def test_what_is_no_text_is_named(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.epub").write_bytes(data)
    with pytest.raises(TextError, match=f"a.epub: this is .*{said}.*save it as plain text"):
        open_book(tmp_path / "a.epub")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"cannot read the text from .*none.txt: No such file"):
        open_book(tmp_path / "none.txt")


# ---- Markdown ----


def test_markdown_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("**Bold** move.", "utf-8")
    assert open_book(tmp_path / "a.md").blocks[0].text == "Bold move."


def test_headings_of_markdown() -> None:
    text = "Title\n=====\n\nSub\n---\ntext\nmore\n### Deep *one*\n\nChapter 2\n\nEnd."
    assert texts(text, markdown=True) == [
        (1, "Title"), (2, "Sub"), (0, "text more"), (3, "Deep one"), (1, "Chapter 2"), (0, "End."),
    ]  # fmt: skip


def test_paragraphs_lists_quotes_and_code() -> None:
    text = (
        "One\nline.\n\n- first\n  goes on\n- [ ] second\n1. third\n\n> quoted\n> too\n\n"
        "hard  \nbreak\\\nhere\n\n```py\n# no heading\nx = 1\n```\n\n[ref]: http://x.y\n\n* * *\n"
    )
    assert texts(text, markdown=True) == [
        (0, "One line."),
        (0, "first goes on\nsecond\n1. third"),
        (0, "quoted too"),
        (0, "hard\nbreak\nhere"),
        (0, "# no heading\nx = 1"),
    ]


def test_front_matter_and_comments_are_not_spoken() -> None:
    text = '---\ntitle: "A book"\nauthor: Zoë\nlang: fr\n---\n# One\n<!-- not\nthis -->\nTwo.\n'
    book = parse_book(text, markdown=True)
    assert (book.title, book.author) == ("A book", "Zoë")
    assert book.blocks == (Block("One", 1, 6), Block("Two.", 0, 9))


def test_a_rule_at_the_beginning_is_no_front_matter() -> None:
    assert texts("---\n\nOne.", markdown=True) == [(0, "One.")]


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("**a** __b__ *c* _d_ ***e*** ~~f~~", "a b c d e f"),
        ("**bold with *em* inside**", "bold with em inside"),
        ("[text](http://x.y/(z) 'title') and ![alt](i.png)", "text and alt"),
        ("[text][ref], [^1]note", "text, note"),
        ("<https://x.y> <me@x.y>", "https://x.y me@x.y"),
        ("<b>bold</b><br/> x < y > z", "bold x < y > z"),
        ("`a*b*c` ``d`e``", "a*b*c d`e"),
        (r"\*kept\* \_too\_ 2\. \[x\](y)", "*kept* _too_ 2. [x](y)"),
        ("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4"),
        ("[pause:400ms] stays", "[pause:400ms] stays"),
        ("\ue0000\ue001 `x`", "x x"),  # private characters cannot be said; nothing breaks
    ],
)
def test_marks_are_not_spoken(written: str, spoken: str) -> None:
    assert plain(written) == spoken

"""Which lines begin a chapter, and which only look like it."""

from __future__ import annotations

import pytest

from kazeia.reading.headings import is_bare, marked_heading, worded_heading


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("# One", (1, "One")),
        ("###### Six", (6, "Six")),
        ("## The sea ##", (2, "The sea")),
        ("  # Indented", (1, "Indented")),
        ("#\tTab", (1, "Tab")),
        ("# C# and F#", (1, "C# and F#")),
        ("#", (1, "")),
        ("#hashtag", None),
        ("####### Seven", None),
        ("    # code", None),
        ("No # here", None),
        ("", None),
    ],
)
def test_marked_headings(line: str, found: tuple[int, str] | None) -> None:
    assert marked_heading(line) == found


@pytest.mark.parametrize(
    "line",
    [
        "Chapter 3", "CHAPTER III.", "chapter 12", "  Chapter One  ", "Chapter Twenty-One",
        "Chapter the First",
        "Chapter 3: The sea", "Chapter 3. The sea", "Chapter 3 – The sea", "Chapter III - The Sea",
        "Chapter 3 The Return", "Part Two", "BOOK IV", "Prologue", "Epilogue.", "Preface",
        "Introduction: Why",
        "Chapitre III", "CHAPITRE PREMIER", "Chapitre 1er", "Chapitre Ier", "Chapitre III – La mer",
        "Première partie", "2e partie", "Livre II", "Épilogue", "Avant-propos",
        "Kapitel 4", "3. Kapitel", "Erstes Kapitel", "Zweiter Teil", "Vorwort",
        "Capítulo 5", "Capitolo IX", "Primera parte", "Глава 7", "Эпилог",
        "第三章", "第12章 旅立ち", "第一回　序", "제3장 바다", "序章",
    ],
)  # fmt: skip
def test_lines_that_name_a_chapter(line: str) -> None:
    assert worded_heading(line)


@pytest.mark.parametrize(
    "line",
    [
        "", "Chapter", "Chapters 3", "Chapter 3 was the hardest of all.", "Chapter 3 was hard",
        "Chapter 3 The Return was long.", "Part of it", "Part mild", "Part 3-4 months later", "Partner 3",
        "I part", "Book me a table", "One book.", "Un livre", "Introduction to it all", "Prologues",
        "The chapter 3", "Chapitre", "Parties 2", "Le livre III", "Teilchen 3", "第三章の話をした。", "第三",
        "Chapter 3: " + "very " * 30 + "long",
    ],
)  # fmt: skip
def test_lines_that_only_look_like_it(line: str) -> None:
    assert not worded_heading(line)


def test_bare_names_say_nothing_else() -> None:
    assert is_bare("Chapter 3.")
    assert is_bare("第三章")
    assert not is_bare("Chapter 3: The sea")
    assert not is_bare("Something else")

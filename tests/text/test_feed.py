"""Text that is still being written: pieces end where a speaker may pause, however the text came."""

from __future__ import annotations

import random

import pytest

from kazeia.errors import OptionError, TextEncodingError
from kazeia.text.feed import TextFeed

TEXTS = {
    "One sentence. Another one! And a third": ["One sentence.", "Another one!", "And a third"],
    "It costs 3.14 today. Dr. Who paid.": ["It costs 3.14 today.", "Dr. Who paid."],
    "Short, clause. End": ["Short, clause.", "End"],
    "This is a clause that is long enough to be spoken, and here it goes on": [
        "This is a clause that is long enough to be spoken,",
        "and here it goes on",
    ],
    "« Ah ! » dit-il. Puis rien.": ["« Ah ! » dit-il.", "Puis rien."],
    'He said "Stop!" and left. She stayed.': ['He said "Stop!" and left.', "She stayed."],
    "你好。今天天气很好！再见": ["你好。", "今天天气很好！", "再见"],
    "Line one\nLine two": ["Line one", "Line two"],
    "  \n ": [],
    "… Well. So": ["… Well.", "So"],
    "…": [],
    "": [],
    "Wait... what? Yes": ["Wait... what?", "Yes"],
}


def fed(text: str, sizes: list[int]) -> list[str]:
    feed, pieces, at = TextFeed(), [], 0
    for size in sizes:
        pieces += feed.push(text[at : at + size])
        at += size
    return pieces + feed.push(text[at:]) + feed.flush()


@pytest.mark.parametrize("text", list(TEXTS))
def test_pieces_end_where_a_speaker_may_pause(text: str) -> None:
    assert fed(text, []) == TEXTS[text]


@pytest.mark.parametrize("text", [*TEXTS, " ".join(TEXTS), "word " * 300, "x" * 1000, "好" * 500])
def test_the_pieces_do_not_depend_on_how_the_text_came(text: str) -> None:
    whole = fed(text, [])
    assert fed(text, [1] * len(text)) == whole
    chance = random.Random(len(text))
    for _ in range(5):
        assert fed(text, [chance.randint(0, 9) for _ in range(len(text))]) == whole


@pytest.mark.parametrize("text", [" ".join(TEXTS), "word " * 300, "x" * 1000, "好" * 500])
def test_nothing_is_lost_and_nothing_is_too_long(text: str) -> None:
    pieces = fed(text, [])
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(len, pieces)) <= 300


def test_a_sentence_is_given_as_soon_as_its_end_is_sure() -> None:
    feed = TextFeed()
    assert feed.push("Hello there.") == []
    assert feed.push(" ") == []
    assert feed.push("H") == ["Hello there."]
    assert feed.pending == "H"
    feed.clear()
    assert feed.pending == ""
    assert feed.flush() == []


def test_long_feeds_take_time_in_proportion() -> None:
    # Every piece is judged by itself: what was given back is not looked at again.
    feed = TextFeed()
    for _ in range(500):
        feed.push("A sentence of some words. ")
    assert len(feed.pending) < 60


@pytest.mark.parametrize("text", ["." * 1500, "… " * 1000, "=" * 1500, "." * 299 + "a" + "." * 1000])
def test_what_says_nothing_does_not_pile_up(text: str) -> None:
    feed = TextFeed()
    for char in text:
        feed.push(char)
        assert len(feed.pending) <= 600
    assert "".join(fed(text, [])).count("a") == text.count("a")


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(TextEncodingError):
        TextFeed().push("a\ud800")


@pytest.mark.parametrize("options", [{"min_clause": 0}, {"max_chars": 1.5}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        TextFeed(**options)

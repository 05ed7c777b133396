"""What a benchmark refuses, and how many frames it allows."""

from __future__ import annotations

from typing import Any

import pytest

from kazeia.bench import BenchPlan
from kazeia.bench.plan import SENTENCE, frame_budget
from kazeia.errors import EmptyTextError, OptionError


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"quants": ("q8", "q9")}, "q9"),
        ({"quants": ()}, "quants"),
        ({"quants": ["q8"]}, "quants"),
        ({"threads": (0,)}, "threads"),
        ({"threads": (1, 1)}, "threads"),
        ({"streams": (0,)}, "streams"),
        ({"streams": (65,)}, "streams"),
        ({"streams": None}, "streams"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": True}, "repeats"),
        ({"frames": 1}, "frames"),
        ({"frames": 2.5}, "frames"),
        ({"against": "others"}, "others"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        BenchPlan(**changes)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(EmptyTextError):
        BenchPlan(text=" ")


def test_the_default_sentence_has_twelve_words_and_the_long_text_eight_sentences() -> None:
    assert len(SENTENCE.split()) == 12
    assert BenchPlan().long_text.count(SENTENCE) == 8


@pytest.mark.parametrize("text", [SENTENCE, "a", "Il est 8 h 30.", "你好", "!"])
@pytest.mark.parametrize("frames", [2, 5, 40, 9999])
def test_the_budget_gives_the_text_exactly_its_frames(text: str, frames: int) -> None:
    assert frame_budget(text, frames).limit(text) == frames


def test_a_longer_text_gets_as_much_more() -> None:
    limit = frame_budget(SENTENCE, 40).limit(BenchPlan().long_text)
    assert 8 * 39 <= limit <= 8 * 41

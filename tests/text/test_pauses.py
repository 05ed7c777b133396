"""Pauses written in a text: exact, and strict."""

from __future__ import annotations

import pytest

from kazeia.errors import EmptyTextError, OptionError, TextError
from kazeia.text.pauses import MOST_MS, check_markup, check_pause, plan_speech, split_pauses


@pytest.mark.parametrize(
    ("text", "segments", "pauses"),
    [
        ("Hello.", ["Hello."], [0, 0]),
        ("  as it is \n", ["  as it is \n"], [0, 0]),
        ("One.[pause:400ms]Two.", ["One.", "Two."], [0, 400, 0]),
        ("One. [pause:1s] Two.", ["One.", "Two."], [0, 1000, 0]),
        ("One [pause:1.5s] two [pause:0.25s] three", ["One", "two", "three"], [0, 1500, 250, 0]),
        ("[pause:7ms]One.", ["One."], [7, 0]),
        ("One.[pause:60s]", ["One."], [0, 60_000]),
        ("One[pause:1ms][pause:2ms] [pause:3ms]two", ["One", "two"], [0, 6, 0]),
        ("One [pause:1s] ... [pause:1s] two", ["One", "two"], [0, 2000, 0]),
        ("*** [pause:1s] One", ["One"], [1000, 0]),
        ("One\n[pause:0.001s]\ntwo", ["One", "two"], [0, 1, 0]),
        # words in brackets that only begin alike
        ("[paused] for now [pauses: none]", ["[paused] for now [pauses: none]"], [0, 0]),
        ("[pause, laughing] Hello [Pausen]", ["[pause, laughing] Hello [Pausen]"], [0, 0]),
        ("pause:400ms, a[1]", ["pause:400ms, a[1]"], [0, 0]),
    ],
)
def test_pauses_part_the_text_and_are_counted(text: str, segments: list[str], pauses: list[int]) -> None:
    assert plan_speech(text, 300) == (segments, pauses)
    check_markup(text)


@pytest.mark.parametrize(
    "markup",
    [
        "[pause:400]", "[pause:400 ms]", "[pause: 400ms]", "[ pause:400ms]", "[pause:400ms ]",
        "[Pause:400ms]",
        "[PAUSE:1s]", "[pause:400MS]", "[pause:ms]", "[pause:]", "[pause]", "[pause 400ms]", "[pause=400ms]",
        "[pause:4.5ms]", "[pause:1,5s]", "[pause:-1s]", "[pause:+1s]", "[pause:1e3ms]", "[pause:.5s]",
        "[pause:1.s]", "[pause:1.0005s]", "[pause:1min]", "[pause:nan]", "[pause:4００ms]", "[pause:400ms",
        "[pause:0ms]", "[pause:0s]", "[pause:0.000s]", "[pause:60001ms]", "[pause:61s]", "[pause:60.001s]",
        "[pause:99999ms]", "[pause:123456ms]",
    ],
)  # fmt: skip
def test_what_looks_like_a_pause_and_is_none_is_refused(markup: str) -> None:
    text = f"One. {markup} Two."
    for refuse in (lambda: plan_speech(text, 300), lambda: check_markup(text)):
        with pytest.raises(
            TextError, match=r"character 5.*allowed are \[pause:1ms\].*markup=False"
        ) as caught:
            refuse()
        assert markup[:11] in str(caught.value)
    assert plan_speech(text, 300, markup=False) == ([text], [0, 0])


@pytest.mark.parametrize(
    "text", ["[pause:1s]", " [pause:1s] [pause:2s] ", "[pause:1s] ... ***", "—[pause:1s]"]
)
def test_pauses_alone_say_nothing(text: str) -> None:
    with pytest.raises(EmptyTextError, match="nothing to say"):
        plan_speech(text, 300)


def test_markup_may_be_switched_off() -> None:
    text = "Write [pause:400ms] so."
    assert plan_speech(text, 300, markup=False) == ([text], [0, 0])


def test_pauses_between_segments_are_where_the_length_cuts() -> None:
    text = "One is here. Two is here.[pause:2s]Three is here. Four is here."
    segments, pauses = plan_speech(text, 14, segment_pause=150)
    assert segments == ["One is here.", "Two is here.", "Three is here.", "Four is here."]
    assert pauses == [0, 150, 2000, 150, 0]
    assert plan_speech(text, 14)[1] == [0, 0, 2000, 0, 0]


@pytest.mark.parametrize("value", [-1, MOST_MS + 1, True, "9", None, float("nan"), float("inf")])
def test_impossible_pauses_are_refused_by_name(value: object) -> None:
    with pytest.raises(OptionError, match=r"segment_pause is .*0 to 60000"):
        check_pause("segment_pause", value)


@pytest.mark.parametrize("value", [0, 0.5, 400, MOST_MS])
def test_possible_pauses_are_taken(value: float) -> None:
    check_pause("segment_pause", value)


def test_a_text_without_its_pauses() -> None:
    assert split_pauses("One [pause:400ms] two[pause:1.5s]") == ("One  two", 1900)
    assert split_pauses("[paused] as it is") == ("[paused] as it is", 0)
    with pytest.raises(TextError, match="looks like a pause"):
        split_pauses("[pause:4]")

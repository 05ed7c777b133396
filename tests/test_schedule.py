"""How many frames a stream's chunks hold."""

from __future__ import annotations

import numpy as np
import pytest

from kazeia import OptionError
from kazeia.schedule import DEFAULT, VARIABLE, chunk_schedule


@pytest.mark.parametrize(
    ("choice", "text", "sizes"),
    [
        (None, None, DEFAULT),
        (None, "", DEFAULT),
        (None, "  ", DEFAULT),
        (None, "4", (4,)),
        (None, " 12 ", (12,)),
        (3, None, (3,)),
        (3, "4", (3,)),  # an argument wins over the environment
        (3, "nonsense", (3,)),
        (np.int64(3), None, (3,)),
        ([1, 2, 25], None, (1, 2, 25)),
        ((2,), "4", (2,)),
    ],
)
def test_what_a_choice_stands_for(choice: object, text: str | None, sizes: tuple[int, ...]) -> None:
    environ = {} if text is None else {VARIABLE: text}
    assert chunk_schedule(choice, environ).sizes == sizes  # type: ignore[arg-type]


def test_the_last_size_repeats() -> None:
    schedule = chunk_schedule([1, 2, 5])
    assert [schedule.size(n) for n in range(6)] == [1, 2, 5, 5, 5, 5]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "1,2", "+3", "²", "9" * 5000, "0x4", "None"])
def test_a_bad_variable_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(OptionError, match=rf"{VARIABLE} is .*at least 1.*unset"):
        chunk_schedule(None, {VARIABLE: text})


@pytest.mark.parametrize(
    "choice", [0, -1, True, 1.5, "2", b"2", [], (), [1, 0], [1, "2"], [True], {2}, float("nan"), "auto"]
)
def test_bad_sizes_are_refused_by_name(choice: object) -> None:
    with pytest.raises(OptionError, match=r"chunk_frames is .*at least 1"):
        chunk_schedule(choice, {})  # type: ignore[arg-type]


def longest_wait(sizes: tuple[int, ...], generate: float, decode: float, frames: int = 1000) -> float:
    """Frames of silence that a listener hears between chunks, when a frame takes so much of 80 ms."""
    wait, played_until, made, index = 0.0, 0.0, 0, 0
    while made < frames:
        size = sizes[min(index, len(sizes) - 1)]
        made, index = made + size, index + 1
        arrives = made * generate + size * decode
        if index > 1:
            wait = max(wait, arrives - played_until)
        played_until = max(played_until, arrives) + size
    return wait


def test_the_default_leaves_no_gap_as_long_as_it_says() -> None:
    assert longest_wait(DEFAULT, 60 / 80, 32 / 80) <= 0
    assert longest_wait(DEFAULT, 0.5, 0.6) <= 0
    # Growing as fast as one likes would: the law is one that can be broken.
    assert longest_wait((1, 2, 4, 8), 60 / 80, 32 / 80) > 0

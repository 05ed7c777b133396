"""The progress line: for people at a terminal only, and gone afterwards."""

from __future__ import annotations

import io
import re
import sys

import pytest

from kazeia.cli.progress import LONG, Display, remaining


class Stderr(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, quiet: bool = False, terminal: bool = True) -> str:
    stderr = Stderr()
    stderr.terminal = terminal
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    with Display(quiet) as display:
        display.loading("talker [q8]", 0.25)
        display.loading("talker [q8]", 1.0)
        display.loading("codec", 0.5)
        display.speaking(1)
        display.speaking(13)
    display.close()
    return stderr.getvalue()


def test_a_terminal_sees_stages_and_frames_and_a_clean_line_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(monkeypatch)
    assert "speaking: 13 frames, 1.0 s" in text
    assert text.rstrip().endswith("\x1b[2K")  # the line is erased


def test_what_remains_is_told_where_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    for expected, told in ((LONG, True), (LONG - 1, False)):
        stderr = Stderr()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        with Display(quiet=False) as display:
            display.expect(expected)
            for frames in (1, 50, 100, 1000):  # more than were expected, too
                now += 30 * (frames <= 100)
                display.speaking(frames)
                display._bar.refresh()
        # 50 of 250 frames in 30 s: the other 150 take 90 s
        assert ("1:3" in stderr.getvalue() and " left" in stderr.getvalue()) == told


def test_a_reading_that_goes_on_does_not_count_what_was_done_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    stderr = Stderr()
    monkeypatch.setattr(sys, "stderr", stderr)
    with Display(quiet=False) as display:
        display.loading("speaking", 0.5)
        now = 10.0
        display.loading("speaking", 0.6)
        now = 20.0
        display.loading("speaking", 0.7)
        left = display._bar.tasks[0].time_remaining
    assert left == pytest.approx(30, abs=1)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (123, "2:03"), (3723, "1:02:03")]
)
def test_times_are_short(seconds: float, shown: str) -> None:
    assert remaining(seconds) == shown


def test_no_color_leaves_the_line_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]|\x1b\[38")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colour.search(shown(monkeypatch))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(shown(monkeypatch))


@pytest.mark.parametrize(("quiet", "terminal"), [(True, True), (False, False), (True, False)])
def test_nobody_else_sees_anything(quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, quiet=quiet, terminal=terminal) == ""

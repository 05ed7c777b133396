"""The progress line: for people at a terminal only, and gone afterwards."""

from __future__ import annotations

import io
import sys

import pytest

from kazeia.cli.progress import Display


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


@pytest.mark.parametrize(("quiet", "terminal"), [(True, True), (False, False), (True, False)])
def test_nobody_else_sees_anything(quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, quiet=quiet, terminal=terminal) == ""

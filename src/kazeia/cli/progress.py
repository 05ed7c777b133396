"""What a person at a terminal sees while waiting. Everything goes to standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

FRAME_SECONDS = 0.08
LONG = 250
"""Frames (20 s) from which on a speech is worth an estimate of what remains."""


class Display:
    """A progress line on a terminal; silent when `quiet`, or when standard error is no terminal."""

    def __init__(self, quiet: bool) -> None:
        self._on = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._expected = 0
        self._begun = time.monotonic()

    def elapsed(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._begun

    def loading(self, stage: str, fraction: float) -> None:
        """The `progress` callback of load, build and read_book: a stage's name and 0 … 1."""
        if self._start(stage, fraction):
            self._bar.update(self._task, completed=fraction, total=1.0)

    def expect(self, frames: int) -> None:
        """About how many frames will be spoken; what remains is told where that is long."""
        self._expected = frames if frames >= LONG else 0

    def speaking(self, frames: int) -> None:
        """The `on_frame` callback: how many frames there are so far."""
        if self._start("speaking", 0):
            line = f"speaking: {frames} frames, {frames * FRAME_SECONDS:.1f} s"
            if self._expected:
                # An estimate: the end is reached when it is over, not before.
                done = min(frames, 0.99 * self._expected)
                self._bar.update(self._task, description=line, completed=done, total=self._expected)
            else:
                self._bar.update(self._task, description=line)

    def _start(self, stage: str, fraction: float) -> bool:
        if not self._on:
            return False
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                _remaining_column(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            # What was done before does not count for the speed.
            self._stage, self._task = stage, self._bar.add_task(stage, total=None, completed=fraction)
        return True

    def close(self) -> None:
        """Take the line away. May be called twice."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
        self._stage = ""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remaining_column() -> Any:
    """The time that remains, where it can be estimated."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Remaining(ProgressColumn):
        max_refresh = 0.5  # seconds, so that it can be read

        def render(self, task: Task) -> Text:
            left = task.time_remaining
            return Text("" if left is None else f"{remaining(left)} left", style="progress.remaining")

    return Remaining()


def remaining(seconds: float) -> str:
    """ "1:02:03" or "2:03"."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"

"""What a person at a terminal sees while waiting. Everything goes to standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

FRAME_SECONDS = 0.08


class Display:
    """A progress line on a terminal; silent when `quiet`, or when standard error is no terminal."""

    def __init__(self, quiet: bool) -> None:
        self._on = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""

    def loading(self, stage: str, fraction: float) -> None:
        """The `progress` callback of load and build: a stage's name and 0 … 1."""
        if self._start(stage):
            self._bar.update(self._task, completed=fraction, total=1.0)

    def speaking(self, frames: int) -> None:
        """The `on_frame` callback: how many frames there are so far."""
        if self._start("speaking"):
            line = f"speaking: {frames} frames, {frames * FRAME_SECONDS:.1f} s"
            self._bar.update(self._task, description=line)

    def _start(self, stage: str) -> bool:
        if not self._on:
            return False
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = stage, self._bar.add_task(stage, total=None)
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

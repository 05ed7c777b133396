"""An engine that speaks at the pace of a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kazeia.engine import Engine
from kazeia.speech import Chunk, Speech


class PacedEngine:
    """An engine that generates only as fast as the test lets it: what has been let go is heard, and one
    frame more of each speech is made, and held."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.frames = 0  # generated so far, of all speeches
        self.at_work = 0  # speeches in the making
        self._gate = threading.Semaphore(0)  # a frame of any speech takes one
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, text: str, *, cancel: threading.Event, **asked: Any) -> Iterator[Chunk]:
        with self._working():
            chunks = self._engine.stream(text, cancel=cancel, on_frame=self._pace(cancel), **asked)
            with contextlib.closing(chunks):  # type: ignore[type-var]
                yield from chunks

    def synthesize(self, text: str, *, cancel: threading.Event | None = None, **asked: Any) -> Speech:
        if cancel is None:  # the warm-up, which no test waits for
            return self._engine.synthesize(text, **asked)
        with self._working():
            return self._engine.synthesize(text, cancel=cancel, on_frame=self._pace(cancel), **asked)

    def let(self, frames: int) -> None:
        """Let so many frames go on to their listeners."""
        self._gate.release(frames)

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            self.at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self.at_work -= 1

    def _pace(self, cancel: threading.Event) -> Callable[[int], None]:
        told = 0

        def on_frame(count: int) -> None:
            nonlocal told
            self.frames += count - told
            told = count
            while not self._gate.acquire(timeout=0.01) and not cancel.is_set():
                pass

        return on_frame

"""An engine that speaks at the pace of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from kazeia.engine import Engine
from kazeia.speech import Chunk, Speech


class PacedEngine:
    """An engine whose streams come a frame at a time, only as fast as the test lets them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.frames = 0  # made so far, in all streams
        self.open_streams = 0
        self.gate = threading.Semaphore(0)  # a frame of any stream takes one
        self.error: Exception | None = None  # raised instead of the third frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, text: str, *, cancel: threading.Event, **asked: Any) -> Iterator[Chunk]:
        return self._chunks(self._engine.stream(text, chunk_frames=1, cancel=cancel, **asked), cancel)

    def _chunks(self, chunks: Iterator[Chunk], cancel: threading.Event) -> Iterator[Chunk]:
        self.open_streams += 1
        try:
            for index, chunk in enumerate(chunks):
                while not chunk.is_last and not cancel.is_set():
                    if self.gate.acquire(timeout=0.01):
                        break
                if self.error is not None and index == 2:
                    raise self.error
                self.frames += not chunk.is_last
                yield chunk
        finally:
            chunks.close()  # type: ignore[attr-defined]
            self.open_streams -= 1

    def synthesize(self, text: str, *, cancel: threading.Event | None = None, **asked: Any) -> Speech:
        if cancel is None:  # the warm-up, which no test waits for
            return self._engine.synthesize(text, **asked)
        *_, last = self.stream(text, cancel=cancel, **asked)
        assert last.speech is not None
        return last.speech

    def let(self, frames: int) -> None:
        self.gate.release(frames)

    def pause(self) -> None:
        while self.gate.acquire(blocking=False):
            pass
        time.sleep(0.05)

"""A few at a time, first come, first served."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A context manager that lets in `count` threads at a time, in the order of their coming.

    `threading.Semaphore` lets the one that has just left in again before those who wait: of several streams,
    some would run dry.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        try:
            mine.wait()  # whoever leaves hands its place over
        except BaseException:  # Ctrl-C
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                else:
                    self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1

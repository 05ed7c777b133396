"""Who speaks now, who waits, and who is sent away."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kazeia.server.errors import unavailable

_FIRST_GUESS_S = 5.0  # how long a request takes, before any has been seen
_WEIGHT = 0.2  # of the newest duration in the running mean


class Admission:
    """So many slots, and a queue of bounded length before them, first come first served.

    For one event loop; nothing here is for other threads.
    """

    def __init__(self, slots: int, max_waiting: int) -> None:
        self._slots = slots
        self._max_waiting = max_waiting
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._mean_s = _FIRST_GUESS_S
        self._closed = False

    @property
    def running(self) -> int:
        """Slots that are taken."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def retry_after_s(self) -> float:
        """About how long until somebody who came now would have had a place."""
        return self._mean_s * (1 + len(self._waiting)) / self._slots

    async def enter(self) -> float:
        """Take a slot, waiting for it; return the seconds waited.

        Raises ApiError (503) when the queue is full, or the server is shutting down.
        """
        self._refuse_if_closed()
        if self._running < self._slots and not self._waiting:
            self._running += 1
            return 0.0
        if len(self._waiting) >= self._max_waiting:
            raise unavailable(
                f"all {self._slots} places are taken and {len(self._waiting)} requests wait; try again later",
                "queue_full",
                self.retry_after_s,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        started = time.perf_counter()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(None)  # the slot had just been handed over
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return time.perf_counter() - started

    def leave(self, took_s: float | None) -> None:
        """Give a slot back, and tell how long it was used (None: not at all)."""
        if took_s is not None:
            self._mean_s += _WEIGHT * (took_s - self._mean_s)
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # the slot changes hands
                return
        self._running -= 1

    def close(self) -> None:
        """Let nobody in any more; those who wait are refused, those who speak go on."""
        self._closed = True
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(unavailable("the server is shutting down", "shutting_down", 10))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise unavailable("the server is shutting down; try again later", "shutting_down", 10)

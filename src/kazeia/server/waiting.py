"""What waits to be served in a conversation, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """A queue that can be looked into and emptied, for one event loop and one who serves it."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Items that wait."""
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """The items, the next one first."""
        return iter(self._items)

    def put(self, *items: T) -> None:
        """More items, in order; none is none."""
        self._items.extend(items)
        if items:
            self._filled.set()

    def clear(self) -> None:
        """Forget all that wait."""
        self._items.clear()

    async def take(self) -> T:
        """The next item, waiting for it."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        return self._items.popleft()

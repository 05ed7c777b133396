"""Threads that run an iterator ahead of its consumer, by a bounded number of items."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
MakeError = Callable[[], Exception]


class Part(Protocol):
    """Something of a call that is at work until it is stopped."""

    def stop(self, error: MakeError | None) -> None:
        """Let it end; who waits for it gets an `error`, if any. May be called twice."""

    def join(self) -> None:
        """Wait until it has ended."""


class Registry:
    """All the calls of one engine whose threads are running.

    Whatever still runs when the interpreter exits is stopped there: a thread that were torn down in
    the middle of a graph would take the process with it.
    """

    def __init__(self) -> None:
        self._running: set[Workers] = set()
        self._lock = threading.RLock()  # a forgotten stream may be collected at any time, here too
        weakref.finalize(self, _stop_all, self._running, self._lock, None)

    def add(self, workers: Workers) -> None:
        """Remember a call that begins."""
        with self._lock:
            self._running.add(workers)

    def remove(self, workers: Workers) -> None:
        """Forget a call that has ended."""
        with self._lock:
            self._running.discard(workers)

    def stop_all(self, error: MakeError) -> None:
        """Stop every call, whose consumers then get an `error`, and wait for the threads.

        From within one of the threads (a callback), which cannot wait for itself, only the stopping.
        """
        _stop_all(self._running, self._lock, error)


def _stop_all(running: set[Workers], lock: AbstractContextManager[object], error: MakeError | None) -> None:
    with lock:
        calls = list(running)
    for workers in calls:
        workers.stop(error)
    for workers in calls:
        workers.join()


class Workers:
    """The threads of one call. A context manager: leaving it stops and joins them all.

    Without `threaded`, everything runs in turn in the consumer's thread instead.
    """

    def __init__(self, registry: Registry, threaded: bool) -> None:
        self._registry = registry
        self._threaded = threaded
        self._parts: list[Part] = []
        self._lock = threading.RLock()
        self._ended = False
        self._error: MakeError | None = None

    def __enter__(self) -> Workers:
        self._registry.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop(None)
            self.join()
        finally:
            self._registry.remove(self)

    def ahead(self, source: Generator[T, None, None], room: int, name: str) -> Iterator[T]:
        """The items of `source`, made by a thread that is at most `room` items ahead.

        An item is begun only when there is room for it. What the source raises is raised to the
        consumer, after the items before it.
        """
        if not self._threaded:
            return source
        stage = _Stage(source, room, name)
        with self._lock:  # nobody may see a stage that has not been started
            stage.thread.start()
            self.adopt(stage)
        return stage

    def adopt(self, part: Part) -> None:
        """Stop and join this, too, when the call ends."""
        with self._lock:
            self._parts.append(part)
            if self._ended:
                part.stop(self._error)

    def stop(self, error: MakeError | None) -> None:
        """Let the threads end after the item they are at; consumers get an `error`, if any."""
        with self._lock:
            self._ended, self._error = True, error
            for part in self._parts:
                part.stop(error)

    def join(self) -> None:
        """Wait until the threads have ended, unless this is such a thread itself."""
        if not isinstance(threading.current_thread(), WorkerThread):
            with self._lock:
                parts = list(self._parts)
            for part in parts:
                part.join()


class WorkerThread(threading.Thread):
    """Never joined from its own kind: each might wait for the other.

    A daemon, so that an abandoned stream does not keep the interpreter from exiting.
    """

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)


class _Stage(Iterator[T], Generic[T]):
    """One thread, and the items that it has made and nobody has taken yet."""

    def __init__(self, source: Generator[T, None, None], room: int, name: str) -> None:
        self._source = source
        self._room = room
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._ended = False  # no more items will come
        self._error: BaseException | None = None
        self.thread = WorkerThread(self._run, name)

    def __next__(self) -> T:
        with self._changed:
            while not self._items and not self._ended:
                self._changed.wait()
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error  # it knows this frame: together they would be a circle

    def stop(self, error: MakeError | None) -> None:
        with self._changed:
            self._stopped = self._ended = True
            self._items.clear()
            self._error = error() if error is not None else None
            self._changed.notify_all()

    def join(self) -> None:
        self.thread.join()

    def _run(self) -> None:
        try:
            while self._has_room():
                self._put(next(self._source))
        except StopIteration:
            self._end(None)
        except BaseException as error:  # whatever it is, it belongs to the consumer
            self._end(error)
        finally:
            self._source.close()

    def _has_room(self) -> bool:
        """Wait for room; False when nothing is wanted any more."""
        with self._changed:
            while len(self._items) >= self._room and not self._stopped:
                self._changed.wait()
            return not self._stopped

    def _put(self, item: T) -> None:
        with self._changed:
            if not self._stopped:
                self._items.append(item)
                self._changed.notify_all()

    def _end(self, error: BaseException | None) -> None:
        with self._changed:
            if not self._stopped:
                self._error, self._ended = error, True
                self._changed.notify_all()

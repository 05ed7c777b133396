"""The running batch of an engine: one generator at work for all calls that there are.

The generator is a thread that begins with the first call and ends with the last. It owns the scheduler;
callers talk to it through queues only (`SimpleQueue`, which may be used while a forgotten stream is being
collected, in the middle of anything). With one core there is no such thread: whoever waits for a frame
makes it, and with it the next frame of all the others.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate
from queue import Empty, SimpleQueue

from kazeia.job import Job
from kazeia.model import Model
from kazeia.scheduler import Row, Rows, Scheduler, Step
from kazeia.workers import MakeError, WorkerThread


class StoppedError(Exception):
    """Somebody waits for frames of a call that nobody wants any more."""


class Call(Rows):
    """One call's part in the running batch, as its consumer sees it. Stop and join it at the end."""

    def __init__(
        self, generator: _Generator, jobs: Sequence[Job], *, room: int, in_order: bool, retry: bool
    ) -> None:
        super().__init__(jobs, room, in_order, retry)
        self._first = list(accumulate((len(job.utterances) for job in jobs), initial=0))
        self.generator = generator
        self._error: MakeError | None = None
        self.gone = False
        """Whether the consumer wants no more."""
        self.left = threading.Event()
        """Set when nothing will be done for it any more."""

    def __iter__(self) -> Iterator[Step]:
        """The steps of all segments as they come, until all have ended."""
        for _ in range(len(self.rows)):
            last = False
            while not last:
                step = self.take()
                self.use(step)
                last = step.last
                yield step

    def take(self) -> Step:
        """The next step of any segment; `use` it when it is dealt with. Raises what ended the call."""
        while not self.gone:
            self.generator.advance(self)
            item = self.items.get()
            if self.gone:
                break
            if isinstance(item, Step):
                return item
            if item is not None:
                try:
                    raise item
                finally:
                    del item  # it knows this frame: together they would be a circle
        raise StoppedError if self._error is None else self._error()

    def use(self, step: Step) -> None:
        """Make room for another frame."""
        if step.codes is not None:
            self.row(step).used += 1
            self.generator.wake()

    def row(self, step: Step) -> Row:
        """The row that a step belongs to."""
        return self.rows[self._first[step.job] + step.segment]

    def go_on(self, segment: int) -> None:
        """A stream is at this segment now."""
        self.current = segment
        self.generator.wake()

    def stop(self, error: MakeError | None) -> None:
        """Leave the batch; who waits for a frame gets an `error`."""
        self._error = error
        if not self.gone:
            self.gone = True
            self.generator.leave(self)
            self.items.put(None)

    def join(self) -> None:
        """Wait until nothing is done for this call any more, nor any thread left that did it."""
        self.generator.await_end(self)


class _Generator(ABC):
    """Who makes the frames: the scheduler, and the messages to its owner."""

    def __init__(self, model: Model, max_batch: int) -> None:
        self._scheduler = Scheduler(model, max_batch)
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()  # one that begins or leaves; None: look again

    def enter(self, call: Call) -> bool:
        """A call begins; False when it comes too late."""
        self._inbox.put(call)
        return True

    def leave(self, call: Call) -> None:
        """A call, which is `gone`, ends."""
        self._inbox.put(call)

    @abstractmethod
    def wake(self) -> None:
        """There may be more to do."""

    @abstractmethod
    def advance(self, call: Call) -> None:
        """See to it that something comes for the call."""

    @abstractmethod
    def await_end(self, call: Call) -> None:
        """Wait until nothing is done any more for a call that has left."""

    @abstractmethod
    def is_mine(self) -> bool:
        """Whether this thread is the one that makes the frames: it cannot wait for one."""

    def _receive(self, wait: bool) -> None:
        """Read all messages; with `wait`, at least one."""
        try:
            while True:
                call = self._inbox.get(block=wait)
                wait = False
                if call is not None and call.gone:
                    self._scheduler.leave(call)
                    call.left.set()
                elif call is not None:
                    self._scheduler.enter(call)
        except Empty:
            pass


class _InTurn(_Generator):
    """Whoever waits for a frame makes it, in the caller's own thread."""

    def __init__(self, model: Model, max_batch: int) -> None:
        super().__init__(model, max_batch)
        self._lock = threading.Lock()
        self._owner: int | None = None

    def wake(self) -> None:
        pass

    def advance(self, call: Call) -> None:
        while call.items.empty() and not call.gone:
            with self._lock:
                self._owner = threading.get_ident()
                try:
                    self._receive(wait=False)
                    if call.items.empty() and not call.gone:  # nobody else has made it in the meantime
                        busy = self._scheduler.turn(call)
                        if not busy and call.items.empty():
                            raise RuntimeError("a call waits for a frame, and there is nothing to do")
                finally:
                    self._owner = None

    def await_end(self, call: Call) -> None:
        if not self.is_mine():
            with self._lock:
                self._receive(wait=False)

    def is_mine(self) -> bool:
        return self._owner == threading.get_ident()


class _Threaded(_Generator):
    """A thread of its own, from the first call to the last."""

    def __init__(self, model: Model, max_batch: int) -> None:
        super().__init__(model, max_batch)
        self._lock = threading.RLock()
        self._calls = 0
        self.retired = False  # its last call has left: it takes no more
        self._thread = WorkerThread(self._run, "kazeia-generator")
        self._thread.start()

    def enter(self, call: Call) -> bool:
        with self._lock:
            self._calls += 1  # counted first: a forgotten stream may be collected, and leave, here too
            return not self.retired and super().enter(call)

    def leave(self, call: Call) -> None:
        super().leave(call)
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                self.retired = True
        self.wake()

    def wake(self) -> None:
        self._inbox.put(None)

    def advance(self, call: Call) -> None:
        pass

    def await_end(self, call: Call) -> None:
        call.left.wait()
        if self.retired:
            self._thread.join()

    def is_mine(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        try:
            busy = False
            while True:
                self._receive(wait=not busy)
                if self.retired:
                    break
                busy = self._scheduler.turn()
        finally:
            self._receive(wait=False)


class RunningBatch:
    """Where all work of an engine comes together. Any number of threads may use it.

    `max_batch`: rows side by side at most; more wait their turn. Without `threaded`, the callers' threads
    do the work.
    """

    def __init__(self, model: Model, max_batch: int, threaded: bool) -> None:
        self._model = model
        self._most = max_batch
        self._threaded = threaded
        self._lock = threading.RLock()
        self._generator: _Generator | None = None

    def enter(self, jobs: Sequence[Job], *, room: int, in_order: bool, retry: bool) -> Call:
        """Let a call in: all segments of its jobs become rows.

        room: frames of a segment that may wait to be taken. in_order: segments are taken one after the
        other, which are generated ahead within a bound; else all at once. retry: runaways are begun
        anew as often as their guard says.
        """
        with self._lock:
            while True:
                call = Call(self._at_work(), jobs, room=room, in_order=in_order, retry=retry)
                if call.generator.enter(call):
                    return call
                self._generator = None

    def _at_work(self) -> _Generator:
        if self._generator is None:
            kind = _Threaded if self._threaded else _InTurn
            self._generator = kind(self._model, self._most)
        elif self._generator.is_mine():
            # A call from within a call's `on_frame`: the batch waits for it, so it gets one of its own.
            return _InTurn(self._model, self._most)
        return self._generator

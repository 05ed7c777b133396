"""From codes to samples: segments on their way, and the threads that decode several of them at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from kazeia.job import Job
from kazeia.model import Model
from kazeia.runtime.codec_decoder import DecoderState
from kazeia.workers import MakeError, WorkerThread

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Task = Callable[[], None]


class Decoders:
    """Threads that work beside the caller's own; begun when first used. Stop and join them at the end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._tasks: SimpleQueue[tuple[Future[None], Task] | None] = SimpleQueue()
        self._threads: list[WorkerThread] = []
        self._at_work: list[Future[None]] = []

    def offer(self, task: Task) -> Future[None] | None:
        """Let a thread do it, if one has nothing to do; None when the caller has to."""
        self._at_work = [future for future in self._at_work if not future.done()]
        if len(self._at_work) >= self._count:
            return None
        if len(self._threads) <= len(self._at_work):
            self._threads.append(WorkerThread(self._run, f"kazeia-decoder-{len(self._threads)}"))
            self._threads[-1].start()
        future: Future[None] = Future()
        self._at_work.append(future)
        self._tasks.put((future, task))
        return future

    def stop(self, error: MakeError | None) -> None:
        """Let the threads end after what they are at. What they were given is done."""
        for _ in range(self._count):
            self._tasks.put(None)

    def join(self) -> None:
        """Wait until they have ended."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (order := self._tasks.get()) is not None:
            future, task = order
            del order
            try:
                task()
            except BaseException as error:  # whatever it is, it belongs to the caller
                future.set_exception(error)
            else:
                future.set_result(None)
            del future, task  # they hold the megabytes of a segment


class Segment:
    """The frames of one segment on their way to samples."""

    def __init__(self, model: Model, job: Job) -> None:
        self._decoder = model.decoder
        self._timings = job.timings
        self._state: DecoderState | None = None  # megabytes: made when needed
        self._waiting: list[I64] = []  # (16,) each
        self._done = 0  # frames decoded in all
        self._codes = np.empty((0, model.bundle.config.talker.num_code_groups), np.int64)
        self._pieces: list[tuple[F32, I64]] = []  # decoded and not taken
        self._took = 0.0  # seconds, not yet told
        self._elsewhere: Future[None] | None = None

    @property
    def waiting(self) -> int:
        """Frames not yet decoded."""
        return len(self._waiting)

    @property
    def frames(self) -> int:
        """Frames in all."""
        return self._done + len(self._waiting)

    @property
    def decoded(self) -> int:
        """Frames decoded and not yet taken."""
        return sum(len(codes) for _, codes in self._pieces)

    def add(self, codes: I64 | None) -> None:
        """One more frame (16,), if any."""
        if codes is not None:
            self._waiting.append(codes)

    def decode(
        self, room: int | None = None, decoders: Decoders | None = None, *, last: bool = False
    ) -> None:
        """Decode what is waiting; the segment holds no more than `room` frames.

        With `decoders` perhaps by one of them: `settle` before anything is taken. After the `last`
        there is nothing more to decode.
        """
        self.settle()
        fresh = self._waiting if room is None else self._waiting[: max(0, room - self._done)]
        self._waiting = []
        if not fresh:
            self._state = None if last else self._state
            return
        codes = np.stack(fresh)  # (frames, 16)
        self._done += len(codes)

        def task() -> None:
            started = time.perf_counter()
            if self._state is None:
                self._state = self._decoder.new_state()
            self._pieces.append((self._decoder.decode(codes, self._state), codes))
            self._took += time.perf_counter() - started
            if last:
                self._state = None

        self._elsewhere = decoders.offer(task) if decoders is not None else None
        if self._elsewhere is None:
            task()
            self.settle()

    def settle(self) -> None:
        """Wait for what is being decoded elsewhere; raises what went wrong there."""
        future, self._elsewhere = self._elsewhere, None
        if future is not None:
            future.result()
        self._timings.decoder_s += self._took
        self._took = 0.0

    def take(self, room: int | None = None) -> tuple[F32, I64]:
        """The samples (frames · 1920,) and codes (frames, 16) decoded since, at most `room` frames."""
        pcm = np.concatenate([np.empty(0, np.float32), *(p for p, _ in self._pieces)])
        codes = np.concatenate([self._codes, *(c for _, c in self._pieces)])
        self._pieces = []
        if room is None:
            return pcm, codes
        return pcm[: room * self._decoder.samples_per_frame], codes[:room]

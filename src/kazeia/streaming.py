"""From checked requests to samples: the generator and the codec decoder side by side.

The generator (talker and code predictor) is bound by memory, the decoder by arithmetic, so one thread
of each shares two cores well. The generator is one for all calls (`RunningBatch`), a bounded number of frames
ahead of their decoders. For files the decoder works in the caller's thread, which has nothing better to
do; for streams in a second thread, one chunk ahead of the listener. Neither when there is one core.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kazeia.job import Job
from kazeia.model import Model
from kazeia.running_batch import Call, RunningBatch
from kazeia.runtime.codec_decoder import DecoderState
from kazeia.schedule import ChunkSchedule
from kazeia.scheduler import Step
from kazeia.speech import Chunk, Speech
from kazeia.workers import Workers

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_PIECE = 8  # frames decoded at once: larger pieces win nothing more
_LEAST_AHEAD = 2  # frames: with one only, each would wait for the other
_FILE_AHEAD = 2 * _PIECE  # frames of a row that may wait for the decoder


def synthesize(
    model: Model, batch: RunningBatch, jobs: Sequence[Job], workers: Workers, check: Callable[[], object]
) -> list[Speech]:
    """Generate and decode the jobs side by side, whole; the speeches in order."""
    segments = {
        (j, s): _Segment(model, job) for j, job in enumerate(jobs) for s in range(len(job.utterances))
    }
    with workers:
        check()
        call = batch.enter(jobs, room=_FILE_AHEAD, in_order=False, retry=True)
        workers.adopt(call)
        for step in call:
            key = step.job, step.segment
            if step.again:
                segments[key] = _Segment(model, jobs[step.job])
            segment = segments[key]
            segment.add(step.codes)
            if segment.waiting == _PIECE or step.last:
                jobs[step.job].check()
                segment.decode(step.room)
            if step.last:
                segment.close()
    speeches = []
    for j, job in enumerate(jobs):
        parts = []
        for s in range(len(job.utterances)):
            part = segments[j, s].take(job.room(s))
            if len(part[1]):
                parts.append(_silence(model, job, s))
            parts.append(part)
        if job.whole:
            parts.append(_silence(model, job, -1))
        pcm = np.concatenate([p for p, _ in parts])
        job.clock.hear(pcm)
        speeches.append(job.speech(pcm, np.concatenate([c for _, c in parts])))
    return speeches


def stream(
    model: Model,
    batch: RunningBatch,
    job: Job,
    schedule: ChunkSchedule,
    workers: Workers,
    check: Callable[[], object],
) -> Iterator[Chunk]:
    """Generate and decode one job, a chunk at a time. Nothing begins before the first is asked for."""
    room = max(_LEAST_AHEAD, min(_PIECE, max(schedule.sizes)))
    with workers:
        check()
        call = batch.enter([job], room=room, in_order=True, retry=False)
        workers.adopt(call)
        for chunk in workers.ahead(_chunks(model, job, schedule, call), 1, "kazeia-decoder"):
            check()
            yield chunk


def _chunks(model: Model, job: Job, schedule: ChunkSchedule, call: Call) -> Generator[Chunk, None, None]:
    rate, spoken = job.clock.sample_rate, 0
    parts: list[tuple[F32, I64]] = []

    def chunk(part: tuple[F32, I64]) -> Chunk:
        parts.append(part)
        job.clock.hear(part[0])
        return Chunk(part[0], rate, len(parts) - 1, job.seed)

    steps = _in_order(call)
    for s in range(len(job.utterances)):
        segment = _Segment(model, job)
        begun, last = False, False
        while not last:
            step = next(steps)
            last = step.last
            # Those before have ended, so that this is exact; what was generated beyond it is not heard.
            room = job.room(s)
            segment.add(step.codes if room is None or segment.frames < room else None)
            if not begun and segment.frames:
                begun = True
                pause = _silence(model, job, s)
                if len(pause[0]):
                    yield chunk(pause)
            # Decoded as they come, so that little is left to do when a long chunk is complete.
            size = schedule.size(spoken)
            if last or segment.waiting == min(_PIECE, size - segment.decoded):
                segment.decode()
            if segment.decoded == size or (last and segment.decoded):
                spoken += 1
                yield chunk(segment.take())
    if job.whole and len(_silence(model, job, -1)[0]):
        yield chunk(_silence(model, job, -1))
    index = len(parts)
    parts.append(_Segment(model, job).take())  # there may be none
    speech = job.speech(np.concatenate([p for p, _ in parts]), np.concatenate([c for _, c in parts]))
    yield Chunk(np.empty(0, np.float32), rate, index, job.seed, is_last=True, speech=speech)


def _in_order(call: Call) -> Iterator[Step]:
    """A stream's steps, segment by segment; what comes ahead of its time waits."""
    early: dict[int, deque[Step]] = {s: deque() for s in range(len(call.rows))}
    for s, waiting in early.items():
        call.go_on(s)
        last = False
        while not last:
            if not waiting:
                step = call.take()
                early[step.segment].append(step)
                continue
            step = waiting.popleft()
            call.use(step)
            last = step.last
            yield step


def _silence(model: Model, job: Job, index: int) -> tuple[F32, I64]:
    """The pause before a segment, −1 for the one at the end: zero samples, and no codes."""
    groups = model.bundle.config.talker.num_code_groups
    return np.zeros(job.pauses[index], np.float32), np.empty((0, groups), np.int64)


class _Segment:
    """The frames of one segment on their way to samples."""

    def __init__(self, model: Model, job: Job) -> None:
        self._decoder = model.decoder
        self._timings = job.timings
        self._state: DecoderState | None = None  # megabytes: made when needed
        self._waiting: list[I64] = []  # (16,) each
        self._done = 0  # frames decoded in all
        self._codes = np.empty((0, model.bundle.config.talker.num_code_groups), np.int64)
        self._pieces: list[tuple[F32, I64]] = []  # decoded and not taken

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

    def decode(self, room: int | None = None) -> None:
        """Decode what is waiting; the segment holds no more than `room` frames."""
        fresh = self._waiting if room is None else self._waiting[: max(0, room - self._done)]
        self._waiting = []
        if not fresh:
            return
        if self._state is None:
            self._state = self._decoder.new_state()
        codes = np.stack(fresh)  # (frames, 16)
        started = time.perf_counter()
        self._pieces.append((self._decoder.decode(codes, self._state), codes))
        self._timings.decoder_s += time.perf_counter() - started
        self._done += len(codes)

    def take(self, room: int | None = None) -> tuple[F32, I64]:
        """The samples (frames · 1920,) and codes (frames, 16) decoded since, at most `room` frames."""
        pcm = np.concatenate([np.empty(0, np.float32), *(p for p, _ in self._pieces)])
        codes = np.concatenate([self._codes, *(c for _, c in self._pieces)])
        self._pieces = []
        if room is None:
            return pcm, codes
        return pcm[: room * self._decoder.samples_per_frame], codes[:room]

    def close(self) -> None:
        """Let go of the decoder's state."""
        self._state = None

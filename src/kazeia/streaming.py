"""From checked requests to samples: the generator and the codec decoder side by side.

The generator (talker and code predictor) is bound by memory, the decoder by arithmetic, so one thread
of each shares two cores well. The generator is one for all calls (`RunningBatch`), a bounded number of frames
ahead of their decoders. For files the decoder works in the caller's thread, which has nothing better to
do; for streams in a second thread, one chunk ahead of the listener. Neither when there is one core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kazeia.decoding import Decoders, Segment
from kazeia.job import Job
from kazeia.model import Model
from kazeia.running_batch import Call, RunningBatch
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
    model: Model,
    batch: RunningBatch,
    jobs: Sequence[Job],
    workers: Workers,
    check: Callable[[], object],
    decoders: int,
) -> list[Speech]:
    """Generate and decode the jobs side by side, whole; the speeches in order.

    Of several segments, as many as there are `decoders` are decoded at the same time.
    """
    segments = {(j, s): Segment(model, job) for j, job in enumerate(jobs) for s in range(len(job.utterances))}
    with workers:
        check()
        call = batch.enter(jobs, room=_FILE_AHEAD, in_order=False, retry=True)
        workers.adopt(call)
        # One of them is this thread.
        beside = Decoders(min(decoders, len(segments)) - 1)
        workers.adopt(beside)
        for step in call:
            key = step.job, step.segment
            if step.again:
                segments[key].settle()
                segments[key] = Segment(model, jobs[step.job])
            segment = segments[key]
            segment.add(step.codes)
            if segment.waiting == _PIECE or step.last:
                jobs[step.job].check()
                segment.decode(step.room, beside, last=step.last)
        for segment in segments.values():
            segment.settle()
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
        segment = Segment(model, job)
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
    parts.append(Segment(model, job).take())  # there may be none
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

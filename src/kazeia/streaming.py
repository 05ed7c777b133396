"""From checked requests to samples: the generator and the codec decoder side by side.

The generator (talker and code predictor) is bound by memory, the decoder by arithmetic, so one thread
of each shares two cores well. The generator runs in a thread of its own, a bounded number of frames
ahead of the decoder. For files the decoder works in the caller's thread, which has nothing better to
do; for streams in a second thread, one chunk ahead of the listener. Neither when there is one core.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kazeia.generation import FrameLoop
from kazeia.job import Job
from kazeia.model import Model
from kazeia.random import derive_streams
from kazeia.runtime.codec_decoder import DecoderState
from kazeia.schedule import ChunkSchedule
from kazeia.speech import Chunk, Speech
from kazeia.workers import Workers

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

MAX_BATCH = 8  # utterances generated side by side
_PIECE = 8  # frames decoded at once: larger pieces win nothing more
_LEAST_AHEAD = 2  # frames: with one only, each would wait for the other


@dataclass(frozen=True)
class Step:
    """What one step of the frame loop brought for one segment of one job."""

    job: int
    segment: int
    codes: I64 | None  # (16,), None when there is no new frame
    last: bool  # whether the segment has ended
    room: int | None  # frames that the segment may fill at most, None for any
    again: bool = False  # whether the segment begins anew: what came of it before is void


def generate(
    model: Model, jobs: Sequence[Job], rows: int, check: Callable[[], object], *, retry: bool
) -> Generator[list[Step], None, None]:
    """Generate all segments of all jobs, up to `rows` side by side; one list per step.

    `check` is called before every step, and ends the work by what it raises. With `retry`, runaways
    are begun anew as often as their guard says.
    """
    loop = FrameLoop(model.talker, model.predictor, model.bundle.config.talker, model.prefixes)
    waiting = deque((j, s) for j, job in enumerate(jobs) for s in range(len(job.utterances)))
    places: dict[int, tuple[int, int]] = {}  # by the identity of the utterance
    attempts: Counter[tuple[int, int]] = Counter()
    while waiting or len(loop):
        check()
        while waiting and len(loop) < rows:
            j, s = waiting.popleft()
            utterance, room = jobs[j].utterances[s], jobs[j].room(s)
            if room == 0:  # the segments before have filled the limit
                continue
            if room is not None:
                utterance.max_frames = min(utterance.max_frames, room)
            places[id(utterance)] = j, s
            loop.join(utterance)
        before = {key: len(jobs[j].utterances[s].codes) for key, (j, s) in places.items()}
        steps = []
        for u in loop.step():
            j, s = places[id(u)]
            if retry and u.finish_reason == "runaway" and u.guard and attempts[j, s] < u.guard.retries:
                attempts[j, s] += 1
                u.restart(derive_streams(jobs[j].seed, s, attempts[j, s]))
                loop.join(u)
                steps.append(Step(j, s, None, False, None, again=True))
                continue
            codes = u.codes[-1] if len(u.codes) > before[id(u)] else None
            steps.append(Step(j, s, codes, u.finish_reason is not None, jobs[j].room(s)))
            if u.finish_reason is not None:
                del places[id(u)]
        for job in jobs:
            job.tell()
        yield steps


def synthesize(
    model: Model, jobs: Sequence[Job], workers: Workers, check: Callable[[], object]
) -> list[Speech]:
    """Generate and decode the jobs side by side, whole; the speeches in order."""
    segments = {
        (j, s): _Segment(model, job) for j, job in enumerate(jobs) for s in range(len(job.utterances))
    }
    with workers:
        source = generate(model, jobs, MAX_BATCH, check, retry=True)
        for step in _flat(workers.ahead(source, _PIECE, "kazeia-generator")):
            key = step.job, step.segment
            if step.again:
                segments[key] = _Segment(model, jobs[step.job])
            segment = segments[key]
            segment.add(step.codes)
            if segment.waiting == _PIECE or step.last:
                segment.decode(step.room)
            if step.last:
                segment.close()
    speeches = []
    for j, job in enumerate(jobs):
        parts = [segments[j, s].take(job.room(s)) for s in range(len(job.utterances))]
        pcm = np.concatenate([p for p, _ in parts])
        job.clock.hear(pcm)
        speeches.append(job.speech(pcm, np.concatenate([c for _, c in parts])))
    return speeches


def stream(
    model: Model, job: Job, schedule: ChunkSchedule, workers: Workers, check: Callable[[], object]
) -> Iterator[Chunk]:
    """Generate and decode one job, a chunk at a time. Nothing begins before the first is asked for."""
    room = max(_LEAST_AHEAD, min(_PIECE, max(schedule.sizes)))
    with workers:
        steps = workers.ahead(generate(model, [job], 1, check, retry=False), room, "kazeia-generator")
        for chunk in workers.ahead(_chunks(model, job, schedule, steps), 1, "kazeia-decoder"):
            check()
            yield chunk


def _chunks(
    model: Model, job: Job, schedule: ChunkSchedule, steps: Iterable[list[Step]]
) -> Generator[Chunk, None, None]:
    rate, index = job.clock.sample_rate, 0
    segment = _Segment(model, job)
    parts = [segment.take()]
    for step in _flat(steps):
        size = schedule.size(index)
        segment.add(step.codes)
        # Decoded as they come, so that little is left to do when a long chunk is complete.
        if step.last or segment.waiting == min(_PIECE, size - segment.decoded):
            segment.decode()
        if segment.decoded == size or (step.last and segment.decoded):
            parts.append(segment.take())
            pcm = parts[-1][0]
            job.clock.hear(pcm)
            yield Chunk(pcm, rate, index, job.seed)
            index += 1
        if step.last:
            segment.close()
            segment = _Segment(model, job)
    speech = job.speech(np.concatenate([p for p, _ in parts]), np.concatenate([c for _, c in parts]))
    yield Chunk(np.empty(0, np.float32), rate, index, job.seed, is_last=True, speech=speech)


def _flat(groups: Iterable[list[Step]]) -> Iterator[Step]:
    return (step for group in groups for step in group)


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

"""Who is in the running batch: rows of many calls, let in and sent out between frames, in a fair order.

* Every call has as many rows in the batch as every other, or wants no more; the one with fewest comes
  first, then the one that has waited longest. Where there are more calls than places, they take turns.
* A row whose frames nobody takes is held: it gets no more. It is computed in vain for a few steps, which
  costs little, and leaves the batch after that, or at once when its place is wanted. What it has read
  is kept, and it comes back when its frames are taken.
* A stream's later segments are generated beside the one that is being heard, within a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from kazeia.errors import GenerationError
from kazeia.generation import FrameLoop, Utterance
from kazeia.job import Job
from kazeia.model import Model
from kazeia.random import derive_streams

I64 = npt.NDArray[np.int64]

MAX_BATCH = 8
"""Rows side by side unless `kazeia.load` says otherwise."""
AHEAD_SEGMENTS = 2
"""How many segments of a stream are generated beside the one that is being heard."""
AHEAD_FRAMES = 150
"""How many frames of each of those may wait (12 s)."""
_START_AHEAD = 12  # frames of a segment, before the next one is begun: reading its prompt takes a while
_TURN = 16  # frames before a row makes room for one that has as good a claim
_IN_VAIN = 8  # steps that a held row is computed in vain: its way out and back costs about as much


@dataclass(frozen=True)
class Step:
    """What one step of the frame loop brought for one segment of one job."""

    job: int
    segment: int
    codes: I64 | None  # (16,), None when there is no new frame
    last: bool  # whether the segment has ended
    room: int | None  # frames that the segment may fill at most, None for any
    again: bool = False  # whether the segment begins anew: what came of it before is void


@dataclass(eq=False)
class Row:
    """One segment of one job of a call, on its way through the batch."""

    call: Rows
    job: int
    segment: int
    utterance: Utterance
    made: int = 0  # frames given out
    used: int = 0  # of those, taken; counted by the consumer's thread
    seated: bool = False
    ended: bool = False
    undecided: bool = False  # a runaway that is begun anew, unless the limit turns out to fall before it
    attempts: int = 0  # how often it was begun anew
    tenure: int = 0  # frames since it was let in
    idle: int = 0  # steps in vain since its last frame
    since: int = 0  # its number in the queue

    @property
    def later(self) -> bool:
        """Whether it is a stream's segment behind the one that is being heard."""
        return self.call.in_order and self.segment > self.call.current

    def wants(self) -> bool:
        """Whether it may have another frame now."""
        bound = AHEAD_FRAMES if self.later else self.call.room
        waiting = self.made - self.used
        return waiting <= bound // 2 if self.utterance.parked is not None else waiting < bound

    def may_begin(self) -> bool:
        """Whether a row that has not been let in yet may be."""
        if not self.later:
            return True
        heard = self.call.rows[self.call.current]
        near = self.segment <= self.call.current + AHEAD_SEGMENTS
        return near and (heard.ended or heard.made >= _START_AHEAD)


@dataclass(eq=False)
class Rows:
    """The rows of one call, and what has come of them: steps, or the error that ends the call."""

    jobs: Sequence[Job]
    room: int  # frames of a row that may wait to be taken
    in_order: bool  # whether segments are taken one after the other (a stream), or as they come
    retry: bool  # whether runaways are begun anew
    rows: list[Row] = field(default_factory=list)
    current: int = 0  # the segment that a stream is at; set by the consumer's thread
    items: SimpleQueue[Step | BaseException | None] = field(default_factory=SimpleQueue)
    waiting: deque[Row] = field(default_factory=deque)  # not let in yet
    parked: list[Row] = field(default_factory=list)
    seated: int = 0  # rows in the batch

    def __post_init__(self) -> None:
        for j, job in enumerate(self.jobs):
            self.rows += [Row(self, j, s, u) for s, u in enumerate(job.utterances)]
        self.waiting.extend(self.rows)
        self.live = list(self.rows)  # not ended

    def candidate(self) -> Row | None:
        """The row that should be let in next, if any may."""
        for row in sorted(self.parked, key=_key):
            if row.wants():
                return row
        first = self.waiting[0] if self.waiting else None
        return first if first is not None and first.may_begin() and first.wants() else None


class Scheduler:
    """The frame loop of an engine and the rows of all its calls. For one thread at a time."""

    def __init__(self, model: Model, max_batch: int) -> None:
        self._model = model
        self._most = max_batch
        self._numbers = count()
        self._loop = self._new_loop()
        self._seated: list[Row] = []
        self.calls: list[Rows] = []

    def _new_loop(self) -> FrameLoop:
        model = self._model
        return FrameLoop(model.talker, model.predictor, model.bundle.config.talker, model.prefixes)

    def enter(self, call: Rows) -> None:
        """A call begins."""
        self.calls.append(call)
        for row in call.rows:
            row.since = next(self._numbers)

    def leave(self, call: Rows) -> None:
        """A call wants no more; may be said twice."""
        if call in self.calls:
            self.calls.remove(call)
            for row in list(call.live):
                self._end(row)

    def turn(self, driver: Rows | None = None) -> bool:
        """Make one frame of every row that may have one; False when there is none.

        Raises nothing: what goes wrong with one row ends its call, and what goes wrong with the step
        all the calls that are in the batch. `driver`: the call whose own thread this is, if any; it
        gets whatever is not an Exception (Ctrl-C), as all do where there is no such call.
        """
        try:
            return self._turn()
        except BaseException as error:  # whatever it is, it belongs to those who wait
            self._break(error, driver)
            return True

    def _turn(self) -> bool:
        for call in list(self.calls):
            self._attend(call)
        self._fill()
        seated = list(self._seated)
        held = [row for row in seated if not row.wants()]
        if len(held) == len(seated):
            return False
        rows = {id(row.utterance): row for row in seated}
        before = {id(row): len(row.utterance.codes) for row in seated}
        for row in held:
            row.idle += 1
        steps: list[tuple[Rows, Step]] = []
        failed: dict[Rows, BaseException] = {}
        for u in self._loop.step([row.utterance for row in held]):
            row = rows[id(u)]
            if u.error is not None:
                failed.setdefault(row.call, u.error)
            else:
                steps.append((row.call, self._outcome(row, before[id(row)])))
        for row in held:
            if row.idle >= _IN_VAIN:
                self._park(row)
        for call in {id(call): call for call, _ in steps}.values():
            try:
                for job in call.jobs:
                    job.tell()
            except BaseException as error:
                failed.setdefault(call, error)
        for call, step in steps:
            if call not in failed:
                call.items.put(step)
        for call, reason in failed.items():
            self._fail(call, reason)
        return True

    def _outcome(self, row: Row, before: int) -> Step:
        """What a row's step has brought; a row that has ended has left the loop by itself."""
        u = row.utterance
        job = row.call.jobs[row.job]
        row.idle = 0
        codes = None
        if len(u.codes) > before:
            codes = u.codes[-1]
            row.made += 1
            row.tenure += 1
        if u.finish_reason is not None:
            self._unseat(row)
            if u.finish_reason == "runaway" and row.call.retry and u.guard and row.attempts < u.guard.retries:
                u.finish_reason, row.undecided = None, True
            else:
                self._end(row)
        return Step(row.job, row.segment, codes, row.ended, job.room(row.segment))

    def _restart(self, row: Row) -> Step:
        """Begin a runaway anew, with random numbers that belong to the attempt."""
        row.attempts += 1
        row.undecided = False
        row.utterance.restart(derive_streams(row.call.jobs[row.job].seed, row.segment, row.attempts))
        row.call.waiting.appendleft(row)
        return Step(row.job, row.segment, None, False, None, again=True)

    def _attend(self, call: Rows) -> None:
        """End the rows of a call that are cancelled, or that others before them have left no room for."""
        try:
            cancelled = {j for j, job in enumerate(call.jobs) if job.cancelled}
        except Exception as error:  # it is the caller's own object
            self._fail(call, error)
            return
        for row in list(call.live):
            job, u = call.jobs[row.job], row.utterance
            limited = job.request.max_frames is not None
            if row.job not in cancelled and not limited and not row.undecided:
                continue
            room = job.room(row.segment)
            if row.job in cancelled:
                u.finish_reason = "cancelled"
            elif room is not None and len(u.codes) >= room:
                u.finish_reason = "limit" if u.codes else None
            else:
                # With a limit for all, those before have to end first: what is cut off is no runaway.
                if row.undecided and (not limited or job.settled(row.segment)):
                    call.items.put(self._restart(row))
                continue
            self._end(row)
            call.items.put(Step(row.job, row.segment, None, True, room))

    def _fill(self) -> None:
        """Let rows in as long as there are places, or rows with a lesser claim; one new prompt at a time."""
        while True:
            candidates = [row for call in self.calls if (row := call.candidate())]
            if not candidates:
                return
            row = min(candidates, key=lambda row: (row.call.seated, row.since))
            if len(self._seated) >= self._most:
                victim = _victim(row, self._seated)
                if victim is None:
                    return
                self._park(victim)
            returning = row.utterance.parked is not None
            self._let_in(row)
            if not returning:
                return

    def _let_in(self, row: Row) -> None:
        if row.utterance.parked is not None:
            row.call.parked.remove(row)
        else:
            row.call.waiting.remove(row)
        row.seated, row.tenure, row.idle = True, 0, 0
        row.call.seated += 1
        self._seated.append(row)
        self._loop.join(row.utterance)

    def _unseat(self, row: Row) -> None:
        row.seated = False
        row.call.seated -= 1
        self._seated.remove(row)

    def _park(self, row: Row) -> None:
        self._unseat(row)
        self._loop.park(row.utterance)
        row.since = next(self._numbers)
        if row.utterance.parked is not None:
            row.call.parked.append(row)
        else:  # it has not read anything
            row.call.waiting.appendleft(row)

    def _end(self, row: Row) -> None:
        """Nothing more of this row."""
        if row.seated:
            self._unseat(row)
            self._loop.leave(row.utterance)
        elif row in row.call.parked:
            row.call.parked.remove(row)
        elif row in row.call.waiting:
            row.call.waiting.remove(row)
        row.call.live.remove(row)
        row.utterance.parked = None
        row.ended, row.undecided = True, False

    def _fail(self, call: Rows, error: BaseException) -> None:
        self.leave(call)
        call.items.put(error)

    def _break(self, error: BaseException, driver: Rows | None) -> None:
        """The step itself has failed: the loop cannot be trusted, nor the rows that were in it."""
        self._loop = self._new_loop()
        broken = [call for call in self.calls if call.seated or call is driver] or list(self.calls)
        for row in list(self._seated):
            self._unseat(row)
        for call in broken:
            if isinstance(error, Exception) or driver is None or call is driver:
                self._fail(call, error)
            else:
                text = f"the step that this call shared with others was ended by {error!r}"
                self._fail(call, GenerationError(text))


def _key(row: Row) -> tuple[int, int]:
    return row.job, row.segment


def _victim(candidate: Row, seated: list[Row]) -> Row | None:
    """The row that should make room for the candidate, if any should."""
    held = [row for row in seated if not row.wants()]
    if held:
        return max(held, key=lambda row: row.idle)
    own = [row for row in seated if row.call is candidate.call and row.later and _key(row) > _key(candidate)]
    if own:  # what is heard sooner comes first
        return max(own, key=_key)
    most = max(row.call.seated for row in seated)
    rich = [row for row in seated if row.call.seated == most]
    if most >= candidate.call.seated + 2:
        return max(rich, key=lambda row: (_key(row), row.since))
    if most == candidate.call.seated + 1:
        longest = max(rich, key=lambda row: row.tenure)
        return longest if longest.tenure >= _TURN else None
    return None

"""The frame loop: from prompts to codes, for a batch of utterances that join and leave; spec §2.5."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from kazeia.checkpoint.config import TalkerConfig
from kazeia.prompt import Prompt
from kazeia.random import Xorshift32
from kazeia.runaway import RunawayGuard
from kazeia.runtime.code_predictor import Choose, CodePredictor
from kazeia.runtime.kv_cache import KVCache
from kazeia.runtime.prefix_cache import PrefixCache
from kazeia.runtime.talker import Talker, TalkerState
from kazeia.sampling import Sampling, sample

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
FinishReason = Literal["stop", "limit", "runaway", "cancelled"]

MIN_FRAMES = 2  # the end token is masked for the first two samples; spec §2.5
_CONTROL_IDS = 1024  # the last ids of the codec vocabulary are no audio codes; spec §2.5
_FIRST_CAPACITY = 256  # frames that the cache is made for at first; it grows when they are used up


@dataclass(eq=False)
class Utterance:
    """One row of the batch: what to say and how, and what has become of it."""

    prompt: Prompt
    sampling: Sampling
    predictor_sampling: Sampling
    streams: tuple[Xorshift32, Xorshift32]  # talker's and predictor's random numbers
    max_frames: int
    cancel: threading.Event | None = None
    guard: RunawayGuard | None = None

    codes: list[I64] = field(default_factory=list)  # one (16,) per frame
    history: list[int] = field(default_factory=list)  # the codes 0 drawn so far
    finish_reason: FinishReason | None = None
    error: Exception | None = None  # what went wrong with this row alone
    prefill_s: float = 0.0
    talker_s: float = 0.0  # its share of the steps it took part in
    predictor_s: float = 0.0

    # The talker's answer to all frames so far.
    hidden: F32 = field(default_factory=lambda: np.empty(0, np.float32), repr=False)
    logits: F32 = field(default_factory=lambda: np.empty(0, np.float32), repr=False)
    parked: KVCache | None = field(default=None, repr=False)  # what it has read, while out of the batch

    def restart(self, streams: tuple[Xorshift32, Xorshift32]) -> None:
        """Forget what was said, to be said again with other random numbers."""
        self.streams = streams
        self.codes, self.history, self.finish_reason = [], [], None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.finish_reason is not None or self.error is not None

    @property
    def cancelled(self) -> bool:
        """Whether its caller wants no more of it."""
        return self.cancel is not None and self.cancel.is_set()


def control_mask(config: TalkerConfig, *, end_allowed: bool) -> npt.NDArray[np.bool_]:
    """True (vocab,) for the ids that must not be drawn: all control ids, but for the end token."""
    suppressed = np.zeros(config.vocab_size, np.bool_)
    suppressed[config.vocab_size - _CONTROL_IDS :] = True
    suppressed[config.codec_eos_token_id] = not end_allowed
    return suppressed


def frame_drawer(
    samplings: Sequence[Sampling], streams: Sequence[Xorshift32], codes0: Sequence[int]
) -> Choose:
    """How the rows of one frame draw codes 1–15: the penalty looks at the codes already in the frame."""
    drawn = [[code] for code in codes0]

    def choose(row: int, logits: F32) -> int:
        code = sample(logits, drawn[row], samplings[row], streams[row], None, "code predictor logits")
        drawn[row].append(code)
        return code

    return choose


class FrameLoop:
    """Steps a changing set of utterances, one frame of each at a time.

    An utterance's codes do not depend on which others are in the batch, when they join, or how often
    it is held or parked. Not for use by two threads at once.
    """

    def __init__(
        self,
        talker: Talker,
        predictor: CodePredictor,
        config: TalkerConfig,
        prefixes: PrefixCache | None = None,
    ) -> None:
        """`prefixes`: the beginnings of prompts read before; without it, all are read anew."""
        self._prefixes = prefixes or PrefixCache(talker, 0)
        self._talker = talker
        self._predictor = predictor
        self._eos = config.codec_eos_token_id
        self._suppress_early = control_mask(config, end_allowed=False)
        self._suppress = control_mask(config, end_allowed=True)
        self._waiting: list[Utterance] = []
        self._active: list[Utterance] = []  # row by row, as in the cache
        self._state: TalkerState = talker.new_state()
        self._predictor_state = predictor.new_state()

    def join(self, utterance: Utterance) -> None:
        """Let an utterance in at the next step: a new one, or one that was parked."""
        self._waiting.append(utterance)

    def leave(self, utterance: Utterance) -> None:
        """Let an utterance go for good."""
        self._waiting = [u for u in self._waiting if u is not utterance]
        self._keep([i for i, u in enumerate(self._active) if u is not utterance])

    def park(self, utterance: Utterance) -> None:
        """Let an utterance go that will join again; it takes along what it has read."""
        for row, u in enumerate(self._active):
            if u is utterance:
                u.parked = self._state.cache.extract(row)
        self.leave(utterance)

    def __len__(self) -> int:
        """Utterances in flight or waiting."""
        return len(self._active) + len(self._waiting)

    def step(self, held: Sequence[Utterance] = ()) -> list[Utterance]:
        """Go on by one frame; return the utterances that took part, those that ended included.

        An utterance that got a frame has one more entry in `codes`; one that ended has its
        `finish_reason` or its `error` set and has left. Those `held` stay where they are and get no frame.
        An error that concerns one row (GenerationError for NaN or infinite logits) is that row's;
        what is raised concerns all of them.
        """
        resting = {id(u) for u in held}
        taking_part = [u for u in self._active + self._waiting if id(u) not in resting]
        for u in taking_part:
            try:
                if u.cancelled:
                    u.finish_reason = "cancelled"
            except Exception as error:  # the event is the caller's own object
                u.error = error
        self._waiting = [u for u in self._waiting if not u.ended]
        self._keep_going()
        self._return()
        self._step_talker(resting)
        self._prefill(resting)
        going = [u for u in self._active if id(u) not in resting]
        self._sample_first_codes(going)
        self._predict([u for u in going if not u.ended])
        self._keep_going()
        return taking_part

    def _keep_going(self) -> None:
        """Let go of the rows that have ended."""
        self._keep([i for i, u in enumerate(self._active) if not u.ended])

    def _keep(self, kept: list[int]) -> None:
        """Keep these rows (ascending); the last of them move into the gaps, so that few are copied."""
        if len(kept) == len(self._active):
            return
        count = len(kept)
        staying = set(kept)
        moving = [i for i in kept if i >= count]
        places = [i if i in staying else moving.pop() for i in range(count)]
        self._state.cache.keep(places)
        self._active = [self._active[i] for i in places]
        if not places:
            self._state = self._talker.new_state()  # the memory is free until somebody joins

    def _return(self) -> None:
        """Give those who were parked their rows again."""
        for u in self._waiting:
            if u.parked is not None:
                self._seat(u, TalkerState(u.parked))
                u.parked = None
        self._waiting = [u for u in self._waiting if u not in self._active]

    def _seat(self, u: Utterance, state: TalkerState) -> None:
        """Make the only utterance of `state` the last row."""
        if self._active:
            self._state.cache.append(state.cache)
        else:
            self._state = state
        self._active.append(u)

    def _step_talker(self, resting: set[int]) -> None:
        """Feed every row its last frame and the text that goes with it."""
        held = [row for row, u in enumerate(self._active) if id(u) in resting]
        going = len(self._active) - len(held)
        if not going:
            return
        started = time.perf_counter()
        embeds = np.stack(
            [self._predictor.embed(u.codes[-1]) + u.prompt.text_row(len(u.codes) - 1) for u in self._active]
        )
        hidden, logits = self._talker.step(self._state, embeds, held)
        took = (time.perf_counter() - started) / going
        for row, u in enumerate(self._active):
            if id(u) not in resting:
                u.hidden, u.logits = hidden[row], logits[row]
                u.talker_s += took

    def _prefill(self, resting: set[int]) -> None:
        """Read the prompts of those who wait, each alone: rows of a batch would have to be padded."""
        for u in [u for u in self._waiting if id(u) not in resting]:
            started = time.perf_counter()
            try:
                state, hidden, u.logits = self._read(u.prompt, u.max_frames)
                u.hidden = hidden[-1]
                self._seat(u, state)
            except Exception as error:  # of this row alone: the others have not been touched
                u.error = error
            u.prefill_s += time.perf_counter() - started
        self._waiting = [u for u in self._waiting if id(u) in resting]

    def _read(self, prompt: Prompt, max_frames: int) -> tuple[TalkerState, F32, F32]:
        rows, prefix = prompt.rows, prompt.prefix
        room = len(rows) + min(max_frames, _FIRST_CAPACITY)
        state = self._prefixes.read(rows[:prefix], room) if prefix else self._talker.new_state(1, room)
        return state, *self._talker.read(state, rows[prefix:])

    def _sample_first_codes(self, going: list[Utterance]) -> None:
        """Draw codebook 0 of every row; those that draw the end token end."""
        for u in going:
            suppress = self._suppress_early if len(u.codes) < MIN_FRAMES else self._suppress
            try:
                code0 = sample(u.logits, u.history, u.sampling, u.streams[0], suppress, "talker logits")
            except Exception as error:
                u.error = error
                continue
            if code0 == self._eos:
                u.finish_reason = "stop"
            else:
                u.history.append(code0)

    def _predict(self, going: list[Utterance]) -> None:
        """Complete every row's frame; rows that have reached their limit end."""
        if not going:
            return
        started = time.perf_counter()
        draw = frame_drawer(
            [u.predictor_sampling for u in going],
            [u.streams[1] for u in going],
            [u.history[-1] for u in going],
        )

        def choose(row: int, logits: F32) -> int:
            u = going[row]
            if u.error is None:
                try:
                    return draw(row, logits)
                except Exception as error:
                    u.error = error
            return 0  # this row's frame is lost, the others' are not

        frames = self._predictor.frame(
            self._predictor_state,
            np.stack([u.hidden for u in going]),
            np.array([u.history[-1] for u in going]),
            choose,
        )
        took = (time.perf_counter() - started) / len(going)
        for row, u in enumerate(going):
            u.predictor_s += took
            if u.error is not None:
                continue
            u.codes.append(frames[row])
            if len(u.codes) >= u.max_frames:
                u.finish_reason = "limit"
            elif u.guard is not None and u.guard.catches(u.history):
                u.finish_reason = "runaway"

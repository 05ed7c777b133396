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
from kazeia.runtime.prefix_cache import PrefixCache
from kazeia.runtime.talker import Talker, TalkerState
from kazeia.sampling import Sampling, sample

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
FinishReason = Literal["stop", "limit", "runaway", "cancelled"]

MIN_FRAMES = 2  # the end token is masked for the first two samples; spec §2.5
_CONTROL_IDS = 1024  # the last ids of the codec vocabulary are no audio codes; spec §2.5
_FIRST_CAPACITY = 1024  # frames that the cache is made for at first; it grows when they are used up


@dataclass
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
    prefill_s: float = 0.0
    talker_s: float = 0.0  # its share of the steps it took part in
    predictor_s: float = 0.0

    # The talker's answer to all frames so far.
    hidden: F32 = field(default_factory=lambda: np.empty(0, np.float32), repr=False)
    logits: F32 = field(default_factory=lambda: np.empty(0, np.float32), repr=False)

    def restart(self, streams: tuple[Xorshift32, Xorshift32]) -> None:
        """Forget what was said, to be said again with other random numbers."""
        self.streams = streams
        self.codes, self.history, self.finish_reason = [], [], None

    @property
    def cancelled(self) -> bool:
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

    An utterance's codes do not depend on which others are in the batch, or when they join.
    Not for use by two threads at once.
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
        self._active: list[Utterance] = []
        self._state: TalkerState = talker.new_state()
        self._predictor_state = predictor.new_state()

    def join(self, utterance: Utterance) -> None:
        """Let an utterance in at the next step."""
        self._waiting.append(utterance)

    def __len__(self) -> int:
        """Utterances in flight or waiting."""
        return len(self._active) + len(self._waiting)

    def step(self) -> list[Utterance]:
        """Go on by one frame; return the utterances that were in flight, finished ones included.

        An utterance that got a frame has one more entry in `codes`; one that ended has its
        `finish_reason` set and has left. Raises GenerationError for NaN or infinite logits.
        """
        taking_part = self._active + self._waiting
        for u in taking_part:
            if u.cancelled:
                u.finish_reason = "cancelled"
        self._waiting = [u for u in self._waiting if u.finish_reason is None]
        self._leave()
        self._step_talker()
        self._prefill()
        self._sample_first_codes()
        self._predict()
        return taking_part

    def _leave(self) -> None:
        """Let go of the rows that have finished."""
        kept = [i for i, u in enumerate(self._active) if u.finish_reason is None]
        if len(kept) != len(self._active):
            self._state.cache.keep(kept)
            self._active = [self._active[i] for i in kept]

    def _step_talker(self) -> None:
        """Feed every row its last frame and the text that goes with it."""
        if not self._active:
            return
        started = time.perf_counter()
        embeds = np.stack(
            [self._predictor.embed(u.codes[-1]) + u.prompt.text_row(len(u.codes) - 1) for u in self._active]
        )
        hidden, logits = self._talker.step(self._state, embeds)
        took = (time.perf_counter() - started) / len(self._active)
        for row, u in enumerate(self._active):
            u.hidden, u.logits = hidden[row], logits[row]
            u.talker_s += took

    def _prefill(self) -> None:
        """Read the prompts of those who wait, each alone: rows of a batch would have to be padded."""
        for u in self._waiting:
            started = time.perf_counter()
            room = len(u.prompt.rows) + min(u.max_frames, _FIRST_CAPACITY)
            rows, prefix = u.prompt.rows, u.prompt.prefix
            state = self._prefixes.read(rows[:prefix], room) if prefix else self._talker.new_state(1, room)
            hidden, u.logits = self._talker.read(state, rows[prefix:])
            u.hidden = hidden[-1]
            if self._active:
                self._state.cache.reserve(len(self._active) + len(self._waiting), room)
                self._state.cache.append(state.cache)
            else:
                self._state = state
            self._active.append(u)
            u.prefill_s += time.perf_counter() - started
        self._waiting = []

    def _sample_first_codes(self) -> None:
        """Draw codebook 0 of every row; those that draw the end token leave."""
        for u in self._active:
            suppress = self._suppress_early if len(u.codes) < MIN_FRAMES else self._suppress
            code0 = sample(u.logits, u.history, u.sampling, u.streams[0], suppress, "talker logits")
            if code0 == self._eos:
                u.finish_reason = "stop"
            else:
                u.history.append(code0)
        self._leave()

    def _predict(self) -> None:
        """Complete every row's frame; rows that have reached their limit leave."""
        if not self._active:
            return
        started = time.perf_counter()
        frames = self._predictor.frame(
            self._predictor_state,
            np.stack([u.hidden for u in self._active]),
            np.array([u.history[-1] for u in self._active]),
            frame_drawer(
                [u.predictor_sampling for u in self._active],
                [u.streams[1] for u in self._active],
                [u.history[-1] for u in self._active],
            ),
        )
        took = (time.perf_counter() - started) / len(self._active)
        for row, u in enumerate(self._active):
            u.codes.append(frames[row])
            u.predictor_s += took
            if len(u.codes) >= u.max_frames:
                u.finish_reason = "limit"
            elif u.guard is not None and u.guard.catches(u.history):
                u.finish_reason = "runaway"
        self._leave()

"""One thing to say, and the work that it becomes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
import numpy.typing as npt

from kazeia.errors import OptionError
from kazeia.generation import FinishReason, Utterance
from kazeia.prompt import Layout
from kazeia.sampling import SamplingChoice
from kazeia.speech import PlaybackClock, Speech, Timings
from kazeia.text.pauses import check_pause

_WORST_FIRST: tuple[FinishReason, ...] = ("cancelled", "runaway", "limit", "stop")
SEGMENT_CHARS = 300  # longer texts are spoken in pieces of about this many characters


@dataclass(frozen=True)
class Request:
    """One thing to say. The fields are those of `Engine.synthesize`."""

    text: str
    voice: str | None = None
    language: str | None = "auto"
    instruct: str | None = None
    seed: int | None = None
    sampling: SamplingChoice = None
    predictor_sampling: SamplingChoice = None
    max_frames: int | None = None
    layout: Layout = "whole"
    segment_chars: int | None = SEGMENT_CHARS
    cancel: threading.Event | None = None
    on_frame: Callable[[int], None] | None = None
    segment_pause: float = 0
    markup: bool = True


def check_request(request: object) -> None:
    """Raise OptionError for what is no `Request`, or holds what cannot be called or asked."""
    if not isinstance(request, Request):
        raise OptionError(f"a request is {request!r}; expected a kazeia.Request")
    if request.cancel is not None and not hasattr(request.cancel, "is_set"):
        raise OptionError(f"cancel is {request.cancel!r}; expected a threading.Event or None")
    if request.on_frame is not None and not callable(request.on_frame):
        raise OptionError(f"on_frame is {request.on_frame!r}; expected a function of one number, or None")
    if not isinstance(request.markup, bool):
        raise OptionError(f"markup is {request.markup!r}; expected True or False")
    check_pause("segment_pause", request.segment_pause)


def check_count(name: str, value: object, *, optional: bool = True) -> None:
    """Raise OptionError unless `value` is a whole number of at least 1, or None where that is `optional`."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        end = ", or None" if optional else ""
        raise OptionError(f"{name} is {value!r}; expected a whole number of at least 1{end}")


@dataclass
class Job:
    """A request that has been checked: its prompts, and everything resolved."""

    request: Request
    voice: str
    language: str
    seed: int
    utterances: list[Utterance]  # one per segment of the text
    pauses: list[int]  # zero samples before each of them, and at the end
    clock: PlaybackClock
    timings: Timings = field(default_factory=Timings)
    told: int = 0

    @property
    def frames(self) -> int:
        """Frames made so far, of those that will be kept."""
        made = sum(len(u.codes) for u in self.utterances)
        return made if self.request.max_frames is None else min(made, self.request.max_frames)

    @property
    def cancelled(self) -> bool:
        """Whether the caller wants no more."""
        return self.request.cancel is not None and self.request.cancel.is_set()

    def check(self) -> None:
        """Raise what the caller's `cancel` raises, if anything: then nothing more is worth doing."""
        bool(self.cancelled)

    def settled(self, index: int) -> bool:
        """Whether all segments before `index` have ended."""
        return all(u.finish_reason is not None for u in self.utterances[:index])

    def tell(self) -> None:
        """Report progress, once per new frame count."""
        if self.request.on_frame is not None and self.frames != self.told:
            self.told = self.frames
            self.request.on_frame(self.told)

    def room(self, index: int) -> int | None:
        """Frames that segment `index` may still fill under the request's own limit, None for any."""
        before = self.utterances[:index]
        if any(u.finish_reason == "cancelled" for u in before):
            return 0  # segments run side by side: what follows a cut is no continuation
        if self.request.max_frames is None:
            return None
        # Only those that have ended count: the others may be begun anew.
        settled = sum(len(u.codes) for u in before if u.finish_reason is not None)
        return max(0, self.request.max_frames - settled)

    def finish_reason(self) -> FinishReason:
        """How the speech ended: the worst of its parts, of those that the request's limit has not cut off."""
        kept: set[FinishReason | None] = set()
        frames = 0
        for u in self.utterances:
            room = self.request.max_frames
            frames += len(u.codes)
            if room is not None and frames > room:
                kept.add("limit")
                break
            kept.add(u.finish_reason)
            if u.finish_reason == "cancelled":
                break
            if frames == room:
                kept.add("limit")
                break
        return next(reason for reason in _WORST_FIRST if reason in kept)

    @property
    def whole(self) -> bool:
        """Whether everything was said: neither cancelled nor ended by the request's own limit."""
        limit = self.request.max_frames
        return self.finish_reason() != "cancelled" and (limit is None or self.frames < limit)

    def speech(self, pcm: npt.NDArray[np.float32], codes: npt.NDArray[np.int64]) -> Speech:
        """The finished speech: samples, pauses included, and codes (frames, 16), with its timings."""
        t = self.timings
        t.prefill_s = sum(u.prefill_s for u in self.utterances)
        t.talker_s = sum(u.talker_s for u in self.utterances)
        t.predictor_s = sum(u.predictor_s for u in self.utterances)
        t.frames = len(codes)
        t.audio_s = len(pcm) / self.clock.sample_rate
        t.first_audio_s, t.first_audible_s = self.clock.first_audio_s, self.clock.first_audible_s
        t.total_s = self.clock.elapsed()
        reason = self.finish_reason()
        return Speech(pcm, self.clock.sample_rate, codes, self.seed, self.voice, self.language, reason, t)

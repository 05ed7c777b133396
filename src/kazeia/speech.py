"""What the engine returns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kazeia.generation import FinishReason

AUDIBLE = 0.01
"""A sample counts as audible when its absolute value exceeds this share of full scale (−40 dBFS)."""


@dataclass
class Timings:
    """Where the time went, in seconds of wall clock.

    A step that several rows of a batch share counts for each by its share. Generator and decoder work
    side by side where there are two cores, so that the parts may add up to more than the total.
    """

    prefill_s: float = 0.0
    """Reading the prompts."""
    talker_s: float = 0.0
    """All talker steps."""
    predictor_s: float = 0.0
    """All code predictor frames, sampling included."""
    decoder_s: float = 0.0
    """Codes to samples."""
    first_audio_s: float = 0.0
    """From the call to the first samples that the caller can have: a stream's first chunk, or a file."""
    first_audible_s: float | None = None
    """From the call until one who plays the samples as they come hears the first audible one (`AUDIBLE`):
    later than `first_audio_s` by the silence before it. None when there is none."""
    total_s: float = 0.0
    """From the call to the last samples; a stream's includes the waiting for a slow listener."""
    frames: int = 0
    """Frames of 80 ms that were made."""
    audio_s: float = 0.0
    """Seconds of audio."""

    @property
    def rtf(self) -> float:
        """Seconds of work per second of audio; below 1 is faster than speech. NaN without audio."""
        return self.total_s / self.audio_s if self.audio_s else float("nan")

    @property
    def speed(self) -> float:
        """Seconds of audio per second of work; above 1 is faster than speech. NaN without audio."""
        return self.audio_s / self.total_s if self.audio_s else float("nan")

    def per_frame_ms(self) -> dict[str, float]:
        """Milliseconds per frame of talker, predictor and decoder; empty without frames."""
        if not self.frames:
            return {}
        parts = {"talker": self.talker_s, "predictor": self.predictor_s, "decoder": self.decoder_s}
        return {name: 1000 * seconds / self.frames for name, seconds in parts.items()}

    def summary(self) -> str:
        """One line for people."""
        if not self.audio_s:
            return f"no audio in {self.total_s:.2f} s"
        first = self.first_audible_s
        audible = "never audible" if first is None else f"audible after {1000 * first:.0f} ms"
        parts = "".join(f", {name} {ms:.1f} ms/frame" for name, ms in self.per_frame_ms().items())
        return (
            f"{self.audio_s:.2f} s of audio in {self.total_s:.2f} s "
            f"(RTF {self.rtf:.2f}, {self.speed:.2f}x), first sound after {1000 * self.first_audio_s:.0f} ms "
            f"({audible}), prefill {1000 * self.prefill_s:.0f} ms{parts}"
        )


class PlaybackClock:
    """When somebody who plays samples as they come would hear them, in seconds from the call."""

    def __init__(self, sample_rate: int) -> None:
        self.started = time.perf_counter()
        self.sample_rate = sample_rate
        """Hz."""
        self.first_audio_s = 0.0
        self.first_audible_s: float | None = None
        self._end: float | None = None  # when what has come so far will have been played

    def hear(self, pcm: npt.NDArray[np.float32]) -> None:
        """More samples have come."""
        now = self.elapsed()
        if self._end is None:
            self.first_audio_s = self._end = now
        begin = max(now, self._end)
        if self.first_audible_s is None:
            loud = np.abs(pcm) > AUDIBLE
            if loud.any():
                self.first_audible_s = begin + int(loud.argmax()) / self.sample_rate
        self._end = begin + len(pcm) / self.sample_rate

    def elapsed(self) -> float:
        """Seconds since the call."""
        return time.perf_counter() - self.started


@dataclass
class Speech:
    """A finished utterance."""

    pcm: npt.NDArray[np.float32]
    """Samples in [−1, 1]: 1920 per frame, and zeros where there is a pause."""
    sample_rate: int
    """Hz."""
    codes: npt.NDArray[np.int64]
    """(frames, 16)."""
    seed: int
    """The seed that was used; give it again to hear the same."""
    voice: str
    """The voice that spoke."""
    language: str
    """The language that was set, or "auto"."""
    finish_reason: FinishReason
    """"stop": the model ended by itself; "limit": it was stopped after so many frames; "runaway": it was
    stopped because it had lost its way (`RunawayGuard`); "cancelled": the caller stopped it."""
    timings: Timings = field(repr=False)

    @property
    def duration(self) -> float:
        """Seconds of audio."""
        return len(self.pcm) / self.sample_rate


@dataclass
class Chunk:
    """A piece of a stream."""

    pcm: npt.NDArray[np.float32]
    """Samples in [−1, 1]: 1920 per frame, or the zeros of a pause; may be empty in the last chunk."""
    sample_rate: int
    """Hz."""
    index: int
    """0, 1, 2, …"""
    seed: int
    """The seed that is used."""
    is_last: bool = False
    """Whether the stream ends with this chunk."""
    speech: Speech | None = field(default=None, repr=False)
    """With the last chunk: the whole speech, equal to what `synthesize` returns."""

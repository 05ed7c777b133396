"""A stand-in for the library behind the command line: quick, and slow or broken on demand.

Run as a program it is `kazeia` with this library in place of the real one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

# Nothing heavy is imported: a process with this library behind it starts quickly.
from kazeia.errors import GenerationError, KazeiaWarning, VoiceError
from kazeia.sampling import OFFICIAL_PREDICTOR, OFFICIAL_TALKER, PREDICTOR_DEFAULTS, TALKER_DEFAULTS, Sampling
from kazeia.speech import Timings

RATE, SAMPLES = 24_000, 1920
NATURAL_FRAMES = 5
RUNAWAY_FRAMES = 9


def frame(index: int) -> np.ndarray:
    """One frame of audio, each of its own loudness."""
    return (np.sin(np.arange(SAMPLES) / 20) * (index % 10) / 10).astype(np.float32)


def audio(frames: int) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.float32), *(frame(i) for i in range(frames))])


class FakeEngine:
    name, quant, is_random, sample_rate = "fake", "q8", False, RATE
    voices, languages = ("ana", "bo"), ("english", "chinese")

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.closed = False

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def talker_sampling(self, choice: str | None = None) -> Sampling:
        return OFFICIAL_TALKER if choice else TALKER_DEFAULTS

    def predictor_sampling(self, choice: str | None = None) -> Sampling:
        return OFFICIAL_PREDICTOR if choice else PREDICTOR_DEFAULTS

    def _frames(self, text: str, asked: dict[str, Any]) -> Iterator[int]:
        self.calls.append({"text": text, **asked})
        if asked["voice"] not in (None, *self.voices):
            raise VoiceError(f"unknown voice {asked['voice']!r}; known: ana, bo")
        if "warn" in text:
            import warnings

            warnings.warn("the instruction is ignored", KazeiaWarning, stacklevel=2)
        return self._generate(text, asked)

    def _generate(self, text: str, asked: dict[str, Any]) -> Iterator[int]:
        count = 100_000 if "endless" in text else RUNAWAY_FRAMES if "runaway" in text else NATURAL_FRAMES
        for index in range(min(count, asked["max_frames"] or count)):
            if "endless" in text:
                time.sleep(0.01)
            if "nan" in text and index == 2:
                raise GenerationError("talker logits: 3 NaN")
            if "bug" in text and index == 2:
                raise RuntimeError("something\nbroke")
            if "cancel" in text and index == 2:
                asked["cancel"].set()
            if asked["cancel"].is_set():
                return
            asked["on_frame"](index + 1)
            yield index

    def _speech(self, count: int, asked: dict[str, Any]) -> SimpleNamespace:
        reason = "limit" if count in (asked["max_frames"], RUNAWAY_FRAMES) else "stop"
        reason = "cancelled" if asked["cancel"].is_set() else reason
        return SimpleNamespace(
            pcm=audio(count),
            sample_rate=RATE,
            duration=count * 0.08,
            seed=7 if asked["seed"] is None else asked["seed"],
            voice=asked["voice"] or "ana",
            language="auto",
            finish_reason=reason,
            timings=Timings(
                first_audio_s=0.06, first_audible_s=0.075, frames=count, total_s=0.1, audio_s=count * 0.08
            ),
        )

    def synthesize(self, text: str, **asked: Any) -> SimpleNamespace:
        if "endless" in text:
            print("speaking", file=sys.stderr, flush=True)
        return self._speech(len(list(self._frames(text, asked))), asked)

    def stream(self, text: str, **asked: Any) -> Iterator[SimpleNamespace]:
        return self._chunks(self._frames(text, asked), asked)

    def _chunks(self, frames: Iterator[int], asked: dict[str, Any]) -> Iterator[SimpleNamespace]:
        count = 0
        for index in frames:
            yield SimpleNamespace(pcm=frame(index), is_last=False)
            count += 1
        speech = self._speech(count, asked)
        yield SimpleNamespace(pcm=np.zeros(0, np.float32), is_last=True, speech=speech)


def run_as_program() -> None:
    import kazeia

    kazeia.load = lambda *_, **__: FakeEngine()  # type: ignore[assignment]
    from kazeia.cli import main

    main()


if __name__ == "__main__":
    run_as_program()

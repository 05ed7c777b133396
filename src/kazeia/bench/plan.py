"""What is to be measured."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

from kazeia.budget import FrameBudget
from kazeia.errors import OptionError
from kazeia.quant import quant_plan
from kazeia.runtime.threads import plan_threads
from kazeia.text.clean import check_text

SENTENCE = "The quick brown fox jumps over the lazy dog near the river."
LONG_SENTENCES = 8
MOST_STREAMS = 64

Against = Literal["official"]


@dataclass(frozen=True)
class BenchPlan:
    """What `run_bench` measures: every format × thread count × number of streams.

    Raises OptionError for values that cannot be, TextError for a text that cannot be spoken.
    """

    quants: tuple[str, ...] | None = None
    """Formats of the weights; None: q8, q4 and f32, or a bundle's own."""
    threads: tuple[int | None, ...] = (None,)
    """As in `kazeia.load`, each; None: the cores that the process may really use."""
    streams: tuple[int, ...] = (1,)
    """Streams that speak at the same time, 1 to 64 each."""
    repeats: int = 3
    """Measured runs of each configuration, of which medians are taken; 1 to 100. Run r has seed r."""
    frames: int = 40
    """Frames of 80 ms that a run is stopped after (random models never end); 2 to 10,000."""
    text: str = SENTENCE
    """What is said."""
    voice: str | None = None
    """One of the model's voices; None: the first."""
    language: str | None = "auto"
    """As in `Engine.synthesize`."""
    long: bool = False
    """Whether a text of eight such sentences is measured too, as a file."""
    busy: bool = False
    """Whether another process keeps one core busy meanwhile."""
    against: Against | None = None
    """"official": the official package runs the same checkpoint in between, in bfloat16."""

    def __post_init__(self) -> None:
        for name in ("quants", "threads", "streams"):
            value = getattr(self, name)
            if value is None and name == "quants":
                continue
            if not isinstance(value, tuple) or not value or len(set(value)) != len(value):
                raise OptionError(f"{name} is {value!r}; expected a tuple of one or more different values")
        for quant in self.quants or ():
            quant_plan(quant)
        for count in self.threads:
            plan_threads(count)
        for count in self.streams:
            _check("streams", count, 1, MOST_STREAMS)
        _check("repeats", self.repeats, 1, 100)
        _check("frames", self.frames, 2, 10_000)
        check_text(self.text)
        if self.against not in (None, "official"):
            raise OptionError(f'against is {self.against!r}; expected "official", or None')

    @property
    def long_text(self) -> str:
        """Eight times the text."""
        return " ".join([self.text] * LONG_SENTENCES)


def frame_budget(text: str, frames: int) -> FrameBudget:
    """A budget that gives `text` exactly `frames` frames, and other texts as many by their length."""
    weight = FrameBudget(base=1, per_unit=1.0).limit(text) - 1
    return FrameBudget(base=1, per_unit=(frames - 0.5) / max(1, weight))


def _check(name: str, value: object, low: int, high: int) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        raise OptionError(f"{name} is {value!r}; expected a whole number from {low} to {high}")

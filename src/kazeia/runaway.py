"""Speech that has fallen into an attractor, recognised by its codes before it is heard for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

from kazeia.errors import OptionError


@dataclass(frozen=True)
class RunawayGuard:
    """When an utterance counts as a runaway, by its codes of codebook 0, and what is done then.

    Speech, however slow, changes its sound several times a second, and a pause does not last for
    eight. A model that has lost its way hums, hisses or stammers on: few codes, or the same ones over
    and over. The defaults catch only what is far from speech. Raises OptionError for impossible values.
    """

    window: int = 100
    """Frames of 80 ms that are looked at, 8 to 10,000; nothing is caught sooner."""
    distinct: int = 4
    """Caught when the window holds at most so many different codes (humming, silence), 0 to window / 4; 0
    never catches."""
    period: int = 25
    """Caught when the window repeats itself exactly every so many frames or fewer, 0 to window / 4; 0
    never catches."""
    retries: int = 2
    """How often a segment is begun anew with random numbers derived from the same seed, 0 to 10, when
    nothing of it has been given out, that is in files. After that, and in streams, it ends there with
    the finish reason "runaway"."""

    def __post_init__(self) -> None:
        _check("window", self.window, 8, 10_000)
        _check("distinct", self.distinct, 0, self.window // 4)
        _check("period", self.period, 0, self.window // 4)
        _check("retries", self.retries, 0, 10)

    def catches(self, codes: Sequence[int]) -> bool:
        """Whether the codes 0 so far, oldest first, end in an attractor."""
        if len(codes) < self.window:
            return False
        recent = list(codes[-self.window :])
        if len(set(recent)) <= self.distinct:
            return True
        last = recent[-1]
        return any(recent[-1 - p] == last and recent[p:] == recent[:-p] for p in range(1, self.period + 1))


GuardChoice = RunawayGuard | Literal["auto"] | None
"""What a caller may give: a guard, none, or "auto" for the default one."""


def choose_guard(choice: GuardChoice, is_random: bool) -> RunawayGuard | None:
    """The guard that `choice` stands for: "auto" is none for random weights, which know no speech."""
    if choice is None or isinstance(choice, RunawayGuard):
        return choice
    if choice == "auto":
        return None if is_random else RunawayGuard()
    raise OptionError(f'guard is {choice!r}; expected a RunawayGuard, "auto" or None')


def _check(name: str, value: object, low: int, high: int) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        raise OptionError(f"runaway guard: {name} is {value!r}; expected a whole number from {low} to {high}")

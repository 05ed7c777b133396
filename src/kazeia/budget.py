"""How many frames a text may take before it counts as a runaway."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from kazeia.errors import OptionError


@dataclass(frozen=True)
class FrameBudget:
    """limit = base + per_unit · weight of the text, in frames of 80 ms.

    The weight of a Latin letter is 1; ideographs, kana and Hangul count 3 (a syllable or more each),
    digits 4 (a word each), other signs 1. Ordinary speech takes about one frame per unit, so the
    default allows speech four times slower than that, and four seconds more.
    """

    base: int = 50
    per_unit: float = 4.0

    def __post_init__(self) -> None:
        for name, value, low in (("base", self.base, 1), ("per_unit", self.per_unit, 0)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < 1e6:
                raise OptionError(f"frame budget: {name} is {value!r}; expected a number from {low} to 1e6")

    def limit(self, text: str) -> int:
        """Frames allowed for the text."""
        return int(self.base + self.per_unit * expected_frames(text))


def expected_frames(text: str) -> int:
    """About how many frames of 80 ms the text takes in ordinary speech: its weight; see `FrameBudget`."""
    return sum(map(_weight, text))


def _weight(char: str) -> int:
    category = unicodedata.category(char)
    if category[0] == "N":
        return 4
    wide = unicodedata.east_asian_width(char) in "WF"
    return 3 if wide and category[0] in "LS" else 1

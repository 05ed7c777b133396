"""How the weights of a bundle are stored, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kazeia.errors import OptionError

Format = Literal["f32", "q8", "q4"]


@dataclass(frozen=True)
class QuantPlan:
    """The format of each part; whatever is not named here is float32."""

    talker: Format
    talker_head: Format
    predictor: Format
    predictor_heads: Format


# The predictor keeps 8 bits in the q4 preset: its fifteen steps compound their errors.
QUANT_PRESETS: dict[str, QuantPlan] = {
    "f32": QuantPlan("f32", "f32", "f32", "f32"),
    "q8": QuantPlan("q8", "q8", "q8", "q8"),
    "q4": QuantPlan("q4", "q8", "q8", "q8"),
}
DEFAULT_QUANT = "q8"


def quant_plan(name: str) -> QuantPlan:
    """The preset of that name. Raises OptionError, listing the presets."""
    try:
        return QUANT_PRESETS[name]
    except (KeyError, TypeError):
        raise OptionError(f"quant is {name!r}; expected one of {', '.join(QUANT_PRESETS)}") from None

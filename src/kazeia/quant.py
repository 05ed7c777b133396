"""How the weights of a bundle are stored, part by part."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal, get_args

from kazeia.errors import OptionError

Format = Literal["f32", "q8", "q4"]


@dataclass(frozen=True)
class QuantPlan:
    """The format of each part; whatever is not named here is float32."""

    talker: Format
    predictor: Format
    heads: Format
    """The talker's head and the predictor's fifteen."""
    codec: Format = "f32"
    """The transformer at the beginning of the codec decoder."""


# The predictor keeps 8 bits in the q4 preset: its fifteen steps compound their errors.
QUANT_PRESETS: dict[str, QuantPlan] = {
    "f32": QuantPlan("f32", "f32", "f32"),
    "q8": QuantPlan("q8", "q8", "q8"),
    "q4": QuantPlan("q4", "q8", "q8"),
}
DEFAULT_QUANT = "q8"
PARTS = tuple(field.name for field in fields(QuantPlan))
FORMATS: tuple[Format, ...] = get_args(Format)
# Few bytes, or arithmetic of many rows: 4 bits would win nothing there.
_NEVER_Q4 = ("heads", "codec")


@lru_cache(maxsize=256)
def _parse(name: str) -> QuantPlan:
    preset, *changes = name.split("+")
    plan = QUANT_PRESETS[preset]
    named = []
    for change in changes:
        part, _, fmt = change.partition("=")
        if part not in PARTS or fmt not in FORMATS or part in named or (fmt == "q4" and part in _NEVER_Q4):
            raise ValueError(change)
        named.append(part)
        plan = replace(plan, **{part: fmt})
    return plan


def quant_plan(name: str) -> QuantPlan:
    """The plan that a name stands for: a preset, or one with parts changed, as in "q4+predictor=q4".

    Raises OptionError, listing the presets, parts and formats.
    """
    try:
        return _parse(name)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OptionError(
            f"quant is {name!r}; expected {', '.join(QUANT_PRESETS)}, or one of them with parts changed, "
            f"as in q4+predictor=q4 (parts: {', '.join(PARTS)}; formats: {', '.join(FORMATS)}; "
            f"{' and '.join(_NEVER_Q4)} not q4)"
        ) from None


def quant_name(name: str) -> str:
    """The one name of a plan: equal for all names that mean the same. Raises OptionError."""
    plan = quant_plan(name)
    ways: list[list[str]] = [
        [preset, *(f"{p}={getattr(plan, p)}" for p in PARTS if getattr(plan, p) != getattr(base, p))]
        for preset, base in QUANT_PRESETS.items()
    ]
    shortest: list[str] = min(ways, key=len)
    return "+".join(shortest)

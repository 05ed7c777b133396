"""The kinds of values that a field may hold: each checks a value, and describes itself as JSON Schema."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazeia.errors import OptionError
from kazeia.text.clean import check_encoding

Check = Callable[[Any], Any]

_EXACT = 2.0**53  # beyond this, a float stands for several whole numbers


@dataclass(frozen=True)
class Kind:
    """A check that returns the value to use or raises OptionError, and its JSON Schema."""

    check: Check
    schema: dict[str, Any]


def string(max_chars: int) -> Kind:
    """Text that is not blank, of at most so many characters."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise OptionError(f"expected a string, found {describe(value)}")
        if not value.strip():
            raise OptionError("expected a string that is not empty or blank; leave the field out instead")
        if len(value) > max_chars:
            raise OptionError(f"expected at most {max_chars} characters, found {len(value)}")
        check_encoding(value)
        return value

    return Kind(check, {"type": "string", "minLength": 1, "maxLength": max_chars, "pattern": r"\S"})


def choice(*known: str) -> Kind:
    """One of some words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise OptionError(f"expected one of {', '.join(known)}; found {describe(value)}")
        return value

    return Kind(check, {"type": "string", "enum": list(known)})


def number(low: float, high: float, *, exclusive_low: bool = False) -> Kind:
    """A finite number of a range."""
    wanted = f"{'more than' if exclusive_low else 'at least'} {low:g} and at most {high:g}"

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OptionError(f"expected a number, {wanted}; found {describe(value)}")
        fits = low < value <= high if exclusive_low else low <= value <= high
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise OptionError(f"expected a number, {wanted}; found {describe(value)}")
        return float(value)

    edge = "exclusiveMinimum" if exclusive_low else "minimum"
    return Kind(check, {"type": "number", edge: low, "maximum": high})


def integer(low: int, high: int) -> Kind:
    """A whole number of a range; 3.0 is one, for JSON has one kind of numbers."""

    def check(value: Any) -> int:
        if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise OptionError(f"expected a whole number from {low} to {high}; found {describe(value)}")
        return value

    return Kind(check, {"type": "integer", "minimum": low, "maximum": high})


def boolean() -> Kind:
    """true or false."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise OptionError(f"expected true or false, found {describe(value)}")
        return value

    return Kind(check, {"type": "boolean"})


def voice() -> Kind:
    """A voice's name, or OpenAI's object {"id": name}; the name is returned."""
    name = string(256)

    def check(value: Any) -> str:
        if isinstance(value, dict):
            if set(value) != {"id"}:
                raise OptionError(
                    f'expected a voice\'s name, or {{"id": name}}; found the keys {sorted(value)!r:.80}'
                )
            value = value["id"]
        checked: str = name.check(value)
        return checked

    schema = {
        "oneOf": [
            name.schema,
            {
                "type": "object",
                "properties": {"id": name.schema},
                "required": ["id"],
                "additionalProperties": False,
            },
        ]
    }
    return Kind(check, schema)


def describe(value: object) -> str:
    """A value as a refusal shows it: short, and in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

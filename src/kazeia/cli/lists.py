"""Options that hold several values, parted by commas."""

from __future__ import annotations

from kazeia.errors import OptionError


def names(option: str, text: str | None) -> tuple[str, ...] | None:
    """ "q8,q4" → ("q8", "q4"); None stays None. Raises OptionError for an empty one."""
    if text is None:
        return None
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise OptionError(f"{option} is {text!r}; expected one or more values parted by commas")
    return found


def numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """ "1,2,8" → (1, 2, 8); None stays None. Raises OptionError for what is no whole number."""
    found = names(option, text)
    if found is None:
        return None
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in found):
        raise OptionError(f"{option} is {text!r}; expected whole numbers parted by commas, such as 1,2")
    return tuple(map(int, found))

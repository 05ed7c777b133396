"""Warnings that point at the caller's own line, however deep inside they are raised."""

from __future__ import annotations

import sys
import warnings

from kazeia.errors import KazeiaWarning


def warn(message: str) -> None:
    """Give a KazeiaWarning in the name of the first caller outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "kazeia":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, KazeiaWarning, stacklevel=level)

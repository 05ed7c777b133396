"""What a run of the command line gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Result:
    code: int
    out: bytes
    err: str


Run = Callable[..., Result]

"""The command line: a thin face over the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `kazeia` with these arguments (those of the process if None) and exit with its code."""
    from kazeia.cli.app import run

    run(arguments)


__all__ = ["main"]

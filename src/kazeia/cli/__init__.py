"""The command line: a thin face over the library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `kazeia` with these arguments (those of the process if None) and exit with its code."""
    try:
        from kazeia.cli.app import run

        run(arguments)
    except KeyboardInterrupt:  # before a command has taken over
        print("kazeia: interrupted", file=sys.stderr)
        sys.exit(130)


__all__ = ["main"]

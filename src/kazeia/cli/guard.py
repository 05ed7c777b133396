"""From exceptions to one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import typer

from kazeia.errors import AudioError, KazeiaError, KazeiaWarning

ERROR, LIMIT, INTERRUPTED = 1, 3, 130


_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[33m"}


def note(message: str, kind: str = "") -> None:
    """One line on standard error; it survives a closed standard error. The kind is coloured on a terminal."""
    shown = f"{_COLOURS[kind]}{kind}:\x1b[0m " if kind and _coloured() else f"{kind}: " if kind else ""
    line = f"kazeia: {shown}{' '.join(message.splitlines())}"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(line, file=sys.stderr, flush=True)


def _coloured() -> bool:
    """Whether standard error is a terminal that shows colours, and nobody minds (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or (os.name == "nt" and "WT_SESSION" not in os.environ):
        return False
    with contextlib.suppress(ValueError, AttributeError):  # closed, or none at all
        return sys.stderr.isatty()
    return False


@contextlib.contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """Turn every way a command can end into its exit code; `debug` adds the traceback."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", KazeiaWarning)
            warnings.showwarning = _show_warning
            yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        note("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise typer.Exit(0) from None
    except OSError as error:
        if debug:
            traceback.print_exc()
        note(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", "error")
        raise typer.Exit(ERROR) from None
    except KazeiaError as error:
        if isinstance(error, AudioError) and isinstance(error.__cause__, BrokenPipeError):
            raise typer.Exit(0) from None
        if debug:
            traceback.print_exc()
        note(str(error), "error")
        raise typer.Exit(ERROR) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        advice = "" if debug else "; run it again with --debug and report what that shows"
        note(f"unexpected {type(error).__name__}: {error}{advice}", "error")
        raise typer.Exit(ERROR) from None


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, KazeiaWarning):
        note(str(message), "warning")


@contextlib.contextmanager
def standard_output() -> Iterator[Any]:
    """The binary standard output. A failed write is an AudioError, a closed pipe a BrokenPipeError."""
    if sys.stdout is None:
        raise AudioError("standard output is closed; give -o FILE")
    stream = sys.stdout.buffer
    try:
        yield stream
        stream.flush()
    except OSError as error:
        # What is still buffered must not fail a second time when the interpreter exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise AudioError(f"cannot write to standard output: {error.strerror or error}") from error

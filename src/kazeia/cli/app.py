"""The commands of `kazeia`, and what holds for all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from kazeia.cli.bench import bench, quality
from kazeia.cli.guard import ERROR, note
from kazeia.cli.models import convert, validate, voices
from kazeia.cli.read import read
from kazeia.cli.say import say
from kazeia.cli.serve import serve

EXIT_CODES = """\b
Exit codes:
  0    done (also when the reader of a pipe has left)
  1    an error, said in one line; --debug shows where
  2    wrong usage
  3    stopped at the limit set by the text's length (not by --max-frames); the audio is written
  130  interrupted by Ctrl-C; nothing is left under the final name
"""

app = typer.Typer(
    name="kazeia",
    help="Speech from Qwen3-TTS on an ordinary CPU.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: fast, and the same in every terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=EXIT_CODES)(say)
app.command(epilog=EXIT_CODES)(read)
app.command()(serve)
app.command()(voices)
app.command()(convert)
app.command()(validate)
app.command()(bench)
app.command()(quality)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"kazeia {version('kazeia')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Speech from Qwen3-TTS on an ordinary CPU."""


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    for name in ("SIGTERM", "SIGHUP"):  # unwind, so that temporary files are removed
        with contextlib.suppress(AttributeError, ValueError):  # not on Windows; not in a side thread
            signal.signal(getattr(signal, name), _terminate)
    code: int | str | None = 0
    try:
        app(args=None if arguments is None else list(arguments), prog_name="kazeia")
    except SystemExit as end:
        code = end.code
    except OSError as error:  # standard output is full or closed, and nothing was buffered
        code = _give_up_output(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a failure can still be told in one line
    except OSError as error:
        code = _give_up_output(error)
    sys.exit(code)


def _give_up_output(error: OSError) -> int:
    """The exit code for a standard output that takes no more."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    note(f"cannot write to standard output: {error.strerror or error}", "error")
    return ERROR


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)

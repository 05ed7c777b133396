"""`kazeia say --stdin`: line by line, each spoken as it arrives."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from kazeia.cli.deliver import Target, checked_file, choose_target, deliver, opened
from kazeia.cli.guard import ERROR, note
from kazeia.cli.order import STDIO, Order, checked_text
from kazeia.errors import EmptyTextError, GenerationError, OptionError, TextError

if TYPE_CHECKING:
    from kazeia import Engine, Speech

LONGEST_LINE = 100_000
"""Bytes. Whatever is longer is no line that somebody wrote."""
_NUMBER = re.compile(r"\{n(?::0?(\d{1,2})d?)?\}")
_NUMBERED = "line-{n:04}"


@dataclass(frozen=True)
class LineTargets:
    """Where lines go: each to a file of its own, or all to one place, one after the other."""

    one: Target
    pattern: str | None
    """The names of the files, with their lines' number in place of {n}; None for one place."""

    def of(self, number: int) -> Target:
        """Where this line goes, from 1."""
        if self.pattern is None:
            return self.one
        path = _NUMBER.sub(lambda found: f"{number:0{int(found[1] or 1)}}", self.pattern)
        return replace(self.one, output=path)


def choose_targets(output: str | None, format: str | None, play: bool, stream: bool) -> LineTargets:
    """Where lines go, refused before any work if they cannot go there."""
    from kazeia.audio.output import check_format

    is_folder = output not in (None, STDIO) and (
        os.path.isdir(output or "") or (output or "").endswith(("/", os.sep))
    )
    pattern = None
    if output is not None and is_folder:
        pattern = str(Path(output) / f"{_NUMBERED}.{check_format(format or 'wav').name}")
    elif output is not None and "{n" in output:
        if not _NUMBER.search(output):
            raise OptionError(f"{output}: expected the line's number as {{n}}, or {{n:03}} for three digits")
        pattern = output
    if pattern is None:
        # A pipe gets each line as soon as it is spoken.
        one = choose_target(output, format, play, stream)
        return LineTargets(replace(one, stream=stream or one.output == STDIO), None)
    first = LineTargets(Target(None, "wav", play, stream), pattern)
    name = checked_file(first.of(1).output or "", format)
    return replace(first, one=replace(first.one, format=name))


def speak_lines(
    engine: Engine,
    order: Order,
    targets: LineTargets,
    player: Any,
    on_frame: Callable[[int], None],
    tell: Callable[[int, str, Target, Speech], int],
    tell_error: Callable[[int, Exception], None],
) -> int:
    """Speak standard input; the exit code. tell: called with each finished line, gives its own.

    Raises EmptyTextError when there was nothing to say, typer.Exit when no line could be spoken.
    """
    import numpy as np

    worst, spoken = 0, 0
    arguments = order.arguments(engine, on_frame)
    pause = np.zeros(round(arguments["segment_pause"] * engine.sample_rate / 1000), np.float32)
    with contextlib.ExitStack() as stack:
        shared = None
        if targets.pattern is None:
            shared = stack.enter_context(opened(targets.one, engine.sample_rate))
        for number, line in _lines(sys.stdin.buffer):
            target = targets.of(number)
            try:
                if isinstance(line, TextError):
                    raise line
                text = checked_text(line, f"line {number}", markup=arguments["markup"])
                with contextlib.ExitStack() as own:
                    writer = shared
                    if targets.pattern is not None:
                        writer = own.enter_context(opened(target, engine.sample_rate))
                    elif spoken:
                        for sink in filter(None, (shared, player)):
                            sink.write(pause)
                    speech = deliver(
                        engine, text, arguments, stream=target.stream, writer=writer, player=player
                    )
            except EmptyTextError:
                continue  # an empty line, or a ruled one
            except (TextError, GenerationError) as error:
                tell_error(number, error)
                worst = ERROR
                continue
            spoken += 1
            code = tell(number, text, target, speech)
            worst = worst if worst == ERROR else max(worst, code)
        if not spoken:  # within the block, so that no empty file is left
            if worst:
                raise typer.Exit(worst)
            raise EmptyTextError("nothing to say: standard input held no line that can be spoken")
    return worst


def describe(number: int, error: Exception) -> None:
    """One line about a line that was not spoken."""
    said = str(error)
    note(said if said.startswith(f"line {number}") else f"line {number}: {said}", "error")


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | TextError]]:
    """The lines of standard input as they come, numbered from 1; what stands for one is an error."""
    number = 0
    while True:
        number += 1
        line = stream.readline(LONGEST_LINE + 1)
        if not line:
            return
        if len(line) <= LONGEST_LINE:
            yield number, line
            continue
        more = line
        while more and not more.endswith(b"\n"):
            more = stream.readline(LONGEST_LINE)
        yield (
            number,
            TextError(
                f"line {number}: longer than {LONGEST_LINE} bytes; cut it into lines, or read a long text "
                "with `kazeia read`"
            ),
        )

"""Processes that measure, and one that disturbs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kazeia import errors
from kazeia.errors import BenchmarkError, KazeiaError

_SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:  # never outlives who started it
    for _ in range(1_000_000):
        pass
"""


def run_child(
    module: str, order: Mapping[str, Any], what: str, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run `python -m module` with an order on its standard input; return what it answers.

    what: names the measurement in errors. environ: added to the environment. Errors of Kazeia's are
    raised here as they were there; raises BenchmarkError when the process ends in any other way.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | dict(environ or {}),
    )
    with _stopped_at_the_end(process):
        out, err = process.communicate(json.dumps(order).encode())
    try:
        answer = json.loads(out) if process.returncode == 0 else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        lines = err.decode("utf-8", "replace").strip().splitlines()
        how = f"was killed by signal {-process.returncode}" if process.returncode < 0 else "failed"
        memory = " (too little memory?)" if process.returncode == -9 else ""
        said = f": {lines[-1]}" if lines else ""
        raise BenchmarkError(f"the process that measured {what} {how}{memory}{said}")
    if "error" in answer:
        kind = getattr(errors, str(answer["error"]["type"]), BenchmarkError)
        raise kind(f"{answer['error']['message']} (while measuring {what})")
    return answer


def serve(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The other end: read the order, work, answer; an error of Kazeia's is an answer too."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever libraries print is no answer
    order = json.loads(sys.stdin.buffer.read())
    try:
        answer = work(order)
    except KazeiaError as error:
        answer = {"error": {"type": type(error).__name__, "message": str(error)}}
    with os.fdopen(answers, "wb") as out:
        out.write(json.dumps(answer).encode())


@contextlib.contextmanager
def busy_core(wanted: bool) -> Iterator[None]:
    """With `wanted`, another process computes all the time while the context lasts."""
    if not wanted:
        yield
        return
    with _stopped_at_the_end(subprocess.Popen([sys.executable, "-c", _SPIN])) as process:
        yield
        if process.poll() is not None:
            raise BenchmarkError("the process that was to keep a core busy has ended; run it again")


@contextlib.contextmanager
def _stopped_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

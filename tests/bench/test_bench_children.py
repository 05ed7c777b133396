"""Child processes: errors come back as they were, and none outlives its measurement."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kazeia
from kazeia.bench import children
from kazeia.bench.children import busy_core, run_child
from kazeia.errors import BenchmarkError, OptionError

_MODULE = """
import os, signal, sys
from kazeia.bench.children import serve
from kazeia.errors import OptionError

def work(order):
    print("noise on standard output")
    if order["do"] == "refuse":
        raise OptionError("no such thing")
    if order["do"] == "crash":
        raise ZeroDivisionError("oops")
    if order["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if order["do"] == "leave":
        os._exit(0)
    return {"said": order["word"], "seen": os.environ.get("BENCH_TEST")}

serve(work)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bench_test_child.py").write_text(_MODULE)
    root = Path(kazeia.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{root}")
    return "bench_test_child"


def test_the_answer_comes_back_whatever_else_is_printed(child: str) -> None:
    answer = run_child(child, {"do": "answer", "word": "é"}, "x", {"BENCH_TEST": "1"})
    assert answer == {"said": "é", "seen": "1"}


def test_an_error_of_kazeias_comes_back_as_it_was(child: str) -> None:
    with pytest.raises(OptionError, match=r"no such thing \(while measuring the test\)"):
        run_child(child, {"do": "refuse"}, "the test")


@pytest.mark.parametrize(
    ("do", "said"),
    [("crash", "failed: ZeroDivisionError: oops"), ("die", "killed by signal 9"), ("leave", "failed")],
)
def test_any_other_end_is_a_named_error(child: str, do: str, said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        run_child(child, {"do": do}, "the test")


def _spy(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    started: list[Any] = []
    real = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> Any:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(children.subprocess, "Popen", start)
    return started


def test_the_busy_process_lasts_as_long_as_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    started = _spy(monkeypatch)
    with busy_core(False):
        assert started == []
    with contextlib.suppress(KeyError), busy_core(True):
        assert started[0].poll() is None
        raise KeyError
    assert started[0].poll() is not None


def test_a_busy_process_that_died_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_SPIN", "")
    started = _spy(monkeypatch)
    with pytest.raises(BenchmarkError, match="has ended"), busy_core(True):
        started[0].wait()

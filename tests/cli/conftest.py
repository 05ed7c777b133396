"""Running `kazeia` inside the test, with the stand-in library behind it."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cli_result import Result, Run
from fake_kazeia import FakeEngine

import kazeia
from kazeia.cli import main


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _signals_stay_as_they_were() -> Iterator[None]:
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.getsignal(getattr(signal, name)) for name in names}
    yield
    for name, handler in before.items():
        signal.signal(getattr(signal, name), handler)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """The stand-in; `engine.loads` lists what it was loaded with."""
    fake: Any = FakeEngine()
    fake.loads = []

    def load(model: Any = None, **options: Any) -> FakeEngine:
        fake.loads.append({"model": model, **options})
        return fake  # type: ignore[no-any-return]

    monkeypatch.setattr(kazeia, "load", load)
    return fake  # type: ignore[no-any-return]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str, stdin: bytes | None = None, terminal: str = "") -> Result:
        """`stdin` None is an empty one; `terminal` names the standard streams that are terminals."""
        kind = Terminal if "stdin" in terminal else io.TextIOWrapper
        monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(stdin or b""), encoding="utf-8"))
        if "stdout" in terminal:
            monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO(), encoding="utf-8"))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        out, err = capsysbinary.readouterr()
        return Result(int(end.value.code or 0), out, err.decode())

    return run

"""`kazeia bench` and `kazeia quality`: options reach the library, results standard output."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_result import Run

import kazeia.bench
import kazeia.quality
from kazeia.bench import BenchPlan
from kazeia.quality import QualityPlan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    report = SimpleNamespace(markdown=lambda: "| é |", to_dict=lambda: {"é": 1})

    def answer(model: Any, plan: Any, **options: Any) -> Any:
        options.pop("progress")("q8", 0.5)
        calls.append((model, plan, options))
        return report

    monkeypatch.setattr(kazeia.bench, "run_bench", answer)
    monkeypatch.setattr(kazeia.quality, "assess_quality", answer)
    return calls


def test_bench_alone_measures_the_default_plan(run: Run, asked: list[Any]) -> None:
    shown = run("bench")
    assert (shown.code, shown.out.decode(), shown.err) == (0, "| é |\n", "")
    assert asked == [(None, BenchPlan(), {"cache_dir": None})]


def test_bench_passes_on_what_it_is_given(run: Run, asked: list[Any]) -> None:
    options = "--quant q8,q4 --threads 1,2 --streams 1,8 --repeats 5 --frames 9 --text hi -v ryan -l en"
    more = "--long --busy --against official --cache-dir c --json -q"
    shown = run("bench", "-m", "m", *options.split(), *more.split())
    assert json.loads(shown.out) == {"é": 1}
    plan = BenchPlan(
        quants=("q8", "q4"),
        threads=(1, 2),
        streams=(1, 8),
        repeats=5,
        frames=9,
        text="hi",
        voice="ryan",
        language="en",
        long=True,
        busy=True,
        against="official",
    )
    assert asked == [("m", plan, {"cache_dir": Path("c")})]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--threads", "1,x"], "--threads"),
        (["--streams", "1,,2"], "--streams"),
        (["--quant", ""], "--quant"),
        (["--quant", "q9"], "q9"),
        (["--against", "others"], "others"),
        (["--repeats", "0"], "repeats"),
    ],
)
def test_bench_refuses_in_one_line(options: list[str], named: str, run: Run, asked: list[Any]) -> None:
    shown = run("bench", *options)
    assert (shown.code, shown.out, asked) == (1, b"", [])
    assert shown.err.startswith("kazeia: error: ")
    assert named in shown.err
    assert shown.err.count("\n") == 1


def test_quality_compares_the_default_formats(run: Run, asked: list[Any]) -> None:
    shown = run("quality", "m")
    assert (shown.code, shown.out.decode()) == (0, "| é |\n")
    assert asked == [("m", QualityPlan(), {"judge": None, "cache_dir": None})]


def test_quality_passes_on_what_it_is_given(
    run: Run, asked: list[Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(kazeia.quality, "open_judge", lambda folder: f"ear of {folder}")
    texts = tmp_path / "texts"
    texts.write_bytes("\ufeffUn été.\r\n\r\n  Deux.  \n".encode())
    options = "--quant q4 --rollouts 3 --frames 7 -v ryan -l fr --judge j --threads 2 --json"
    shown = run("quality", "m", "--texts", str(texts), *options.split())
    assert json.loads(shown.out) == {"é": 1}
    plan = QualityPlan(("q4",), 3, 7, ("Un été.", "Deux."), voice="ryan", language="fr", threads=2)
    assert asked == [("m", plan, {"judge": "ear of j", "cache_dir": None})]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--texts", "nowhere.txt"], "nowhere.txt"),
        (["--judge", "nowhere"], "model.bin"),
        (["--quant", "q8,"], "--quant"),
        (["--rollouts", "0"], "rollouts"),
    ],
)
def test_quality_refuses_in_one_line(options: list[str], named: str, run: Run, asked: list[Any]) -> None:
    shown = run("quality", "m", *options)
    assert (shown.code, shown.out, asked) == (1, b"", [])
    assert named in shown.err
    assert shown.err.count("\n") == 1


def test_quality_wants_a_model(run: Run) -> None:
    assert run("quality").code == 2

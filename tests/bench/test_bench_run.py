"""A whole benchmark of a tiny model, and its report. No test asserts a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kazeia.bench import BenchPlan, BenchReport, OfficialRun, Spread, run_bench
from kazeia.bench import run as bench_run
from kazeia.bench.official import check_installed, measure_official
from kazeia.bench.report import ROOFLINE_COLUMNS, SPEED_COLUMNS, roofline, table
from kazeia.errors import LanguageError, MissingDependencyError, OptionError, VoiceError
from kazeia.models import build_bundle


@pytest.fixture(scope="module")
def report(checkpoint: Callable[[str], Path]) -> BenchReport:
    plan = BenchPlan(quants=("q8",), threads=(2,), streams=(1, 2), repeats=2, frames=5, long=True)
    told: list[tuple[str, float]] = []
    found = run_bench(checkpoint("tiny"), plan, progress=lambda what, share: told.append((what, share)))
    assert all(0 <= share <= 1 for _, share in told)
    assert any("q8" in what for what, _ in told)
    return found


def test_every_configuration_was_measured_as_often_as_asked(report: BenchReport) -> None:
    assert [(r.quant, r.threads, r.streams) for r in report.runs] == [("q8", 2, 1), ("q8", 2, 2)]
    one, two = report.runs
    for run in report.runs:
        assert run.frames.values == (5, 5)
        assert len(run.load_warm_s.values) == 3
        for found in (
            run.rtf,
            run.speed,
            run.talker_ms,
            run.predictor_ms,
            run.decoder_ms,
            run.first_audio_ms,
        ):
            assert len(found.values) == 2
            assert 0 < found.low <= found.median <= found.high
    assert two.file_rtf is two.stream_over_file is two.long_rtf is two.talker_step_ms is None
    assert two.talker_gb_per_s is two.predictor_gb_per_s is None
    assert one.long_rtf is not None
    assert set(report.bandwidth) == {1, report.machine.cores}
    assert report.roof == max(v for found in report.bandwidth.values() for v in found.values)


def test_the_figures_of_a_run_fit_each_other(report: BenchReport) -> None:
    run = report.runs[0]
    assert run.file_rtf is not None
    assert run.stream_over_file is not None
    assert run.talker_step_ms is not None
    for rtf, speed, file, ratio in zip(
        run.rtf.values, run.speed.values, run.file_rtf.values, run.stream_over_file.values, strict=True
    ):
        assert rtf * speed == pytest.approx(1)
        assert ratio == pytest.approx(rtf / file)
    for step, frame in zip(run.talker_step_ms.values, run.talker_ms.values, strict=True):
        assert step == pytest.approx(frame * 5 / 4)  # the first frame needs no step
    assert run.talker_gb_per_s == pytest.approx(run.weights.talker / run.talker_step_ms.median / 1e6)
    assert run.first_audible_ms is None or run.first_audible_ms.low >= run.first_audio_ms.low


def test_the_report_is_json_and_markdown_with_the_same_runs(report: BenchReport) -> None:
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert [run["streams"] for run in found["runs"]] == [1, 2]
    assert found["runs"][0]["rtf"]["median"] == report.runs[0].rtf.median
    assert found["random"] is False  # a folder: only its maker knows
    lines = report.markdown().splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert tables[0] == f"| {' | '.join(SPEED_COLUMNS)} |"
    assert tables[4] == f"| {' | '.join(ROOFLINE_COLUMNS)} |"
    assert len(tables) == 4 + 3
    assert {len(line.split("|")) for line in tables[:4]} == {len(SPEED_COLUMNS) + 2}
    assert {len(line.split("|")) for line in tables[4:]} == {len(ROOFLINE_COLUMNS) + 2}
    assert any("8 sentences" in line for line in lines)


def test_weights_that_fit_the_cache_have_no_share_of_the_memory() -> None:
    assert roofline(10.0, 20.0, 100, 99) == 0.5
    assert roofline(10.0, 20.0, 100, 100) is None
    assert roofline(10.0, 20.0, 100, None) == 0.5
    assert roofline(None, 20.0, 100, None) is None


def test_the_predictors_body_is_read_many_times_and_held_once(report: BenchReport) -> None:
    run = report.runs[0]
    held, rate = run.weights.predictor_resident, run.predictor_gb_per_s
    assert held < run.weights.predictor
    assert rate is not None
    assert run.shares(2.0, held)[1] is None
    assert run.shares(2.0, held - 1)[1] == rate / 2
    assert report.runs[1].shares(2.0, 0) == (None, None)


def test_a_median_has_its_spread() -> None:
    found = Spread((3.0, 1.0, 2.0))
    assert found.to_dict() == {"median": 2.0, "low": 1.0, "high": 3.0, "values": [3.0, 1.0, 2.0]}


def test_the_official_package_is_compared_with_equal_threads_and_one_stream(report: BenchReport) -> None:
    rtf = report.runs[0].rtf.median
    theirs = OfficialRun("bfloat16", 2, 1.0, Spread((4 * rtf,)), None, {})
    with_it = replace(report, official=(theirs,))
    assert with_it.faster_than_official(report.runs[0]) == pytest.approx(4)
    assert with_it.faster_than_official(report.runs[1]) is None
    assert (
        replace(report, official=(replace(theirs, threads=1),)).faster_than_official(report.runs[0]) is None
    )
    assert "4.0 times as fast as the official package" in with_it.markdown()
    assert "official bfloat16" in with_it.markdown()
    assert len({line.count("|") for line in with_it.markdown().splitlines()[3:8]}) == 1
    json.dumps(with_it.to_dict(), allow_nan=False)


def test_a_table_is_markdown() -> None:
    assert table(("a", "b"), [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a process was started before the check")

    for name in ("run_child", "measure_bandwidth", "measure_official"):
        monkeypatch.setattr(bench_run, name, refuse)


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ({"voice": "nobody"}, VoiceError),
        ({"language": "klingon"}, LanguageError),
    ],
)
def test_what_the_model_lacks_is_refused_before_any_work(
    plan: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch, checkpoint: Any
) -> None:
    _nothing_runs(monkeypatch)
    with pytest.raises(error):
        run_bench(checkpoint("tiny"), BenchPlan(**plan))


def test_without_the_official_package_the_comparison_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Any
) -> None:
    _nothing_runs(monkeypatch)
    monkeypatch.setattr("kazeia.bench.official._PACKAGES", {"no_such_module": "qwen-tts"})
    with pytest.raises(MissingDependencyError, match="qwen-tts not installed"):
        run_bench(checkpoint("tiny"), BenchPlan(against="official"))


def test_a_bundle_has_its_own_format_and_is_not_for_the_official_package(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Any, tmp_path: Path
) -> None:
    _nothing_runs(monkeypatch)
    bundle = build_bundle(checkpoint("tiny"), quant="q4", out=tmp_path / "bundle")
    with pytest.raises(OptionError, match="holds q4 only"):
        run_bench(bundle, BenchPlan(quants=("q8",)))
    monkeypatch.setattr(bench_run, "check_installed", lambda: None)
    with pytest.raises(OptionError, match="official package cannot read"):
        run_bench(bundle, BenchPlan(against="official"))
    monkeypatch.setattr(bench_run, "busy_core", lambda wanted: pytest.fail("reached"))
    with pytest.raises(pytest.fail.Exception, match="reached"):
        run_bench(bundle)


def test_an_error_of_the_child_is_the_callers(monkeypatch: pytest.MonkeyPatch, checkpoint: Any) -> None:
    monkeypatch.setattr(bench_run, "measure_bandwidth", lambda threads: [1.0])
    monkeypatch.setenv("KZTTS_STREAM_CHUNK", "none")
    with pytest.raises(OptionError, match="KZTTS_STREAM_CHUNK"):
        run_bench(checkpoint("tiny"), BenchPlan(quants=("q8",), threads=(1,), repeats=1, frames=2))


@pytest.mark.oracle
def test_the_official_package_is_measured_on_the_same_checkpoint(checkpoint: Any) -> None:
    from oracle import require

    require()
    check_installed()
    found = measure_official(
        checkpoint("tiny"),
        text="Hello.",
        voice="vivian",
        language="Auto",
        frames=3,
        repeats=2,
        threads=1,
    )
    assert len(found["rtf"]) == 2
    assert min(found["rtf"]) > 0
    assert found["versions"]["qwen-tts"]

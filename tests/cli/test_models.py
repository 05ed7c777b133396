"""`kazeia voices`, `convert`, `validate`, `--version` and `--help`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_result import Run

import kazeia


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.decode() == f"kazeia {kazeia.__version__}\n"
    for arguments in (["--help"], ["say", "--help"]):
        shown = run(*arguments)
        assert shown.code == 0
        for line in (b"0    done", b"1    an error", b"2    wrong usage", b"3    stopped at", b"130  inter"):
            assert line in shown.out
    assert run("sing").code == 2


def test_voices_lists_names_one_a_line(run: Run) -> None:
    shown = run("voices", "-m", "random:tiny")
    assert shown.code == 0
    lines = shown.out.decode().splitlines()
    assert lines[:3] == ["voices:", "  serena", "  vivian"]
    assert lines[lines.index("languages:") + 1 :][:3] == ["  auto", "  chinese", "  english"]
    assert "sichuan_dialect" not in shown.out.decode()


def test_voices_as_json(run: Run) -> None:
    found = json.loads(run("voices", "-m", "random:tiny", "--json").out)
    assert (found["model"], found["random"], found["sample_rate"]) == ("random:tiny", True, 24000)
    assert found["voices"][0] == "serena"
    assert found["languages"][:2] == ["auto", "chinese"]


@pytest.mark.parametrize("out", [None, Path("there")])
def test_convert_builds_and_prints_the_folder(out: Path | None, run: Run, monkeypatch: Any) -> None:
    calls: list[Any] = []

    def build(model: str, **options: Any) -> Path:
        calls.append((model, options["quant"], options["out"]))
        options["progress"]("talker", 0.5)
        return options["out"] or Path("cache")

    monkeypatch.setattr(kazeia, "build_bundle", build)
    shown = run("convert", "m", "--quant", "q4", *(["-o", str(out)] if out else []))
    assert (shown.code, shown.out.decode()) == (0, f"{out or 'cache'}\n")
    assert calls == [("m", "q4", out)]
    shown = run("convert", "m", "--json", *(["-o", str(out)] if out else []))
    assert json.loads(shown.out) == {"model": "m", "quant": "q8", "path": str(out or "cache")}


def test_convert_reports_the_librarys_error(run: Run, tmp_path: Path) -> None:
    shown = run("convert", str(tmp_path / "none"), "-o", str(tmp_path / "out"))
    assert shown.code == 1
    assert shown.err.startswith("kazeia: error: ")
    assert shown.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_validate_prints_the_report_and_judges(ok: bool, code: int, run: Run, monkeypatch: Any) -> None:
    report = SimpleNamespace(
        ok=ok, lines=lambda: ["talker: 1e-6", "codec: 1e-7"], to_dict=lambda: {"ok": ok, "stages": []}
    )
    seen: list[Any] = []

    def validate(model: str, dump: Path, **options: Any) -> Any:
        seen.append((model, dump, options))
        return report

    monkeypatch.setattr(kazeia, "validate", validate)
    shown = run("validate", "-m", "m", "--dump", "d.npz", "--threads", "2")
    assert (shown.code, shown.out) == (code, b"talker: 1e-6\ncodec: 1e-7\n")
    assert seen == [("m", Path("d.npz"), {"quant": "f32", "threads": 2, "cache_dir": None})]
    shown = run("validate", "-m", "m", "--dump", "d.npz", "--json")
    assert (shown.code, json.loads(shown.out)) == (code, {"ok": ok, "stages": []})


def test_validate_without_a_dump_is_wrong_usage(run: Run) -> None:
    assert run("validate", "-m", "m").code == 2

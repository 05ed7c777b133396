"""`kazeia say` in every format, as JSON, and in colour where there is somebody to see it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from cli_result import Run
from fake_kazeia import NATURAL_FRAMES, RATE, audio

from kazeia.audio.encode import FORMATS, encode_whole
from kazeia.audio.output import SUFFIXES
from kazeia.audio.wav import to_int16
from kazeia.cli.guard import note

ONE = audio(NATURAL_FRAMES)


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize(("suffix", "name"), SUFFIXES.items())
def test_the_end_of_the_name_decides(
    suffix: str, name: str, stream: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    path = tmp_path / f"a{suffix}"
    result = run("say", "hi", "-o", str(path), *stream)
    assert (result.code, result.out) == (0, b"")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if name in FORMATS:
        assert path.read_bytes() == encode_whole(name, ONE, RATE)
    else:
        assert path.read_bytes()[4:12] == b"ftypM4A "


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize("name", ["wav", "flac"])
def test_lossless_files_hold_the_librarys_samples(
    name: str, stream: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    run("say", "hi", "-o", str(tmp_path / f"a.{name}"), *stream)
    samples, rate = soundfile.read(tmp_path / f"a.{name}", dtype="int16")
    assert rate == RATE
    assert np.array_equal(samples, to_int16(ONE))


@pytest.mark.parametrize("name", [*FORMATS, "m4a"])
def test_standard_output_takes_every_format_when_all_is_known(name: str, run: Run, engine: Any) -> None:
    result = run("say", "hi", "--format", name)
    assert result.code == 0
    if name in FORMATS:
        assert result.out == encode_whole(name, ONE, RATE)
    else:
        assert result.out[4:12] == b"ftypM4A "


@pytest.mark.parametrize("arguments", [["hi", "--stream"], ["--stdin"]])
def test_a_stream_of_m4a_to_standard_output_is_refused(arguments: list[str], run: Run, engine: Any) -> None:
    result = run("say", *arguments, "--format", "m4a", stdin=b"one")
    assert (result.code, result.out) == (1, b"")
    assert result.err.startswith("kazeia: error: m4a cannot be streamed to standard output; take aac")
    assert engine.loads == []


def test_without_the_encoder_the_extra_is_named(
    run: Run, engine: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    result = run("say", "hi", "-o", str(tmp_path / "a.mp3"))
    assert result.code == 1
    assert 'pip install "kazeia[formats]"' in result.err
    assert engine.loads == []
    assert run("say", "hi", "-o", str(tmp_path / "a.wav")).code == 0


def test_a_failure_in_the_middle_leaves_the_old_file(run: Run, engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"old")
    for stream in ([], ["--stream"]):
        assert run("say", "nan", "-o", str(path), *stream).code == 1
        assert path.read_bytes() == b"old"
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["wav", "mp3", "opus", "flac", "m4a", "aac"])
def test_a_file_without_an_end_that_holds_audio_is_replaced(
    name: str, run: Run, engine: Any, tmp_path: Path
) -> None:
    for text in ("hi", "again"):
        assert run("say", text, "--format", name, "-o", str(tmp_path / "speech")).code == 0
    (tmp_path / "speech").write_bytes(b"precious")
    assert run("say", "hi", "--format", name, "-o", str(tmp_path / "speech")).code == 1
    assert (tmp_path / "speech").read_bytes() == b"precious"


def test_json_says_what_was_done(run: Run, engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    result = run("say", "hi", "--seed", "5", "--json", "-o", str(path))
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert found.pop("timings")["frames"] == NATURAL_FRAMES
    assert found == {
        "output": str(path), "format": "flac", "voice": "ana", "language": "auto", "seed": 5,
        "finish_reason": "stop", "samples": len(ONE), "sample_rate": RATE, "duration_s": len(ONE) / RATE,
        "random": False,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [[], ["-o", "-"]])
def test_audio_and_json_do_not_mix(arguments: list[str], run: Run, engine: Any) -> None:
    result = run("say", "hi", "--json", *arguments)
    assert (result.code, result.out) == (2, b"")
    assert "cannot carry audio and JSON" in result.err


class Stderr(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),  # counts as not set
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals(
    terminal: bool, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("WT_SESSION", "x")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stderr = Stderr(terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    note("it broke", "error")
    note("all is well")
    first, second = stderr.getvalue().splitlines()
    assert first == ("kazeia: \x1b[1;31merror:\x1b[0m it broke" if coloured else "kazeia: error: it broke")
    assert second == "kazeia: all is well"


@pytest.mark.parametrize(("name", "more"), [("a.txt", ["--format", "wav"]), ("a.wav", [])])
def test_the_text_itself_is_never_written_over(name: str, more: list[str], run: Run, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("The only copy.", "utf-8")
    result = run("say", "-f", str(path), "-o", str(path), "-m", "random:tiny", "--max-frames", "3", *more)
    assert (result.code, result.out) == (1, b"")
    assert "choose another name" in result.err
    assert path.read_text("utf-8") == "The only copy."

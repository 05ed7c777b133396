"""The JNI functions in a real JVM, from Java programs that assert for themselves; see java/*.java."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jvm_expected import TEXT, spoken

import kazeia

RunJava = Callable[..., str]


def test_speech_equals_the_python_librarys_and_that_of_kazeia_say(
    run_java: RunJava, model: Path, tiny: kazeia.Engine, tmp_path: Path
) -> None:
    assert run_java("JniSpeak", model, tmp_path / "out.pcm") == "ok\n"
    heard = (tmp_path / "out.pcm").read_bytes()
    assert heard == spoken(tiny, 1)
    command = [sys.executable, "-m", "kazeia", "say", TEXT, "-m", model, "--quant", "f32", "--seed", "1"]
    options = ["--voice", "vivian", "--language", "de", "--max-frames", "12", "-o", tmp_path / "say.wav"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    assert heard == (tmp_path / "say.wav").read_bytes()[44:]


def test_what_cannot_be_done_is_an_exception_by_name(run_java: RunJava, model: Path) -> None:
    assert run_java("JniRefuse", model) == "ok\n"


def test_four_threads_on_two_engines_hear_what_each_hears_alone(run_java: RunJava, model: Path) -> None:
    assert run_java("JniThreads", model) == "ok\n"


@pytest.mark.parametrize("how", ["exit", "return"])
def test_the_process_ends_quietly_while_calls_are_under_way(run_java: RunJava, model: Path, how: str) -> None:
    assert run_java("JniExit", model, how) == "ok\n"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_flat_over_300_calls(run_java: RunJava, model: Path) -> None:
    # A heap that is whole from the start, and no compiler: what grows is not the JVM.
    still = ("-Xms24m", "-Xmx24m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-Xint")
    assert int(run_java("JniMemory", model, options=still)) < 25 * 6 * 1920 * 2 / 2  # of a block's PCM

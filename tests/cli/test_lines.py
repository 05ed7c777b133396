"""`kazeia say --stdin`: each line by itself, the broken ones told, the others spoken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_result import Run
from fake_kazeia import NATURAL_FRAMES, RATE, audio

from kazeia.audio.wav import wav_bytes
from kazeia.cli.lines import LONGEST_LINE

ONE = audio(NATURAL_FRAMES)
WHOLE = wav_bytes(ONE, RATE)
THREE = b"one\n\n two \r\n***\nthree"


def test_lines_follow_one_another_in_one_file(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "--stdin", "-o", str(tmp_path / "a.wav"), stdin=b"\xef\xbb\xbf" + THREE)
    assert result.code == 0
    assert [call["text"].strip() for call in engine.calls] == ["one", "two", "three"]
    assert (tmp_path / "a.wav").read_bytes() == wav_bytes(np.tile(ONE, 3), RATE)
    assert [line.split('"')[0] for line in result.err.splitlines()] == [
        "kazeia: line 1: ", "kazeia: line 3: ", "kazeia: line 5: ",
    ]  # fmt: skip


def test_the_pause_between_lines(run: Run, engine: Any, tmp_path: Path) -> None:
    run("say", "--stdin", "--segment-pause", "100", "-o", str(tmp_path / "a.wav"), stdin=b"a\nb\n")
    want = np.concatenate([ONE, np.zeros(RATE // 10, np.float32), ONE])
    assert (tmp_path / "a.wav").read_bytes() == wav_bytes(want, RATE)


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_gets_a_file_per_line(slash: str, run: Run, engine: Any, tmp_path: Path) -> None:
    assert run("say", "--stdin", "-o", f"{tmp_path}{slash}", stdin=THREE).code == 0
    assert sorted(os.listdir(tmp_path)) == ["line-0001.wav", "line-0003.wav", "line-0005.wav"]
    assert all(file.read_bytes() == WHOLE for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("{n}.wav", ["1.wav", "3.wav", "5.wav"]),
        ("a-{n:03}.wav", ["a-001.wav", "a-003.wav", "a-005.wav"]),
        ("{n:2d} {x}.flac", [" 1 {x}.flac".replace(" 1", "01"), "03 {x}.flac", "05 {x}.flac"]),
    ],
)
def test_a_pattern_names_the_files(
    pattern: str, names: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    assert run("say", "--stdin", "-o", str(tmp_path / pattern), stdin=THREE).code == 0
    assert sorted(os.listdir(tmp_path)) == names


def test_a_folder_takes_the_format_asked_for(run: Run, engine: Any, tmp_path: Path) -> None:
    assert run("say", "--stdin", "--format", "flac", "-o", str(tmp_path), stdin=b"one").code == 0
    assert os.listdir(tmp_path) == ["line-0001.flac"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"x" * (LONGEST_LINE + 1), f"line 2: longer than {LONGEST_LINE} bytes; cut it"),
        (b"x" * (3 * LONGEST_LINE), f"line 2: longer than {LONGEST_LINE} bytes; cut it"),
        (b"caf\xe9", "line 2: not UTF-8 at byte offset 3"),
        (b"wait [pause:400]", "line 2: '[pause:400]' at character 5"),
        (b"nan", "line 2: talker logits: 3 NaN"),
    ],
)
@pytest.mark.parametrize("where", ["{n}.wav", "a.wav"])
def test_a_broken_line_is_told_and_the_others_are_spoken(
    line: bytes, said: str, where: str, run: Run, engine: Any, tmp_path: Path
) -> None:
    result = run("say", "--stdin", "-q", "-o", str(tmp_path / where), stdin=b"one\n" + line + b"\nthree\n")
    assert result.code == 1
    assert result.err.startswith(f"kazeia: error: {said}")
    assert result.err.count("\n") == 1
    if where == "a.wav":
        assert (tmp_path / where).read_bytes() == wav_bytes(np.tile(ONE, 2), RATE)
    else:
        assert sorted(os.listdir(tmp_path)) == ["1.wav", "3.wav"]


def test_a_runaway_line_is_code_3_and_an_error_weighs_more(run: Run, engine: Any, tmp_path: Path) -> None:
    assert run("say", "--stdin", "-o", str(tmp_path), stdin=b"runaway\none").code == 3
    result = run("say", "--stdin", "-o", str(tmp_path), stdin=b"nan\nrunaway\none")
    assert result.code == 1
    assert "warning: line 2: stopped at the limit of 9 frames" in result.err


@pytest.mark.parametrize("data", [b"", b"\n \r\n\t\n", b"***\n...\n", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("where", ["", "a.wav"])
def test_t05_nothing_to_say_is_the_same_error(
    data: bytes, where: str, run: Run, engine: Any, tmp_path: Path
) -> None:
    result = run("say", "--stdin", "-o", str(tmp_path / where), stdin=data)
    assert result.code == 1
    assert result.err.startswith("kazeia: error: nothing to say: ")
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_only_broken_lines_leave_no_file(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "--stdin", "-o", str(tmp_path / "a.wav"), stdin=b"nan\n\xff\n")
    assert result.code == 1
    assert result.err.count("\n") == 2
    assert not list(tmp_path.iterdir())


def test_what_concerns_every_line_ends_it_at_once(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "--stdin", "-v", "nobody", "-o", str(tmp_path), stdin=THREE)
    assert (result.code, result.err) == (1, "kazeia: error: unknown voice 'nobody'; known: ana, bo\n")


@pytest.mark.parametrize("arguments", [["hello"], ["-f", "x"]])
def test_there_is_one_text_only(arguments: list[str], run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "--stdin", *arguments, "-o", str(tmp_path / "a.wav"))
    assert result.code == 2
    assert "--stdin reads standard input" in result.err
    assert engine.loads == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("none/{n}.wav", "there is no such folder"),
        ("{n}.xyz", "no audio format is known"),
        ("{name}.wav", "as {n}"),
        ("none/", "there is no such folder"),
    ],
)
def test_bad_places_are_refused_before_the_work(
    output: str, said: str, run: Run, engine: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("say", "--stdin", "-o", output, stdin=THREE)
    assert result.code == 1
    assert said in result.err
    assert engine.loads == []
    assert not list(tmp_path.iterdir())


def test_lines_as_json(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "--stdin", "--json", "-o", str(tmp_path / "{n}.mp3"), stdin=b"one\n\xff\nthree")
    assert result.code == 1
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [entry["line"] for entry in found] == [1, 2, 3]
    assert found[0]["output"] == str(tmp_path / "1.mp3")
    assert found[0]["format"] == "mp3"
    assert "not UTF-8" in found[1]["error"]
    assert found[2]["samples"] == len(ONE)


def test_lines_are_played_in_order_to_the_end(run: Run, engine: Any, monkeypatch: Any) -> None:
    heard: list[Any] = []

    class Player:
        def __init__(self, rate: int) -> None:
            pass

        def __enter__(self) -> Player:
            return self

        def __exit__(self, kind: Any, *_: object) -> None:
            heard.append(kind)

        def write(self, pcm: Any) -> None:
            heard.extend(pcm.tolist())

    monkeypatch.setattr("kazeia.audio.playback.Player", Player)
    result = run("say", "--stdin", "--play", terminal="stdout", stdin=b"one\nnan\ntwo\n")
    assert result.code == 1
    # of the broken line, what came before it broke; and the end waits until all has been heard
    assert heard == [*ONE.tolist(), *audio(2).tolist(), *ONE.tolist(), None]

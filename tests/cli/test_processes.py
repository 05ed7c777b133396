"""`kazeia say` as a process among others: pipes, closed pipes, signals, full disks (F02, F03)."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_kazeia import NATURAL_FRAMES, RATE, audio

from kazeia.audio.encode import encode_stream
from kazeia.audio.wav import wav_bytes

PROGRAM = [sys.executable, str(Path(__file__).with_name("fake_kazeia.py")), "say"]
WHOLE = wav_bytes(audio(NATURAL_FRAMES), RATE)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals and devices")


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*PROGRAM, *arguments], **options)


def finish(*arguments: str, given: bytes = b"", **options: Any) -> tuple[int, bytes, bytes]:
    """The exit code, standard output and standard error."""
    with start(*arguments, stdin=subprocess.PIPE, **options) as process:
        out, err = process.communicate(given, timeout=30)
    return process.returncode, out, err


def test_a_pipe_gets_exact_sizes_when_all_is_known_at_once() -> None:
    assert finish("hi", "-o", "-")[:2] == (0, WHOLE)


def test_a_streamed_pipe_gets_sizes_of_all_ones() -> None:
    code, data, _ = finish("hi", "--stream", "-o", "-")
    assert code == 0
    assert struct.unpack("<I", data[4:8]) + struct.unpack("<I", data[40:44]) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert data[44:] == WHOLE[44:]


def test_standard_output_into_a_file_has_exact_sizes(tmp_path: Path) -> None:
    with open(tmp_path / "a.wav", "wb") as file:
        assert finish("hi", "--stream", stdout=file)[0] == 0
    assert (tmp_path / "a.wav").read_bytes() == WHOLE


def test_text_through_one_pipe_audio_through_another() -> None:
    code, out, err = finish(given="Grüße.\r\n".encode())
    assert (code, out) == (0, WHOLE)
    assert err.startswith(b"kazeia: ")


def test_a_closed_pipe_ends_quietly_and_soon() -> None:
    with start("endless", "--stream") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(44 + 4000)[:4] == b"RIFF"  # audio comes while more is being made
        process.stdout.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_full_disk_behind_standard_output_is_one_line(stream: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        code, _, err = finish("hi", "-q", *stream, stdout=full)
    assert code == 1
    assert err == b"kazeia: error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_leaves_no_file(
    number: signal.Signals, code: int, stream: list[str], tmp_path: Path
) -> None:
    with start("endless", "-o", str(tmp_path / "a.wav"), *stream) as process:
        if stream:  # wait for the first audio
            deadline = time.monotonic() + 20
            while not any(p.stat().st_size > 4000 for p in tmp_path.iterdir()):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert [p.name for p in tmp_path.iterdir()] != ["a.wav"]
        else:  # nothing to be seen yet: wait until it speaks
            assert process.stderr is not None
            assert process.stderr.readline() == b"speaking\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
    assert process.returncode == code
    assert err == (b"kazeia: interrupted\n" if number == signal.SIGINT else b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_device_paths_are_written_to_directly() -> None:
    assert finish("hi", "-o", "/dev/stdout")[:2] == (0, WHOLE)


@pytest.mark.parametrize("name", ["mp3", "opus", "flac", "aac"])
def test_every_format_can_be_streamed_through_a_pipe(name: str) -> None:
    code, data, _ = finish("hi", "--stream", "--format", name)
    assert code == 0
    assert data == b"".join(encode_stream(name, iter([audio(NATURAL_FRAMES)]), RATE))


# ---- line by line ----


def test_each_line_is_spoken_as_it_arrives() -> None:
    with start("--stdin", "-q", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(b"hi\n")
            process.stdin.flush()  # and it stays open
            if number == 0:
                assert process.stdout.read(44)[:4] == b"RIFF"
            assert process.stdout.read(len(WHOLE) - 44) == WHOLE[44:]
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize("where", ["a.wav", "{n}.wav"])
def test_ctrl_c_ends_the_lines(where: str, tmp_path: Path) -> None:
    with start("--stdin", "-q", "-o", str(tmp_path / where), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"hi\nendless\n")
        process.stdin.flush()
        assert process.stderr.readline() == b"speaking\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b"kazeia: interrupted\n"
    assert [p.name for p in tmp_path.iterdir()] == ([] if where == "a.wav" else ["1.wav"])


def test_ctrl_c_while_waiting_for_a_line() -> None:
    with start("--stdin", "-q", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"hi\n")
        process.stdin.flush()
        assert len(process.stdout.read(len(WHOLE))) == len(WHOLE)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b"kazeia: interrupted\n"


def test_a_closed_pipe_ends_the_lines_quietly() -> None:
    with start("--stdin", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"endless\nmore\n")
        process.stdin.flush()
        assert process.stdout.read(4044)[:4] == b"RIFF"
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == b""

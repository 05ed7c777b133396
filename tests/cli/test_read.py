"""`kazeia read`: a book as a file, and as a process that is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import soundfile
from cli_result import Run

from kazeia.audio.wav import to_int16
from kazeia.engine import Engine

BOOK = "Chapter 1\n\nThe first words.\n\nAnd more.\n\nChapter 2\n\nThe last words.\n"
PIECES = 12  # of the book that is killed
FAST = ["-m", "random:tiny", "--seed", "3", "--max-frames", "5"]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(BOOK, "utf-8")
    return path


def start(
    *arguments: str, program: Sequence[str] = (sys.executable, "-m", "kazeia"), **options: Any
) -> subprocess.Popen[bytes]:
    command = [*program, "read", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def finish(*arguments: str, **options: Any) -> tuple[int, bytes, bytes]:
    """The exit code, standard output and standard error."""
    with start(*arguments, **options) as process:
        out, err = process.communicate()
    return process.returncode, out, err


# ---- results ----


def test_a_book_becomes_a_file_with_subtitles(book: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.flac"
    result = run("read", str(book), "-o", str(out), *FAST, "--subtitles", "srt,vtt")
    assert (result.code, result.out) == (0, b"")
    first, second = result.err.splitlines()
    assert first.startswith('kazeia: "out" serena, auto, seed 3: 2 chapters, 5 pieces, 0:04 of audio in ')
    assert first.endswith(f"finish: limit -> {out}, {tmp_path / 'out.srt'}, {tmp_path / 'out.vtt'}")
    assert "noise" in second
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.flac", "out.srt", "out.vtt"]


@pytest.mark.parametrize(
    ("source", "output", "more"),
    [
        ("in.txt", "in.txt", ["--format", "wav"]),
        ("film.srt", "film.wav", ["--subtitles", "srt"]),
        ("film.vtt", "film.mp3", ["--subtitles", "srt,vtt"]),
        ("in.wav", "./in.wav", []),
    ],
)
def test_a_book_is_never_written_over(
    source: str, output: str, more: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(source).write_text(BOOK, "utf-8")
    result = run("read", source, "-o", output, *FAST, *more)
    assert result.code == 1
    assert "choose another name" in result.err
    assert Path(source).read_text("utf-8") == BOOK
    assert os.listdir() == [source]


def test_json_says_where_everything_is(
    book: Path, run: Run, tmp_path: Path, load_engine: Callable[..., Engine]
) -> None:
    out = tmp_path / "out.wav"
    result = run("read", str(book), "-o", str(out), *FAST, "--quant", "f32", "--json", "-q")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    samples, rate = soundfile.read(out, dtype="int16")
    assert found["samples"] == len(samples)
    assert [c["title"] for c in found["chapters"]] == ["Chapter 1", "Chapter 2"]
    assert found["chapters"][1]["start_s"] == found["pieces"][3]["start_s"]
    assert not found["chapter_marks"]
    # every piece can be had by itself
    piece = found["pieces"][2]
    alone = load_engine("tiny").synthesize(piece["text"], seed=piece["seed"], max_frames=5)
    part = samples[round(piece["start_s"] * rate) : round(piece["end_s"] * rate)]
    assert (part == to_int16(alone.pcm)).all()


def test_the_embedded_voice_reads_to_the_end(run: Run, tmp_path: Path) -> None:
    import av

    (tmp_path / "livre.md").write_text(
        "# Chapitre un\n\nIl fait **beau**.\n\n# Chapitre deux\n\nMerci.", "utf-8"
    )
    arguments = [
        "-o",
        str(tmp_path / "livre.m4b"),
        "-l",
        "fr",
        "--seed",
        "42",
        "--subtitles",
        "srt",
        "--json",
    ]
    result = run("read", str(tmp_path / "livre.md"), *arguments)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["finish_reason"], found["random"], found["language"]) == ("stop", False, "french")
    assert [piece["text"] for piece in found["pieces"]] == [
        "Chapitre un",
        "Il fait beau.",
        "Chapitre deux",
        "Merci.",
    ]
    assert 3 < found["duration_s"] < 30
    with av.open(str(tmp_path / "livre.m4b")) as container:
        assert [c["metadata"]["title"] for c in container.chapters()] == ["Chapitre un", "Chapitre deux"]
    assert "Il fait beau." in (tmp_path / "livre.srt").read_text("utf-8")


def test_chapters_can_be_turned_off(book: Path, run: Run, tmp_path: Path) -> None:
    found = json.loads(
        run("read", str(book), "-o", str(tmp_path / "a.m4a"), *FAST, "--no-chapters", "--json").out
    )
    assert (found["chapters"], found["chapter_marks"], len(found["pieces"])) == ([], False, 5)


def test_a_book_from_standard_input(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "a.mp3"
    assert run("read", "-", "-o", str(out), *FAST, stdin=BOOK.encode()).code == 0
    assert out.stat().st_size > 1000


def test_a_format_without_marks_is_said(book: Path, run: Run, tmp_path: Path) -> None:
    result = run("read", str(book), "-o", str(tmp_path / "a.wav"), *FAST)
    assert "2 chapters (without marks, which wav cannot hold)" in result.err


def test_a_limit_that_was_not_asked_for_is_code_3(run: Run, tmp_path: Path) -> None:
    result = run("read", "-", "-o", str(tmp_path / "a.wav"), "-m", "random:tiny", "--seed", "1", stdin=b"Hm.")
    assert result.code == 3
    assert "1 of 1 pieces were stopped at a limit" in result.err
    assert (tmp_path / "a.wav").exists()


# ---- errors ----


@pytest.mark.parametrize(
    ("data", "arguments", "code", "said"),
    [
        (b"", [], 1, "nothing to say: "),
        (b"***\n\n...", [], 1, "nothing to say: "),
        (b"caf\xe9", [], 1, "not UTF-8 at byte offset 3 (found 0xe9); convert it to UTF-8, as with: iconv"),
        (b"PK\x03\x04", [], 1, "this is a ZIP archive"),
        (b"Hi.", ["-o", "a.xyz"], 1, "no audio format is known by the end '.xyz'"),
        (b"Hi.", ["-o", "none/a.wav"], 1, "there is no such folder"),
        (b"Hi.", ["--subtitles", "ass"], 1, "unknown subtitles 'ass'; expected one of: srt, vtt"),
        (b"Hi.", ["--subtitles", ""], 1, "--subtitles is ''"),
        (b"Hi.", ["--paragraph-pause", "-1"], 1, "--paragraph-pause is -1"),
        (b"Hi.", ["--top-p", "0"], 1, "--top-p: top_p is 0"),
        (b"Hi.", ["--seed", "-1"], 1, "seed is -1"),
        (b"Hi.", ["-v", "nobody"], 1, 'unknown voice "nobody"'),
        (b"Hi.", ["-l", "klingon"], 1, 'unknown language "klingon"'),
        (b"Hi.", ["--segment-chars", "0"], 1, "segment_chars is 0"),
        (b"Hi. [pause:1]", [], 1, "line 1: '[pause:1]'"),
        (b"Hi.", ["-o", "-"], 2, "a book is read into a file"),
        (b"Hi.", ["--loud"], 2, "--loud"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    data: bytes, arguments: list[str], code: int, said: str, run: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("read", "-", "-o", "a.wav", "-m", "random:tiny", *arguments, stdin=data)
    assert result.code == code
    assert said in result.err
    assert "Traceback" not in result.err
    if code == 1:
        assert result.err.startswith("kazeia: error: ")
        assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_book_is_named(run: Run, tmp_path: Path) -> None:
    result = run("read", str(tmp_path / "none.txt"), "-o", str(tmp_path / "a.wav"))
    assert result.code == 1
    assert f"cannot read the text from {tmp_path / 'none.txt'}: No such file" in result.err


def test_a_full_disk_is_one_line_and_keeps_what_was_spoken(book: Path, tmp_path: Path) -> None:
    def little_room() -> None:  # no file may be larger: writing fails as on a full disk
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    # the first prepares the model, too
    assert finish(str(book), "-o", str(tmp_path / "first.wav"), *FAST)[0] == 0
    code, _, err = finish(str(book), "-o", str(tmp_path / "a.wav"), *FAST, preexec_fn=little_room)
    assert code == 1
    assert err.startswith(b"kazeia: error: cannot write ")
    assert err.count(b"\n") == 1
    assert not (tmp_path / "a.wav").exists()
    code, _, err = finish(str(book), "-o", str(tmp_path / "a.wav"), *FAST)
    assert code == 0
    assert b"(5 of them kept from before)" in err
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "first.wav").read_bytes()


# ---- killed ----

# `kazeia` that waits for its end when three pieces are kept, however fast the machine is.
WAITING = """
import time
from kazeia.reading.work import WorkFolder

save = WorkFolder.save

def save_and_wait(self, *piece):
    save(self, *piece)
    if len(self.finished) == 3:
        print("three", flush=True)
        time.sleep(600)

WorkFolder.save = save_and_wait
from kazeia.cli import main

main()
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGKILL, -9, b""),
        (signal.SIGTERM, 143, b""),
        (signal.SIGINT, 130, b"kazeia: what was spoken is kept in "),
    ],
)
def test_a_reading_that_was_killed_goes_on_and_sounds_the_same(
    number: signal.Signals, code: int, said: bytes, tmp_path: Path
) -> None:
    text = "\n\n".join(f"Paragraph number {i} of a book that takes a while." for i in range(PIECES))
    (tmp_path / "in.txt").write_text(text, "utf-8")
    options = [str(tmp_path / "in.txt"), "-m", "random:tiny", "--max-frames", "6", "--seed", "8"]
    assert finish(*options, "-o", str(tmp_path / "whole.flac"), "--title", "T")[0] == 0
    out = tmp_path / "cut.flac"
    folder = tmp_path / "cut.flac.kazeia"
    with start(*options, "-o", str(out), program=[sys.executable, "-c", WAITING]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"three\n"
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == code
    assert err.startswith(said)
    assert b"Traceback" not in err
    assert not out.exists()
    kept = len(list(folder.glob("*.wav")))
    assert kept == 3 if number == signal.SIGKILL else 3 <= kept <= PIECES
    # without a seed: it is that of the reading that goes on
    code, answer, err = finish(*options[:-2], "-o", str(out), "--title", "T", "--json")
    assert code == 0, err
    found = json.loads(answer)
    assert (found["seed"], sum(piece["kept"] for piece in found["pieces"])) == (8, kept)
    assert out.read_bytes() == (tmp_path / "whole.flac").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.flac", "in.txt", "whole.flac"]

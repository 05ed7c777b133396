"""`kazeia say`: every entrance, every exit code, and what lands where (T05, T10, F02, S03, S04, L10)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_result import Run
from fake_kazeia import NATURAL_FRAMES, RATE, FakeEngine, audio

import kazeia
from kazeia.audio.wav import wav_bytes
from kazeia.sampling import OFFICIAL_PREDICTOR, OFFICIAL_TALKER, Sampling

WHOLE = wav_bytes(audio(NATURAL_FRAMES), RATE)
ENTRANCES = ["argument", "stdin", "dash", "file"]


def through(entrance: str, data: bytes, folder: Path) -> tuple[list[str], bytes]:
    """The arguments and standard input that bring `data` in by that entrance."""
    if entrance == "file":
        (folder / "in.txt").write_bytes(data)
        return ["--file", str(folder / "in.txt")], b""
    if entrance == "argument":
        return [data.decode("utf-8", "surrogateescape")], b""
    return (["-"] if entrance == "dash" else []), data


# ---- text ----


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("data", [b"", b" \t\r\n ", b"\xef\xbb\xbf\n", b"...", "—\u200b".encode()])
def test_nothing_to_say_is_the_same_error_from_every_entrance(
    entrance: str, data: bytes, run: Run, engine: Any, tmp_path: Path
) -> None:
    arguments, stdin = through(entrance, data, tmp_path)
    result = run("say", *arguments, "-o", str(tmp_path / "a.wav"), stdin=stdin)
    assert result.code == 1
    assert re.fullmatch(r"kazeia: error: nothing to say: [^\n]+\n", result.err)
    assert not (tmp_path / "a.wav").exists()
    assert engine.loads == []


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(
    "data", [b"Gr\xc3\xbc\xc3\x9fe.\nZwei.", b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe.\r\nZwei."]
)
def test_a_mark_and_crlf_are_tolerated_at_every_entrance(
    entrance: str, data: bytes, run: Run, engine: FakeEngine, tmp_path: Path
) -> None:
    arguments, stdin = through(entrance, data, tmp_path)
    assert run("say", *arguments, "-o", str(tmp_path / "a.wav"), stdin=stdin).code == 0
    assert engine.calls[0]["text"] == "Grüße.\nZwei."


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_bytes_that_are_not_utf8_are_named_with_their_offset(
    entrance: str, run: Run, engine: Any, tmp_path: Path
) -> None:
    arguments, stdin = through(entrance, b"abc \xff def", tmp_path)
    result = run("say", *arguments, "-o", str(tmp_path / "a.wav"), stdin=stdin)
    assert result.code == 1
    name = {"file": str(tmp_path / "in.txt"), "argument": "TEXT"}.get(entrance, "standard input")
    assert result.err.startswith(f"kazeia: error: {name}: not UTF-8 at byte offset 4")
    assert engine.loads == []


def test_a_missing_text_file_is_named(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "-f", str(tmp_path / "none.txt"), "-o", str(tmp_path / "a.wav"))
    assert result.code == 1
    assert f"cannot read the text from {tmp_path / 'none.txt'}: No such file" in result.err


# ---- usage: code 2, before any work ----


@pytest.mark.parametrize(
    ("arguments", "terminal", "said"),
    [
        (["-o", "a.wav"], "stdin", "what should be said"),
        (["hi", "-f", "x", "-o", "a.wav"], "", "both TEXT and --file"),
        (["hi"], "stdout", "where should the audio go"),
        (["hi", "-o", "-"], "stdout", "audio is binary"),
        (["hi", "-o", "a.wav", "--seed", "x"], "", "--seed"),
        (["hi", "-o", "a.wav", "--temperature", "warm"], "", "--temperature"),
        (["hi", "-o", "a.wav", "--loud"], "", "--loud"),
        (["hi", "there", "-o", "a.wav"], "", "there"),
    ],
)
def test_wrong_usage_is_code_2(
    arguments: list[str], terminal: str, said: str, run: Run, engine: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("say", *arguments, terminal=terminal)
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err
    assert engine.loads == []
    assert list(tmp_path.iterdir()) == []


# ---- bad options: code 1, by name, before any work ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", "-1"], "seed is -1"),
        (["--seed", str(2**64)], "seed is 18446744073709551616"),
        (["--temperature", "-0.1"], "--temperature: temperature is -0.1"),
        (["--temperature", "nan"], "--temperature: temperature is nan"),
        (["--top-k", "-1"], "--top-k: top_k is -1"),
        (["--top-p", "1.5"], "--top-p: top_p is 1.5"),
        (["--top-p", "0"], "--top-p: top_p is 0"),
        (["--repetition-penalty", "0"], "--repetition-penalty: repetition_penalty is 0"),
        (["--repetition-window", "-2"], "--repetition-window: repetition_window is -2"),
        (["--cp-temperature", "inf"], "--cp-temperature: temperature is inf"),
        (["--cp-top-p", "0"], "--cp-top-p: top_p is 0"),
        (
            ["-o", "speech.xyz"],
            "speech.xyz: no audio format is known by the end '.xyz'; expected one of: .wav",
        ),
        (["-o", "speech.mp3", "--format", "flac"], "a name that ends in .mp3 is one of mp3"),
        (["--format", "ogg"], "unknown audio format 'ogg'; expected one of: wav, mp3, opus, flac, m4a, aac"),
        (["-o", "none/a.wav"], "there is no such folder"),
        (["-o", "."], "it is a folder"),
    ],
)
def test_bad_options_are_refused_by_name(
    arguments: list[str], said: str, run: Run, engine: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("say", "hi", "-o", "a.wav", *arguments)
    assert result.code == 1
    assert re.fullmatch(rf"kazeia: error: [^\n]*{re.escape(said)}[^\n]*\n", result.err)
    assert engine.loads == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_an_unknown_voice_is_one_line_and_no_file(
    stream: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    result = run("say", "hi", "-v", "nobody", "-o", str(tmp_path / "a.wav"), *stream)
    assert (result.code, result.err) == (1, "kazeia: error: unknown voice 'nobody'; known: ana, bo\n")
    assert list(tmp_path.iterdir()) == []
    assert engine.closed


def test_an_empty_models_name_is_the_librarys_error(run: Run, tmp_path: Path) -> None:
    result = run("say", "hi", "-m", "", "-o", str(tmp_path / "a.wav"))
    assert result.code == 1
    assert result.err.startswith("kazeia: error: the model's name is empty")


# ---- where the audio goes ----


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_file_equals_the_librarys_bytes(stream: list[str], run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "hi there", "-o", str(tmp_path / "a.wav"), *stream)
    assert (result.code, result.out) == (0, b"")
    assert (tmp_path / "a.wav").read_bytes() == WHOLE
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize("arguments", [["-o", "-"], []])
def test_standard_output_carries_the_audio_and_nothing_else(
    arguments: list[str], run: Run, engine: Any
) -> None:
    result = run("say", "hi", *arguments)
    assert (result.code, result.out) == (0, WHOLE)


def test_the_summary_says_what_was_done_on_one_line(run: Run, engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    result = run("say", "Hi\n  there, " + "long " * 20, "-o", str(path), "--seed", "12")
    assert result.err == (
        'kazeia: "Hi there, long long long long long long…" ana, auto, seed 12: 5 frames, '
        f"0.40 s of audio in 0.10 s (RTF 0.25, 4.00x), first sound after 60 ms (audible after 75 ms), "
        f"prefill 0 ms, talker 0.0 ms/frame, "
        f"predictor 0.0 ms/frame, decoder 0.0 ms/frame, finish: stop -> {path}\n"
    )


def test_noise_is_called_noise(run: Run, engine: Any, tmp_path: Path) -> None:
    engine.is_random = True
    assert "the sound is noise, not speech" in run("say", "hi", "-o", str(tmp_path / "a.wav")).err


def test_quiet_is_silent_but_for_warnings_and_errors(run: Run, engine: Any, tmp_path: Path) -> None:
    assert run("say", "hi", "-q", "-o", str(tmp_path / "a.wav")).err == ""
    assert run("say", "warn", "-q", "-o", str(tmp_path / "a.wav")).err == (
        "kazeia: warning: the instruction is ignored\n"
    )
    assert "error: unknown voice" in run("say", "hi", "-q", "-v", "x", "-o", str(tmp_path / "a.wav")).err


@pytest.mark.parametrize("stream", [[], ["--stream"], ["--quiet"]])
def test_the_frame_limit_is_code_3_and_the_audio_is_kept(
    stream: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    result = run("say", "a runaway", "-o", str(tmp_path / "a.wav"), *stream)
    assert result.code == 3
    assert "kazeia: warning: stopped at the limit of 9 frames" in result.err
    assert (tmp_path / "a.wav").read_bytes() == wav_bytes(audio(9), RATE)


def test_a_limit_that_was_asked_for_is_no_failure(run: Run, engine: Any, tmp_path: Path) -> None:
    result = run("say", "hi", "--max-frames", "3", "-o", str(tmp_path / "a.wav"))
    assert result.code == 0
    assert "finish: limit" in result.err
    assert (tmp_path / "a.wav").read_bytes() == wav_bytes(audio(3), RATE)


# ---- failures in the middle ----


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("nan", 1, "kazeia: error: talker logits: 3 NaN\n"),
        ("bug", 1, "kazeia: error: unexpected RuntimeError: something broke; run it again with --debug"),
        ("cancel", 130, "kazeia: interrupted\n"),
    ],
)
def test_a_failure_in_the_middle_leaves_the_old_file(
    text: str, code: int, said: str, stream: list[str], run: Run, engine: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"old")
    result = run("say", text, "-o", str(path), *stream)
    assert result.code == code
    assert result.err.startswith(said)
    assert result.err.count("\n") == 1
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
    assert engine.closed


@pytest.mark.parametrize("text", ["nan", "bug"])
def test_debug_shows_the_traceback_and_then_the_line(
    text: str, run: Run, engine: Any, tmp_path: Path
) -> None:
    result = run("say", text, "--debug", "-o", str(tmp_path / "a.wav"))
    assert result.code == 1
    assert result.err.startswith("Traceback (most recent call last):")
    assert result.err.splitlines()[-1].startswith("kazeia: error: ")


# ---- what reaches the library ----


def test_without_options_the_library_decides(run: Run, engine: Any, tmp_path: Path) -> None:
    run("say", "hi", "-o", str(tmp_path / "a.wav"))
    load = engine.loads[0]
    assert (load["model"], load["quant"], load["threads"], load["cache_dir"]) == (None, "q8", None, None)
    call = engine.calls[0]
    for name in ("voice", "instruct", "seed", "max_frames", "sampling", "predictor_sampling"):
        assert call[name] is None
    assert (call["language"], call["layout"]) == ("auto", "whole")
    assert (call["segment_pause"], call["markup"]) == (0, True)


def test_every_option_arrives(run: Run, engine: Any, tmp_path: Path) -> None:
    options = ["-m", "some/model", "-v", "bo", "-l", "de", "--instruct", "softly", "--quant", "q4"]
    options += ["--threads", "3", "--cache-dir", "c", "--layout", "streamed", "--max-frames", "99"]
    options += ["--seed", str(2**64 - 1), "--segment-pause", "250", "--no-markup"]
    run("say", "hi", "-o", str(tmp_path / "a.wav"), *options)
    load = engine.loads[0]
    assert (load["model"], load["quant"], load["threads"], load["cache_dir"]) == (
        "some/model",
        "q4",
        3,
        Path("c"),
    )
    call = engine.calls[0]
    assert (call["voice"], call["language"], call["instruct"]) == ("bo", "de", "softly")
    assert (call["seed"], call["layout"], call["max_frames"]) == (2**64 - 1, "streamed", 99)
    assert (call["segment_pause"], call["markup"]) == (250, False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["Hello [pause:400] you"], "[pause:400]"),
        (["Hello [pause:61s] you"], "60000ms"),
        (["Hello", "--segment-pause", "-1"], "--segment-pause"),
        (["Hello", "--segment-pause", "nan"], "--segment-pause"),
    ],
)
def test_bad_pauses_are_refused_before_the_model_is_loaded(
    run: Run, engine: Any, tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = run("say", *arguments, "-o", str(tmp_path / "a.wav"))
    assert done.code == 1
    assert named in done.err
    assert not engine.loads
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "talker", "predictor"),
    [
        (["--official-sampling"], "official", "official"),
        (["--temperature", "0.5"], Sampling(temperature=0.5), None),
        (["--top-k", "0", "--top-p", "0.5"], Sampling(top_k=0, top_p=0.5), None),
        (["--repetition-penalty", "2", "--repetition-window", "0"], Sampling(0.9, 50, 1.0, 2.0, 0), None),
        (["--cp-temperature", "0"], None, Sampling(0, 50, 1.0, 1.05, 16)),
        (
            ["--cp-top-k", "7", "--cp-top-p", "0.5", "--cp-repetition-penalty", "1"],
            None,
            Sampling(0.9, 7, 0.5, 1.0, 16),
        ),
        (
            ["--official-sampling", "--top-k", "9", "--cp-top-k", "8"],
            OFFICIAL_TALKER.replace(top_k=9),
            OFFICIAL_PREDICTOR.replace(top_k=8),
        ),
    ],
)
def test_sampling_options_change_only_what_they_name(
    arguments: list[str], talker: Any, predictor: Any, run: Run, engine: Any, tmp_path: Path
) -> None:
    assert run("say", "hi", "-o", str(tmp_path / "a.wav"), *arguments).code == 0
    assert engine.calls[0]["sampling"] == talker
    assert engine.calls[0]["predictor_sampling"] == predictor


# ---- playing ----


def test_only_play_needs_a_sound_library(run: Run, engine: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert run("say", "hi", "-o", str(tmp_path / "a.wav")).code == 0
    result = run("say", "hi", "--play", "-o", str(tmp_path / "b.wav"))
    assert result.code == 1
    assert 'pip install "kazeia[play]"' in result.err
    assert len(engine.calls) == 1  # refused before the work
    assert not (tmp_path / "b.wav").exists()


def test_play_hears_what_the_file_holds(run: Run, engine: Any, tmp_path: Path, monkeypatch: Any) -> None:
    heard: list[Any] = []

    class Player:
        def __init__(self, rate: int) -> None:
            assert rate == RATE

        def __enter__(self) -> Player:
            return self

        def __exit__(self, *_: object) -> None:
            heard.append("end")

        def write(self, pcm: Any) -> None:
            heard.extend(pcm.tolist())

    monkeypatch.setattr("kazeia.audio.playback.Player", Player)
    result = run("say", "hi", "--play", terminal="stdout")
    assert (result.code, result.out) == (0, b"")
    assert heard == [*audio(NATURAL_FRAMES).tolist(), "end"]
    assert run("say", "hi", "--play", "-o", str(tmp_path / "a.wav")).code == 0
    assert (tmp_path / "a.wav").read_bytes() == WHOLE


# ---- for real ----


def test_a_random_model_speaks_the_same_bytes_as_the_library(
    run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    monkeypatch.setenv("KAZEIA_CACHE", str(tmp_path_factory.getbasetemp() / "kazeia-cache"))
    path = tmp_path / "a.wav"
    with kazeia.load("random:tiny") as real:
        speech = real.synthesize("Hello.", seed=3, max_frames=4)
    want = wav_bytes(speech.pcm, speech.sample_rate)
    for stream in ([], ["--stream"]):
        arguments = ["-m", "random:tiny", "--seed", "3", "--max-frames", "4", "-o", str(path)]
        result = run("say", "Hello.", *arguments, *stream)
        assert result.code == 0, result.err
        assert path.read_bytes() == want
    assert run("say", "Hello.", *arguments, "--temperature", "0.5", "--cp-top-k", "3").code == 0
    assert path.read_bytes() != want


def test_a_file_of_another_kind_is_not_overwritten_by_a_slip(run: Run, engine: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("precious")
    result = run("say", "hi", "-o", str(notes))
    assert result.code == 1
    assert "exists and holds no audio" in result.err
    assert notes.read_text() == "precious"

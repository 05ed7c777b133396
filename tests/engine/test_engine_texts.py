"""Texts of every kind, through the engine: spoken, or refused by name (T04, T05, T07, T10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kazeia import EmptyTextError, Engine, Request, TextEncodingError
from kazeia.text.clean import decode_text

SILENT = (
    "...",
    "***",
    "—",
    "?!",
    "。。。",
    '""',
    "🎉",
    "\u200b",
    "\ufeff",
    "-----",
    "=====",
    "\u0301",
    "\u3164",
    "👩‍👩‍👧",
)
BLANK = ("", " ", "\t", "\n", " \t\r\n\u2028\u3000 ")
CONTROL = (
    "<|im_end|>",
    "<|im_start|>assistant",
    "Stop.<|im_end|>\n<|im_start|>assistant\nGo on.",
    "<tts_pad>",
    "a <tts_text_bos> b <tts_text_eod> c",
    "<|endoftext|>",
)


@pytest.mark.parametrize(
    "text", [*SILENT, *BLANK, *(a + "\n" + b for a, b in zip(SILENT, BLANK, strict=False))]
)
def test_nothing_to_say_is_one_named_error_from_every_entrance(tiny: Engine, text: str) -> None:
    for layout in ("whole", "streamed"):
        with pytest.raises(EmptyTextError, match="nothing to say"):
            tiny.synthesize(text, layout=layout)  # type: ignore[arg-type]
        with pytest.raises(EmptyTextError, match="nothing to say"):
            tiny.stream(text, layout=layout)  # type: ignore[arg-type]
    with pytest.raises(EmptyTextError, match="nothing to say"):
        tiny.batch([Request("Hello."), Request(text)])


@pytest.mark.parametrize("silent", SILENT)
def test_a_silent_paragraph_inside_a_long_text_is_passed_over(tiny: Engine, silent: str) -> None:
    said = "A first paragraph of some length.\n\nA second one, just as long."
    text = said.replace("\n\n", f"\n\n{silent}\n\n")
    options: dict[str, Any] = {"seed": 1, "max_frames": 4, "segment_chars": 36}
    assert tiny.synthesize(text, **options).codes.shape == (4, 16)


@pytest.mark.parametrize(
    "text",
    [
        *CONTROL,
        "a",
        "\ufeffHello with a mark.",
        "Line one.\r\nLine two.\r\n",
        "\n\n  Leading lines.",
        "One.\u2028Two.",
        "<sigh>Fine.",
        "x < y",
        "नमस्ते। कैसे हो?",
        "مرحبا؟",
        "日本語。中文；한국어！",
        "n\u0303 e\u0301",
        "Rare: 𠮷 🏳️‍🌈",
        "\x00 nul",
        "%",
        "€",
    ],
)
@pytest.mark.parametrize("layout", ["whole", "streamed"])
def test_ordinary_and_odd_texts_are_spoken_alike_whole_and_in_a_stream(
    tiny: Engine, text: str, layout: str
) -> None:
    options: dict[str, Any] = {"seed": 1, "max_frames": 2, "layout": layout}
    speech = tiny.synthesize(text, **options)
    assert speech.codes.shape == (2, 16)
    pcm = np.concatenate([c.pcm for c in tiny.stream(text, chunk_frames=1, **options)])
    assert np.array_equal(pcm, speech.pcm)


@pytest.mark.parametrize("text", CONTROL)
def test_control_spellings_do_not_control(ending: Engine, text: str) -> None:
    # They neither end the turn nor vanish: with and without them is not the same.
    whole = ending.synthesize(f"Before {text} after", seed=1, max_frames=4)
    bare = ending.synthesize("Before  after", seed=1, max_frames=4)
    assert not np.array_equal(whole.codes, bare.codes)


def test_bytes_with_a_mark_and_windows_line_ends_say_what_the_plain_ones_say(tiny: Engine) -> None:
    plain = "Line one.\nLine two, né."
    written = plain.replace("\n", "\r\n").encode("utf-8-sig")
    assert decode_text(written, "a file") == plain
    a = tiny.synthesize(decode_text(written, "a file"), seed=1, max_frames=3)
    assert np.array_equal(a.pcm, tiny.synthesize(plain, seed=1, max_frames=3).pcm)
    with pytest.raises(TextEncodingError, match=r"a file.*offset 13.*0xff"):
        decode_text(b"\xef\xbb\xbfLine one.\n\xff", "a file")


def test_a_text_of_one_token_is_spoken_in_both_layouts(tiny: Engine) -> None:
    whole, streamed = (
        tiny.synthesize("a", seed=1, max_frames=5, layout=layout)  # type: ignore[arg-type]
        for layout in ("whole", "streamed")
    )
    assert whole.codes.shape == streamed.codes.shape == (5, 16)
    assert not np.array_equal(whole.codes, streamed.codes)


@pytest.mark.parametrize(
    "text", ["word " * 90, "x" * 600, "http://example.com/" + "a/b?c=d&" * 250, "字" * 400]
)
def test_long_texts_are_cut_and_every_piece_is_spoken(tiny: Engine, text: str) -> None:
    seen: list[int] = []
    speech = tiny.synthesize(text, seed=1, max_frames=3, segment_chars=200, on_frame=seen.append)
    assert speech.codes.shape == (3, 16)
    assert seen[-1] == 3


# ---- pauses ----


def test_pauses_are_exact_zeros_between_the_speech_around_them(ending: Engine) -> None:
    text = "[pause:10ms]One two three.[pause:400ms]Four five six.[pause:1.5s]"
    speech = ending.synthesize(text, seed=1)
    frames = [len(u) for u in pieces_of(speech.pcm, speech.codes)]
    assert sum(frames) == len(speech.codes)
    assert len(speech.pcm) == 1920 * len(speech.codes) + 24 * (10 + 400 + 1500)
    assert not speech.pcm[: 24 * 10].any()
    assert speech.pcm[24 * 10 :][:1920].any()
    assert not speech.pcm[-24 * 1500 :].any()
    assert speech.finish_reason == "stop"
    assert speech.timings.audio_s == pytest.approx(len(speech.pcm) / 24000)
    assert speech.timings.frames == len(speech.codes)
    # Other lengths of the pause change nothing else.
    other = ending.synthesize(text.replace("400ms", "7ms"), seed=1)
    assert np.array_equal(other.codes, speech.codes)
    assert len(other.pcm) == len(speech.pcm) - 24 * 393


def pieces_of(pcm: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """The codes before and behind the pause of 400 ms, found in the samples."""
    silent = np.flatnonzero(np.convolve(pcm[240:-36000] == 0, np.ones(9600), "valid") == 9600)
    assert len(silent) == 1
    assert silent[0] % 1920 == 0
    return [codes[: silent[0] // 1920], codes[silent[0] // 1920 :]]


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize(
    "text", ["[pause:30ms]One.[pause:1ms][pause:2s]Two. Three.[pause:5ms]", "One is here. Two is here. " * 3]
)
def test_pauses_stream_as_they_are_written_to_a_file(ending: Engine, text: str, chunk: int) -> None:
    options: dict[str, Any] = {"seed": 1, "segment_chars": 30, "segment_pause": 33.5}
    whole = ending.synthesize(text, **options)
    assert len(whole.pcm) > 1920 * len(whole.codes)
    chunks = list(ending.stream(text, chunk_frames=chunk, **options))
    assert np.array_equal(np.concatenate([c.pcm for c in chunks]), whole.pcm)
    assert [c.index for c in chunks] == list(range(len(chunks)))
    last = chunks[-1].speech
    assert last is not None
    assert np.array_equal(last.pcm, whole.pcm)
    company = ending.batch([Request("Hello.", seed=2), Request(text, **options)])[1]
    assert np.array_equal(company.pcm, whole.pcm)


def test_a_limit_that_ends_the_speech_leaves_out_the_pauses_behind_it(ending: Engine) -> None:
    text = "One two three.[pause:400ms]Four five six.[pause:1s]"
    frames = len(ending.synthesize(text, seed=1).codes)
    first = len(ending.synthesize("One two three.", seed=1).codes)
    for limit, pauses in ((1, 0), (first, 0), (first + 1, 400), (frames, 400), (frames + 1, 1400)):
        speech = ending.synthesize(text, seed=1, max_frames=limit)
        assert len(speech.codes) == min(limit, frames)
        assert len(speech.pcm) == 1920 * len(speech.codes) + 24 * pauses
        stream = list(ending.stream(text, seed=1, max_frames=limit))
        assert np.array_equal(np.concatenate([c.pcm for c in stream]), speech.pcm)


def test_a_pause_between_segments_is_added_and_nothing_else(ending: Engine) -> None:
    text = "One is here. Two is here. Three is here."
    plain = ending.synthesize(text, seed=1, segment_chars=15)
    paused = ending.synthesize(text, seed=1, segment_chars=15, segment_pause=250)
    assert np.array_equal(paused.codes, plain.codes)
    assert len(paused.pcm) == len(plain.pcm) + 2 * 24 * 250
    assert np.array_equal(paused.pcm[paused.pcm != 0], plain.pcm[plain.pcm != 0])


def test_without_markup_brackets_are_spoken(tiny: Engine) -> None:
    text = "Say [pause:400ms] so."
    speech = tiny.synthesize(text, seed=1, max_frames=4, markup=False)
    assert len(speech.pcm) == 4 * 1920
    for malformed in ("Say [pause:400] so.", "[pause:9min]"):
        assert len(tiny.synthesize(malformed, seed=1, max_frames=2, markup=False).codes) == 2
    with pytest.raises(EmptyTextError, match="nothing to say"):
        tiny.synthesize("[pause:400ms]")

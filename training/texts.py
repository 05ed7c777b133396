"""Step 3: sentences for the talker that no teacher has to speak.

    python texts.py DATASET WORK [--count 32000]

Writes WORK/texts.jsonl: rows {text, language, phonemes}. A third are training sentences with words exchanged, the rest
are strings of words drawn by (flattened) frequency, with a capital and an end mark. Words: the `wordfreq` package
(CC BY-SA 4.0, Robyn Speer) and the training sentences. Sentences of the held-out split are never made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import common
import numpy as np
import phones
from wordfreq import top_n_list, word_frequency

NAMES = {
    "french": ["Bonjour, je m'appelle Kazeia.", "Je suis Kazeia.", "Kazeia parle français.", "Bonjour Kazeia !",
               "Bonsoir, je m'appelle Kazeia.", "Je m'appelle Kazeia et je parle.", "Salut, c'est Kazeia.",
               "Bonjour, je m'appelle {w}.", "Bonjour, {w}.", "Bonjour, je suis {w} {w}.", "Je m'appelle {w}, et vous ?"],
    "english": ["Hello, my name is Kazeia.", "I am Kazeia.", "Kazeia speaks English.", "Hello Kazeia!",
                "Good morning, my name is Kazeia.", "My name is Kazeia and I can speak.", "Hi, this is Kazeia.",
                "Hello, my name is {w}.", "Hello, {w}.", "Good evening, I am {w} {w}.", "My name is {w}, and yours?"],
}  # fmt: skip
_WORD = {"french": re.compile(r"^[a-zàâäçéèêëîïôöùûüÿœ']+$"), "english": re.compile(r"^[a-z']+$")}


def vocabulary(language: str, known: list[str], size: int = 6000) -> tuple[list[str], np.ndarray]:
    code = {"french": "fr", "english": "en"}[language]
    frequent = [w for w in top_n_list(code, size) if _WORD[language].match(w) and (len(w) > 1 or w in "aàyI")]
    frequent = ["I" if w == "i" and language == "english" else w for w in frequent]
    words = list(dict.fromkeys(frequent + known))
    # Flatter than in life, so that rare words are met at all; words of the spoken sentences are not rare.
    least = dict.fromkeys(known, 3e-06)
    weight = np.array([max(word_frequency(w, code), least.get(w, 1e-7)) for w in words]) ** 0.55
    return words, weight / weight.sum()


def sentence(
    rng: np.random.Generator, language: str, words: list[str], weight: np.ndarray, seeds: list[str]
) -> str:
    def draw() -> str:
        return words[rng.choice(len(words), p=weight)]

    kind = rng.random()
    if kind < 0.04:
        pattern = NAMES[language][rng.integers(len(NAMES[language]))]
        while "{w}" in pattern:
            pattern = pattern.replace("{w}", draw().capitalize(), 1)
        return pattern
    if kind < 0.40:
        parts = seeds[rng.integers(len(seeds))].split(" ")
        for i in range(len(parts)):
            if rng.random() < 0.3 and parts[i].isalpha():
                parts[i] = draw().capitalize() if parts[i][0].isupper() else draw()
        return " ".join(parts)
    parts = [draw() for _ in range(int(rng.integers(2, 10)))]
    if len(parts) > 4 and rng.random() < 0.3:
        parts[int(rng.integers(1, len(parts) - 2))] += ","
    parts[0] = parts[0][0].upper() + parts[0][1:]
    mark = rng.choice([".", ".", ".", ".", "?", "!", ""])
    return " ".join(parts) + (" " if language == "french" and mark in ("?", "!") else "") + str(mark)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("--count", type=int, default=32000, help="per language")
    args = parser.parse_args()
    rng = common.seed_all()
    table = phones.symbols_of(args.dataset, args.work)
    held = {r["text"].lower() for r in common.read_manifest(args.dataset, "held")}
    rows, dropped = [], 0
    for language in common.LANGUAGES:
        seeds = [r["text"] for r in common.read_manifest(args.dataset, "train") if r["language"] == language]
        known = sorted(
            {w for t in seeds for w in re.findall(r"[\w']+", t.lower()) if _WORD[language].match(w)}
        )
        words, weight = vocabulary(language, known)
        made = [sentence(rng, language, words, weight, seeds) for _ in range(args.count)]
        made = [t for t in dict.fromkeys(made) if t.lower() not in held]
        for text, spoken in zip(made, phones.phonemes(made, language), strict=True):
            symbols, _ = common.merge_phones(spoken, [1] * (len(spoken) + 2), language)
            if all(s in table for s in symbols) and len(text) < 90:
                rows.append({"text": text, "language": language, "phonemes": spoken})
            else:
                dropped += 1
    out = Path(args.work) / "texts.jsonl"
    out.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    print(len(rows), "sentences,", dropped, "dropped for a phone without a symbol or for length")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Shared constants and small helpers: paths, the frame grid, phone symbols, the manifest.

Units: samples are at 24 kHz; a frame is 1,920 samples (80 ms), a slot a quarter of it (20 ms), a tick 120 samples (5 ms).
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np

RATE = 24_000
FRAME = 1920
SLOTS = 4
SLOT = FRAME // SLOTS
TICK = 120
UNIT = 600  # samples of one step of the teacher's durations
SEED = 20_261_129

LANGUAGES = ("french", "english")
STREAMS = 16
CODES = 256
# One job, one thread: two such jobs side by side beat one job with two threads.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

PAUSES = ",.?!;:…—"
SILENCE = "_"
_STRESS = "ˈˌ"
_JOIN = "\u0303ː"  # nasal tilde and length belong to the phone before them


def half() -> bool:
    """Whether bfloat16 pays: twice as fast where the machine multiplies it, slower elsewhere."""
    import torch

    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


def work_dir(path: str | Path) -> Path:
    """The folder of intermediate results; made when missing."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_manifest(dataset: str | Path, split: str | None = None) -> list[dict[str, Any]]:
    """The rows of `manifest.jsonl`, in file order; `split` keeps one split."""
    rows = [
        json.loads(line)
        for line in (Path(dataset) / "manifest.jsonl").read_text("utf-8").splitlines()
        if line
    ]
    return [row for row in rows if split is None or row["split"] == split]


def row_name(row: dict[str, Any]) -> str:
    return Path(row["file"]).stem


def seed_all(seed: int = SEED) -> np.random.Generator:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return np.random.default_rng(seed)


def merge_phones(phonemes: str, frames: list[int], language: str) -> tuple[list[str], list[int]]:
    """Characters with durations -> phones with durations (teacher units).

    A stress mark joins the vowel after it, a tilde or length mark the phone before it, a space is shared between its
    neighbours. Symbols carry their language ("f:a"), pauses and silence do not. `frames` has one more entry at each end.
    Returns symbols and durations of the same length, silence first and last.
    """
    if len(frames) != len(phonemes) + 2:
        raise ValueError(f"{len(phonemes)} phonemes need {len(phonemes) + 2} durations, found {len(frames)}")
    tag = language[0] + ":"
    symbols, lengths = [SILENCE], [frames[0]]
    stress, held = "", 0
    for char, length in zip(phonemes, frames[1:-1], strict=True):
        if char in _STRESS:
            stress, held = char, held + length
        elif char in _JOIN and len(symbols) > 1:
            symbols[-1] += char
            lengths[-1] += length
        elif char == " ":
            half = length // 2
            lengths[-1] += half
            held += length - half
        elif char in PAUSES:
            symbols.append({";": ",", ":": ",", "…": ".", "—": ","}.get(char, char))
            lengths.append(length + held)
            stress, held = "", 0
        else:
            symbols.append(tag + stress + char)
            lengths.append(length + held)
            stress, held = "", 0
    symbols.append(SILENCE)
    lengths.append(frames[-1] + held)
    return symbols, lengths

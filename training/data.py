"""The analysed utterances in memory: alignment, features, pitch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import codes
import common
import numpy as np
import phones
import vocoder


@dataclass
class Utterance:
    text: str
    language: str
    name: str
    alignment: codes.Alignment
    mc: np.ndarray  # (ticks, ORDER) float32
    ap: np.ndarray  # (ticks, BANDS) float32
    f0: np.ndarray  # (ticks,) Hz, 0 unvoiced

    def frames(self, shift: int = 0) -> int:
        return -(-(self.alignment.length + shift) // common.FRAME)

    def pitch(self, shift: int = 0) -> np.ndarray:
        """Pitch numbers (frames,) when `shift` samples (whole ticks) of silence come first."""
        return vocoder.lock_pitch(np.pad(self.f0, (shift // common.TICK, 0)), self.frames(shift))

    def encode(self, rng: np.random.Generator, shift: int = 0) -> np.ndarray:
        return codes.encode(self.alignment.shifted(shift), self.pitch(shift), rng)


def align(row: dict, table: dict[str, int], length: int) -> codes.Alignment:
    symbols, units = common.merge_phones(row["phonemes"], row["phoneme_frames"], row["language"])
    starts = np.concatenate([[0], np.cumsum(units)[:-1]]) * common.UNIT - row["trim_offset"]
    return codes.Alignment(np.array([table[s] for s in symbols]), starts, length)


def load(dataset: str, work: str, split: str, limit: int | None = None) -> list[Utterance]:
    """Analysed utterances of a split, in manifest order; those not analysed yet are left out."""
    table = phones.symbols_of(dataset, work)
    found = []
    for row in common.read_manifest(dataset, split):
        path = Path(work) / "feat" / f"{common.row_name(row)}.npz"
        if not path.exists():
            continue
        with np.load(path) as z:
            mc, ap, f0 = (z[k].astype(np.float32) for k in ("mc", "ap", "f0"))
        length = (len(f0) - 1) * common.TICK
        found.append(
            Utterance(
                row["text"], row["language"], common.row_name(row), align(row, table, length), mc, ap, f0
            )
        )
        if limit and len(found) == limit:
            break
    return found


def sample_held(held: list[Utterance], per_language: int) -> list[Utterance]:
    """Evenly spread held-out utterances, the same number of each language."""
    chosen = []
    for language in common.LANGUAGES:
        rows = [u for u in held if u.language == language]
        chosen += rows[:: max(1, len(rows) // per_language)][:per_language]
    return chosen

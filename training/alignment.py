"""Which character a phone comes from: a small monotonic aligner (Viterbi training), and durations and pitch for texts
that were never spoken, borrowed from utterances that were."""

from __future__ import annotations

from collections import Counter, defaultdict

import codes
import common
import data
import numpy as np

_JUMP = np.log([0.25, 0.55, 0.14, 0.04, 0.015, 0.005])


class Aligner:
    """Phones to tokens, both as id lists; emission P(phone | token) from Viterbi counts."""

    def __init__(self, tokens: int = 300) -> None:
        self.log = np.zeros((tokens, common.CODES))

    def path(self, text: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """-> (phones,) token positions, never falling."""
        emission = self.log[text][:, symbols].T  # (phones, tokens)
        n, m = emission.shape
        # A weak pull to the diagonal breaks the symmetry of the first pass.
        drift = np.abs(np.arange(n)[:, None] / max(1, n - 1) - np.arange(m)[None] / max(1, m - 1))
        emission = emission - 6.0 * drift
        score = np.full(m, -1e9)
        score[: min(3, m)] = emission[0, : min(3, m)]
        back = np.zeros((n, m), np.int16)
        for i in range(1, n):
            padded = np.concatenate([np.full(len(_JUMP) - 1, -1e9), score])
            options = np.stack(
                [padded[len(_JUMP) - 1 - j : len(padded) - j] + _JUMP[j] for j in range(len(_JUMP))]
            )
            back[i] = options.argmax(0)
            score = options.max(0) + emission[i]
        at = int(score.argmax())
        out = np.zeros(n, np.int64)
        for i in range(n - 1, -1, -1):
            out[i] = at
            at -= int(back[i, at])
        return out

    def fit(self, pairs: list[tuple[np.ndarray, np.ndarray]], passes: int = 4) -> None:
        for _ in range(passes):
            count = np.full_like(self.log, 0.05)
            for text, symbols in pairs:
                np.add.at(count, (text[self.path(text, symbols)], symbols), 1.0)
            self.log = np.log(count / count.sum(1, keepdims=True))


class Prosody:
    """Durations and pitch contours drawn from the analysed training utterances."""

    def __init__(self, utterances: list[data.Utterance]) -> None:
        self._units: dict[tuple[int, ...], list[float]] = defaultdict(list)
        self._spoken: dict[str, list[data.Utterance]] = defaultdict(list)
        self._edges: list[tuple[int, int]] = []
        self._contour: dict[str, np.ndarray] = {}
        for u in utterances:
            s, starts = u.alignment.symbols, u.alignment.starts
            for i in range(1, len(s) - 1):
                length = float(starts[i + 1] - starts[i]) / common.UNIT
                for key in ((s[i - 1], s[i], s[i + 1]), (s[i], s[i + 1]), (s[i],)):
                    self._units[tuple(int(k) for k in key)].append(length)
            self._edges.append((int(starts[1]), int(u.alignment.length - starts[-1])))
            self._spoken[u.language].append(u)
            self._contour[u.name] = u.pitch()

    def _draw(self, before: int, now: int, after: int, rng: np.random.Generator) -> float:
        for key, least in (((before, now, after), 6), ((now, after), 6), ((now,), 1)):
            found = self._units.get(key)
            if found and len(found) >= least:
                # Near the median: typical durations, a little spread. What cannot be predicted teaches nothing.
                return 0.8 * float(np.median(found)) + 0.2 * found[rng.integers(len(found))]
        return 3.0

    def align(self, symbols: np.ndarray, rng: np.random.Generator) -> codes.Alignment:
        lead, tail = self._edges[rng.integers(len(self._edges))]
        pace = float(rng.uniform(0.97, 1.06))
        units = [
            pace * self._draw(int(symbols[i - 1]), int(symbols[i]), int(symbols[i + 1]), rng)
            for i in range(1, len(symbols) - 1)
        ]
        ends = lead + np.cumsum(np.array(units)) * common.UNIT
        starts = np.concatenate([[0, lead], ends]).astype(np.int64)
        return codes.Alignment(symbols, starts, int(ends[-1]) + max(0, tail))

    def pitch(self, language: str, symbols: np.ndarray, frames: int, rng: np.random.Generator) -> np.ndarray:
        """The contour of a spoken utterance with the same end mark and about as many phones, stretched."""
        pool = self._spoken[language]
        tries = [pool[i] for i in rng.integers(len(pool), size=24)]
        same = [u for u in tries if u.alignment.symbols[-2] == symbols[-2]] or tries
        near = min(same, key=lambda u: abs(len(u.alignment.symbols) - len(symbols)))
        contour = self._contour[near.name]
        return contour[
            np.clip(np.round(np.linspace(0, len(contour) - 1, frames)).astype(int), 0, len(contour) - 1)
        ]


def count_symbols(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Counter[int]:
    return Counter(int(s) for _, symbols in pairs for s in symbols)

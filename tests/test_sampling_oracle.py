"""The sampler against Hugging Face's own processors, live (S01; spec §4.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kazeia.random import Xorshift32
from kazeia.sampling import Sampling, probabilities, sample
from oracle import require

pytestmark = pytest.mark.oracle

require()
import torch  # noqa: E402
from transformers.generation import logits_process as processors  # noqa: E402

END, FIRST_RESERVED, WIDTH = 2150, 2048, 3072

OPTIONS = [
    Sampling(temperature=t, top_k=k, top_p=p, repetition_penalty=r, repetition_window=None)
    for t in (0.1, 0.9, 2.0)
    for p in (0.8, 1.0)
    for k in (0, 1, 3, 50)
    for r in (1.0, 1.05, 2.0)
]


def hugging_face(logits: np.ndarray, history: list[int], o: Sampling, *, warp: bool = True) -> Any:
    """generate()'s chain for the talker, in its order, on one row: scores (V,) float32."""
    end_positions = [i for i in range(FIRST_RESERVED, WIDTH) if i != END]
    chain: list[Any] = []
    if o.repetition_penalty != 1.0:
        chain.append(processors.RepetitionPenaltyLogitsProcessor(o.repetition_penalty))
    chain.append(processors.MinNewTokensLengthLogitsProcessor(0, 2, END))
    chain.append(processors.SuppressTokensLogitsProcessor(end_positions))
    if warp:
        if o.temperature != 1.0:
            chain.append(processors.TemperatureLogitsWarper(o.temperature))
        if o.top_k:
            chain.append(processors.TopKLogitsWarper(o.top_k))
        if o.top_p < 1.0:
            chain.append(processors.TopPLogitsWarper(o.top_p))
    ids = torch.tensor([history], dtype=torch.long)
    scores = torch.from_numpy(logits.copy())[None]
    for step in chain:
        scores = step(ids, scores)
    return scores[0]


def rows() -> list[tuple[np.ndarray, list[int], np.ndarray]]:
    """(logits (3072,), history, allowed (3072,)); rows 0 and 1 of each four still bar the end token."""
    random = np.random.default_rng(11)
    out = []
    for i in range(8):
        logits = (random.standard_normal(WIDTH) * (1.0, 4.0)[i // 4]).astype(np.float32)
        logits[END] = logits.max() + 1
        history = [int(h) for h in random.integers(0, FIRST_RESERVED, (0, 1, 2, 60)[i % 4])]
        allowed = np.arange(WIDTH) < FIRST_RESERVED
        allowed[END] = len(history) >= 2
        out.append((logits, history, allowed))
    return out


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_kept_set_and_probabilities_equal_hugging_face(options: Sampling) -> None:
    for logits, history, allowed in rows():
        scores = hugging_face(logits, history, options)
        want = torch.softmax(scores, dim=-1).numpy()
        got = probabilities(logits, history, options, allowed)
        kept = got > 0
        assert np.array_equal(kept, torch.isfinite(scores).numpy())
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("penalty", [1.0, 1.05, 2.0])
def test_greedy_equals_hugging_face_with_penalty_and_masks(penalty: float) -> None:
    options = Sampling(temperature=0, repetition_penalty=penalty, repetition_window=None)
    for logits, history, allowed in rows():
        want = int(torch.argmax(hugging_face(logits, history, options, warp=False)))
        assert sample(logits, history, options, Xorshift32(1), ~allowed) == want


@pytest.mark.parametrize(("top_k", "top_p"), [(3, 1.0), (50, 1.0), (50, 0.8), (0, 0.8), (0, 0.3)])
def test_ties_and_borders_equal_hugging_face(top_k: int, top_p: float) -> None:
    # Logits on a coarse grid: most ranks are tied, many cumulative masses are simple fractions.
    random = np.random.default_rng(5)
    options = Sampling(temperature=1.0, top_k=top_k, top_p=top_p, repetition_penalty=1.0)
    for levels in (1, 2, 3, 8):
        logits = random.integers(0, levels, WIDTH).astype(np.float32) * np.float32(np.log(2))
        logits[FIRST_RESERVED:] = -np.inf
        scores = hugging_face(logits, [0, 1], options)
        got, want = probabilities(logits, [0, 1], options) > 0, torch.isfinite(scores).numpy()
        if top_p == 1.0:
            assert np.array_equal(got, want)
        else:  # torch.sort leaves open which of equal tokens goes; their number is law
            assert np.array_equal(np.sort(logits[got]), np.sort(logits[want]))

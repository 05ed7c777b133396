"""A second thread for the generator of two cores, where memory gives more to two than to one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kazeia
from kazeia.runtime import memory, threads
from kazeia.runtime.memory import memory_scales
from kazeia.runtime.threads import Threads, widened

BIG, SMALL = 400 << 20, 10 << 20
ONE_EACH = Threads(1, decoders=2)


@pytest.mark.parametrize(
    ("plan", "weights", "scales", "wanted"),
    [
        (ONE_EACH, BIG, True, Threads(2, decoders=2)),
        (ONE_EACH, BIG, False, ONE_EACH),
        (ONE_EACH, SMALL, True, ONE_EACH),
        (Threads(1, side_by_side=False), BIG, True, Threads(1, side_by_side=False)),
        (Threads(3, decoders=4), BIG, True, Threads(3, decoders=4)),
    ],
)
def test_only_one_thread_of_large_weights_is_joined_by_another(
    plan: Threads, weights: int, scales: bool, wanted: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "memory_scales", lambda count: scales)
    assert widened(plan, weights) == wanted


@pytest.mark.parametrize("given", [None, 2, ONE_EACH])
def test_a_plan_that_was_given_stays(
    given: int | Threads | None,
    checkpoint: Callable[[str], Path],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads, "_LARGE", 1)
    monkeypatch.setattr(threads, "memory_scales", lambda count: True)
    with kazeia.load(checkpoint("tiny"), threads=given, warm_up=False) as engine:
        assert engine.threads == (Threads(2, decoders=2) if given is None else ONE_EACH)


@pytest.mark.parametrize(
    ("alone", "together", "scales"), [(1.0, 0.5, True), (1.0, 0.9, False), (1.0, 1.2, False)]
)
def test_it_is_a_matter_of_seconds_for_a_byte(
    alone: float, together: float, scales: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(pool: ThreadPoolExecutor, parts: list[np.ndarray]) -> float:
        return sum(part.nbytes for part in parts) * (alone if len(parts) == 1 else together)

    monkeypatch.setattr(memory, "_BYTES", 1 << 20)
    monkeypatch.setattr(memory, "_seconds", seconds)
    assert memory_scales.__wrapped__(2) is scales


def test_every_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    copy = np.copyto

    def counted(to: np.ndarray, values: np.ndarray) -> None:
        nonlocal read
        read += values.size
        copy(to, values)

    monkeypatch.setattr(np, "copyto", counted)
    memory._read(np.ones(3 * memory._PIECE, np.float32))
    assert read == 3 * memory._PIECE

"""Beginnings of prompts that are remembered give the same numbers as those read anew, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import Engine, Request, Threads
from kazeia.model import Model
from kazeia.runtime.prefix_cache import MOST_POSITIONS, PrefixCache
from kazeia.runtime.talker import Talker

TEXT = "Four and twenty blackbirds."


def model_of(engine: Engine) -> Model:
    assert engine._model is not None
    return engine._model


def rows_for(model: Model, count: int, seed: int = 0) -> np.ndarray:
    width = model.bundle.config.talker.transformer.hidden_size
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


@pytest.fixture
def prefills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all beginnings that are read anew."""
    seen: list[int] = []
    prefill = Talker.prefill

    def count(self: Talker, prompt: np.ndarray, capacity: int = 0) -> Any:
        seen.append(len(prompt))
        return prefill(self, prompt, capacity)

    monkeypatch.setattr(Talker, "prefill", count)
    return seen


@pytest.mark.parametrize("quant", ["f32", "q8", "q4"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_remembered_beginning_is_a_fresh_one(
    load_engine: Callable[..., Engine], quant: str, threads: int
) -> None:
    talker = model_of(load_engine("tiny", quant, Threads(threads))).talker
    reference = model_of(load_engine("tiny", quant, Threads(1))).talker
    rows = rows_for(model_of(load_engine("tiny", quant, Threads(1))), 140)
    for prefix in (1, 8, 9, 33, 64, 65, 120):
        for rest in (1, 2, 7, 20):
            part = rows[: prefix + rest]
            fresh, _, _ = reference.prefill(part[:prefix], 10)
            hidden, logits = (a.copy() for a in reference.read(fresh, part[prefix:]))
            cache = PrefixCache(talker)
            for capacity in (10, 300, 10):  # forgotten the first time, remembered the others
                state = cache.read(part[:prefix], capacity)
                again = talker.read(state, part[prefix:])
                assert np.array_equal(again[0], hidden)
                assert np.array_equal(again[1], logits)
                assert state.cache.lengths == [len(part)]
                assert np.array_equal(
                    state.cache.data[:, :, 0, :, : len(part)], fresh.cache.data[:, :, 0, :, : len(part)]
                )


@pytest.mark.parametrize("quant", ["f32", "q8", "q4"])
@pytest.mark.parametrize("shape", ["tiny", "tiny-1b7"])
def test_speech_does_not_depend_on_what_was_said_before(
    load_engine: Callable[..., Engine], quant: str, shape: str, prefills: list[int]
) -> None:
    engine = load_engine(shape, quant, 2)
    instruct = "Whisper, as if a child slept next door." if shape == "tiny-1b7" else None
    options: dict[str, Any] = {"seed": 1, "max_frames": 6, "voice": "serena", "language": "de"}
    requests = [
        Request(TEXT, instruct=instruct, **options),
        Request("Something else.", instruct=instruct, **options),
        Request(TEXT, instruct=instruct, layout="streamed", **options),
    ]
    model = model_of(engine)
    prefills.clear()  # those of the warming up
    fresh = []
    for request in requests:
        model.prefixes = PrefixCache(model.talker)  # nothing is remembered
        fresh.append(engine.batch([request])[0])
    assert len(prefills) == 3
    for _ in range(2):
        for request, wanted in zip(requests, fresh, strict=True):
            assert np.array_equal(engine.batch([request])[0].pcm, wanted.pcm)
    assert len(prefills) == 3  # the last one's beginning served all the others
    for speech, wanted in zip(engine.batch(requests), fresh, strict=True):
        assert np.array_equal(speech.pcm, wanted.pcm)


def test_what_is_not_the_same_is_not_taken_for_it(tiny: Engine, prefills: list[int]) -> None:
    model = model_of(tiny)
    model.prefixes = PrefixCache(model.talker)
    prefills.clear()
    for options in ({}, {"voice": "ryan"}, {"language": "fr"}, {"language": "fr", "voice": "ryan"}):
        tiny.synthesize(TEXT, seed=1, max_frames=2, **options)  # type: ignore[arg-type]
    assert len(prefills) == 4


def test_memory_is_bounded_and_the_oldest_is_forgotten(tiny: Engine, prefills: list[int]) -> None:
    model = model_of(tiny)
    cache = PrefixCache(model.talker, 20)
    a, b, c = (rows_for(model, 8, seed) for seed in range(3))
    for rows in (a, b, a, c):  # c takes the place of b
        cache.read(rows, 10)
        assert cache.positions <= 20
    assert prefills == [8, 8, 8]
    cache.read(a, 10)
    assert len(prefills) == 3
    cache.read(b, 10)
    assert len(prefills) == 4
    for _ in range(2):
        cache.read(rows_for(model, 21), 10)  # too long to be kept: nothing else is forgotten for it
    assert len(prefills) == 6
    assert cache.positions == 16


def test_what_is_remembered_is_not_touched_by_those_who_go_on(tiny: Engine) -> None:
    model = model_of(tiny)
    cache = PrefixCache(model.talker)
    rows = rows_for(model, 12)
    for _ in range(2):
        state = cache.read(rows[:8], 10)
        before = state.cache.data[:, :, 0, :, :8].copy()
        state.cache.data[...] = np.nan
    assert np.array_equal(cache.read(rows[:8], 10).cache.data[:, :, 0, :, :8], before)


def test_many_threads_may_read_at_once(tiny: Engine) -> None:
    model = model_of(tiny)
    cache = PrefixCache(model.talker, 20)  # room for two of three
    prefixes = [rows_for(model, 8, seed) for seed in range(3)]
    wanted = [model.talker.prefill(rows)[0].cache.data[:, :, 0, :, :8].copy() for rows in prefixes]
    wrong: list[int] = []

    def read(number: int) -> None:
        for k in range(30):
            n = (number + k) % 3
            if not np.array_equal(cache.read(prefixes[n], 10).cache.data[:, :, 0, :, :8], wanted[n]):
                wrong.append(n)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.positions <= 20 <= MOST_POSITIONS


def test_loading_warms_up_unless_told_not_to(checkpoint: Callable[[str], Path]) -> None:
    pcm = []
    for warm in (True, False):
        with kazeia.load(checkpoint("tiny"), quant="q8", warm_up=warm) as engine:
            assert (model_of(engine).prefixes.positions > 0) is warm
            pcm.append(engine.synthesize(TEXT, seed=1, max_frames=4).pcm)
    assert np.array_equal(*pcm)

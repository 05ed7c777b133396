"""Caches and the talker: what is remembered stays as it was, whatever grows, joins or leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia import Engine, Request, generation
from kazeia.checkpoint.config import TransformerConfig
from kazeia.model import Model
from kazeia.runtime.kv_cache import KVCache
from kazeia.runtime.talker import Talker

QUANTS = pytest.mark.parametrize("quant", ["f32", "q8", "q4"])


@pytest.fixture
def model(load_engine: Callable[..., Engine]) -> Callable[..., Model]:
    def model(shape: str = "tiny", quant: str = "f32", threads: int = 1) -> Model:
        opened = load_engine(shape, quant, threads)._model
        assert opened is not None
        return opened

    return model


@pytest.fixture
def config(model: Callable[..., Model]) -> TransformerConfig:
    return model().bundle.config.talker.transformer


def filled(config: TransformerConfig, lengths: list[int], seed: int = 0, capacity: int = 1) -> KVCache:
    cache = KVCache(config, len(lengths), max([capacity, *lengths]))
    cache.data[...] = np.random.default_rng(seed).standard_normal(cache.data.shape).astype(np.float32)
    cache.lengths = list(lengths)
    return cache


def contents(cache: KVCache) -> list[np.ndarray]:
    return [cache.data[:, :, row, :, :length].copy() for row, length in enumerate(cache.lengths)]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("rows", "capacity"), [(1, 1), (3, 5), (3, 65), (5, 64), (8, 1000), (2, 2)])
def test_reserving_keeps_what_is_there(config: TransformerConfig, rows: int, capacity: int) -> None:
    cache = filled(config, [5, 64, 1])
    before = contents(cache)
    cache.reserve(rows, capacity)
    assert cache.lengths == [5, 64, 1]
    assert cache.capacity >= max(64, capacity)
    assert cache.data.shape[2] >= max(3, rows)
    assert same(contents(cache), before)
    data = cache.data
    cache.reserve(rows, capacity)
    assert cache.data is data  # nothing to do, nothing done


def test_appending_takes_row_0_of_the_other(config: TransformerConfig) -> None:
    cache = filled(config, [3, 7], capacity=8)
    for seed, length in enumerate((1, 64, 130, 2), start=1):
        other = filled(config, [length, 5], seed)
        wanted = [*contents(cache), contents(other)[0]]
        cache.append(other)
        assert same(contents(cache), wanted)
    assert cache.lengths == [3, 7, 1, 64, 130, 2]


def test_an_empty_cache_may_be_appended_to(config: TransformerConfig) -> None:
    cache = KVCache(config, 1, 1)
    other = filled(config, [9], 3)
    cache.append(other)
    assert same(contents(cache), contents(other))


@pytest.mark.parametrize("rows", [[], [0], [3], [0, 1, 2, 3], [1, 2], [0, 3], [1, 3], [2]])
def test_keeping_rows_keeps_their_contents_in_order(config: TransformerConfig, rows: list[int]) -> None:
    cache = filled(config, [4, 60, 2, 33])
    wanted = [contents(cache)[row] for row in rows]
    cache.keep(rows)
    assert same(contents(cache), wanted)


def test_rows_grow_by_doubling(config: TransformerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    allocate = KVCache._allocate

    def watched(self: KVCache, rows: int, capacity: int) -> Any:
        made.append((rows, capacity))
        return allocate(self, rows, capacity)

    one, cache = filled(config, [70]), KVCache(config, 1, 1)
    monkeypatch.setattr(KVCache, "_allocate", watched)
    for _ in range(16):
        cache.append(one)
    assert [rows for rows, _ in made] == [1, 2, 4, 8, 16]  # the first for the capacity
    made.clear()
    for capacity in range(70, 1000):
        cache.reserve(16, capacity)
    assert [capacity for _, capacity in made] == [256, 512, 1024]


def test_a_row_that_is_extracted_goes_on_by_itself(config: TransformerConfig) -> None:
    cache = filled(config, [4, 60, 2])
    wanted = contents(cache)[1]
    alone = cache.extract(1)
    cache.data[...] = 0
    assert same(contents(alone), [wanted])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_follows_use_and_not_capacity(config: TransformerConfig) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    cache = KVCache(config, 8, 32_768)
    assert cache.data.nbytes > 300 * 2**20
    for row in range(8):
        cache.data[:, :, row, :, :100] = 1
    assert resident() - before < 16 * 2**20


def test_bindings_are_views_of_the_first_rows(config: TransformerConfig) -> None:
    cache = filled(config, [4, 60, 2])
    views = cache.bindings(2)
    assert len(views) == 2 * config.num_hidden_layers
    for layer in range(config.num_hidden_layers):
        for index, kind in enumerate("kv"):
            view = views[f"{kind}.{layer}"]
            assert view.base is not None
            assert view.flags.c_contiguous
            assert np.shares_memory(view, cache.data)
            assert np.array_equal(view, cache.data[layer, index, :2])


def drive(talker: Talker, inputs: np.ndarray, prompt: int, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Prefill so many rows of inputs, step through the others; the last hidden states and logits."""
    state, hidden, logits = talker.prefill(inputs[:prompt], capacity)
    hiddens, rows = [hidden[-1].copy()], [logits.copy()]
    for row in inputs[prompt:]:
        hidden, step = talker.step(state, row[None])
        hiddens.append(hidden[0].copy())
        rows.append(step[0].copy())
    assert state.cache.lengths == [len(inputs)]
    return np.stack(hiddens), np.stack(rows)


@QUANTS
def test_growing_beyond_the_first_capacity_changes_nothing(model: Callable[..., Model], quant: str) -> None:
    talker = model("tiny", quant).talker
    width = model("tiny", quant).bundle.config.talker.transformer.hidden_size
    inputs = np.random.default_rng(1).standard_normal((200, width)).astype(np.float32)
    hidden, logits = drive(talker, inputs, 20, 400)
    for capacity in (0, 21, 64, 130):
        again = drive(talker, inputs, 20, capacity)
        assert np.array_equal(again[0], hidden)
        assert np.array_equal(again[1], logits)


def test_prefill_and_steps_agree(model: Callable[..., Model]) -> None:
    talker = model().talker
    width = model().bundle.config.talker.transformer.hidden_size
    inputs = np.random.default_rng(2).standard_normal((40, width)).astype(np.float32)
    _, whole, logits = talker.prefill(inputs)
    stepped, rows = drive(talker, inputs, 1, 0)
    assert np.allclose(stepped, whole, rtol=1e-4, atol=1e-4)
    assert np.allclose(rows[-1], logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("quant", ["f32", "q4"])
def test_speech_with_a_tiny_first_capacity_is_the_same(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, quant: str
) -> None:
    engine = load_engine("tiny", quant)
    requests = [Request("Hello. " * n, seed=n, max_frames=10) for n in (8, 7, 9, 1)]
    wanted = engine.batch(requests)
    monkeypatch.setattr(generation, "_FIRST_CAPACITY", 1)
    sizes: set[int] = set()
    allocate = KVCache._allocate

    def watched(self: KVCache, rows: int, capacity: int) -> Any:
        data = allocate(self, rows, capacity)
        sizes.add(data.shape[4])
        return data

    monkeypatch.setattr(KVCache, "_allocate", watched)
    for speech, other in zip(engine.batch(requests), wanted, strict=True):
        assert np.array_equal(speech.pcm, other.pcm)
    assert {64, 128} <= sizes  # it did grow


@QUANTS
def test_nothing_is_read_from_memory_that_was_never_written(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, quant: str
) -> None:
    # Caches are not cleared: NaN in the unused part must not reach a single bit.
    engine = load_engine("tiny", quant)
    requests = [
        Request("Hi.", seed=1, max_frames=9),
        Request("Hello there you, how are you. " * 3, seed=2, max_frames=20),
        Request("x", seed=3, max_frames=14),
    ]
    wanted = engine.batch(requests)
    allocate = KVCache._allocate

    def poisoned(self: KVCache, rows: int, capacity: int) -> Any:
        data = allocate(self, rows, capacity)
        data[...] = np.nan
        return data

    monkeypatch.setattr(KVCache, "_allocate", poisoned)
    monkeypatch.setattr(generation, "_FIRST_CAPACITY", 1)
    for speech, other in zip(engine.batch(requests), wanted, strict=True):
        assert np.array_equal(speech.pcm, other.pcm)


# ---- the code predictor ----


def greedy(model: Model, hidden: np.ndarray, code0: np.ndarray) -> np.ndarray:
    def choose(row: int, logits: np.ndarray) -> int:
        return int(logits.argmax())

    return model.predictor.frame(model.predictor.new_state(), hidden, code0, choose)


@pytest.mark.parametrize("shape", ["tiny", "tiny-1b7"])
@QUANTS
def test_a_frame_of_many_rows_is_each_row_predicted_alone(
    model: Callable[..., Model], shape: str, quant: str
) -> None:
    opened = model(shape, quant)
    width = opened.bundle.config.talker.transformer.hidden_size
    hidden = np.random.default_rng(4).standard_normal((5, width)).astype(np.float32)
    code0 = np.array([0, 127, 5, 5, 64])
    frames = greedy(opened, hidden, code0)
    assert frames.shape == (5, 16)
    assert np.array_equal(frames[:, 0], code0)
    assert frames.min() >= 0
    assert frames.max() < 128
    for row in range(5):
        assert np.array_equal(opened.predictor.predict(hidden[row], int(code0[row])), frames[row, 1:])


@QUANTS
def test_forced_logits_are_those_that_led_to_the_codes(model: Callable[..., Model], quant: str) -> None:
    predictor = model("tiny", quant).predictor
    width = model("tiny", quant).bundle.config.talker.transformer.hidden_size
    hidden = np.random.default_rng(5).standard_normal(width).astype(np.float32)
    codes = np.array([17, *predictor.predict(hidden, 17)])
    logits = predictor.logits(hidden, codes)
    assert logits.shape == (15, 128)
    assert np.array_equal(logits.argmax(-1), codes[1:])
    # Only what comes after a changed code may change.
    for place in (1, 7, 15):
        changed = codes.copy()
        changed[place] = (changed[place] + 1) % 128
        other = predictor.logits(hidden, changed)
        assert np.array_equal(other[:place], logits[:place])
        if place < 15:
            assert not np.array_equal(other[place], logits[place])


def test_a_state_is_used_again_and_again_at_any_size(model: Callable[..., Model]) -> None:
    opened = model()
    width = opened.bundle.config.talker.transformer.hidden_size
    draw = np.random.default_rng(6)
    state = opened.predictor.new_state()
    for rows in (1, 3, 3, 1, 8, 2):
        hidden = draw.standard_normal((rows, width)).astype(np.float32)
        code0 = draw.integers(0, 128, rows)
        again = opened.predictor.frame(state, hidden, code0, lambda row, logits: int(logits.argmax()))
        assert np.array_equal(again, greedy(opened, hidden, code0))


def test_greedy_speech_is_what_talker_and_predictor_say_by_themselves(tiny: Engine) -> None:
    from kazeia import Sampling

    model = tiny._model
    assert model is not None
    plain = Sampling(temperature=0, repetition_penalty=1)
    speech = tiny.synthesize("Hello.", max_frames=6, sampling=plain, predictor_sampling=plain)
    prompt = model.prompts.build("Hello.", tiny.voices[0], None)
    state, hidden, logits = model.talker.prefill(prompt.rows)
    last = hidden[-1]
    for frame in range(6):
        code0 = int(logits[:128].argmax())  # the end is never likely in this model
        codes = np.array([code0, *model.predictor.predict(last, code0)])
        assert np.array_equal(codes, speech.codes[frame])
        embeds = model.predictor.embed(codes) + prompt.text_row(frame)
        hiddens, rows = model.talker.step(state, embeds[None])
        last, logits = hiddens[0].copy(), rows[0].copy()


def test_the_next_input_is_the_sum_of_all_sixteen_vectors(model: Callable[..., Model]) -> None:
    opened = model("tiny-1b7")
    codec = np.load(opened.bundle.path / "codec_embedding.npy")
    own = np.load(opened.bundle.path / "predictor_embedding.npy")
    codes = np.random.default_rng(8).integers(0, 128, 16)
    wanted = codec[codes[0]].astype(np.float64) + sum(
        own[k, codes[k + 1]].astype(np.float64) for k in range(15)
    )
    assert np.allclose(opened.predictor.embed(codes), wanted, rtol=1e-5, atol=1e-5)
    assert np.array_equal(np.load(opened.bundle.path / "codec_embedding.npy"), codec)  # not added in place

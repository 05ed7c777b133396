"""The runaway guard: attractors are caught, speech is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import Engine, OptionError, Request, RunawayGuard
from kazeia.generation import FrameLoop, Utterance
from kazeia.random import derive_streams
from kazeia.runaway import choose_guard

SMALL = RunawayGuard(window=12, distinct=1, period=3, retries=0)
GUARD = RunawayGuard()
TEXT = "Hello there."


def speechlike(count: int, seed: int = 0, held: int = 1) -> list[int]:
    """Codes that change every `held` frames, as slow speech does."""
    codes = np.random.default_rng(seed).integers(0, 2048, -(-count // held))
    return [int(code) for code in codes.repeat(held)[:count]]


def caught_at(guard: RunawayGuard, codes: Sequence[int]) -> int | None:
    return next((n for n in range(len(codes) + 1) if guard.catches(codes[:n])), None)


# ---- what is caught ----


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 12, 24, 25])
def test_repetition_is_caught_after_a_whole_window_of_it(period: int) -> None:
    before = speechlike(60, seed=1)
    loop = speechlike(period, seed=2) * 200
    found = caught_at(GUARD, before + loop)
    assert found is not None
    assert 60 + GUARD.window - GUARD.distinct < found <= 60 + GUARD.window
    if period > GUARD.distinct:
        assert found == 60 + GUARD.window


@pytest.mark.parametrize("period", [26, 40, 99])
def test_longer_periods_are_not_its_business(period: int) -> None:
    assert caught_at(GUARD, speechlike(period) * 20) is None


@pytest.mark.parametrize("distinct", [1, 2, 3, 4])
def test_few_codes_in_any_order_are_caught(distinct: int) -> None:
    rng = np.random.default_rng(3)
    hum = [int(code) for code in rng.integers(0, distinct, 400)]
    found = caught_at(GUARD, speechlike(50) + hum)
    assert found is not None
    assert found <= 50 + GUARD.window


# ---- what is not ----


@pytest.mark.parametrize("held", [1, 2, 4, 8, 16])
def test_slow_speech_is_never_caught(held: int) -> None:
    # Each sound held for up to 1.3 s.
    for seed in range(5):
        assert caught_at(GUARD, speechlike(1500, seed, held)) is None


@pytest.mark.parametrize("seconds", [1, 3, 7])
def test_a_long_pause_is_not_caught(seconds: float) -> None:
    pause = [5] * int(seconds * 12.5)
    assert caught_at(GUARD, speechlike(80, 1) + pause + speechlike(80, 2) + pause + speechlike(9, 3)) is None


def test_a_refrain_with_one_different_code_is_not_caught() -> None:
    refrain = speechlike(25)
    rng = np.random.default_rng(0)
    codes: list[int] = []
    for _ in range(40):
        codes += refrain
        codes[-1 - int(rng.integers(25))] = int(rng.integers(2048))
    assert caught_at(GUARD, codes) is None


def test_nothing_is_caught_within_the_window_or_when_switched_off() -> None:
    assert not GUARD.catches([])
    assert not GUARD.catches([1] * 99)
    assert GUARD.catches([1] * 100)
    off = RunawayGuard(distinct=0, period=0)
    assert not off.catches([1] * 5000)
    assert RunawayGuard(distinct=1, period=0).catches([1] * 100)
    assert RunawayGuard(distinct=0, period=1).catches([1] * 100)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("window", v) for v in (7, 10_001, 1.5, True, "9", None)),
        *(("distinct", v) for v in (-1, 26, 1.5, True, None)),
        *(("period", v) for v in (-1, 26, 1.5, True, None)),
        *(("retries", v) for v in (-1, 11, 1.5, True, None)),
    ],
)
def test_impossible_values_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{field} is"):
        RunawayGuard(**{field: value})  # type: ignore[arg-type]


def test_random_weights_have_no_guard_unless_asked() -> None:
    assert choose_guard("auto", is_random=False) == RunawayGuard()
    assert choose_guard("auto", is_random=True) is None
    assert choose_guard(None, is_random=False) is None
    assert choose_guard(SMALL, is_random=True) is SMALL
    for wrong in ("on", True, 3, RunawayGuard):
        with pytest.raises(OptionError, match="guard is"):
            choose_guard(wrong, is_random=False)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="guard is"):
            kazeia.load("nowhere", guard=wrong)  # type: ignore[arg-type]


# ---- in the engine ----


def guarded(checkpoint: Callable[[str], Path], guard: RunawayGuard | None, threads: int = 2) -> Engine:
    return kazeia.load(checkpoint("tiny"), quant="f32", threads=threads, guard=guard)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How many more utterances get stuck on one code, by the number of frames at which they do."""
    from kazeia import generation

    draw, left, stuck = generation.sample, dict[int, int](), list[list[int]]()

    def sample(logits: Any, history: Any, *rest: Any) -> int:
        code: int = draw(logits, history, *rest)
        if rest[-1] == "talker logits" and left.get(len(history), 0) > 0:
            left[len(history)] -= 1
            stuck.append(history)
        return 7 if any(history is one for one in stuck) else code

    monkeypatch.setattr(generation, "sample", sample)
    return left


def test_the_default_guard_leaves_random_speech_as_it_is(
    checkpoint: Callable[[str], Path], tiny: Engine
) -> None:
    assert tiny.guard == RunawayGuard()
    assert kazeia.load("random:tiny", quant="f32").guard is None
    with guarded(checkpoint, None) as engine:
        text = "A text that is long enough to go beyond the window of the guard."
        free, held = engine.synthesize(text, seed=1), tiny.synthesize(text, seed=1)
        assert len(free.codes) > 250
        assert np.array_equal(free.pcm, held.pcm)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_ends_where_the_window_is_full(
    checkpoint: Callable[[str], Path], loops: dict[int, int], threads: int
) -> None:
    with guarded(checkpoint, RunawayGuard(window=12, distinct=1, period=3, retries=5), threads) as engine:
        loops[9] = 99
        chunks = list(engine.stream(TEXT, seed=1, max_frames=60, chunk_frames=4))
        speech = chunks[-1].speech
        assert speech is not None
        assert speech.finish_reason == "runaway"
        assert len(speech.codes) == 9 + 12
        assert np.array_equal(np.concatenate([c.pcm for c in chunks]), speech.pcm)
        loops.clear()
        whole = engine.synthesize(TEXT, seed=1, max_frames=60)
        assert np.array_equal(speech.codes[:9], whole.codes[:9])  # what came before the loop is kept
        assert whole.finish_reason == "limit"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_is_begun_anew_with_random_numbers_of_the_same_seed(
    checkpoint: Callable[[str], Path], loops: dict[int, int], threads: int
) -> None:
    guard = RunawayGuard(window=12, distinct=1, period=3, retries=2)
    with guarded(checkpoint, guard, threads) as engine:
        loops[9] = 1  # the first attempt is stuck, the second is not
        speech = engine.synthesize(TEXT, seed=1, max_frames=40)
        assert speech.finish_reason == "limit"
        assert len(speech.codes) == 40
        assert len(speech.pcm) == 40 * 1920
        assert speech.seed == 1
        loops.clear()
        first = engine.synthesize(TEXT, seed=1, max_frames=40)
        assert not np.array_equal(first.codes[:5], speech.codes[:5])
        loops[9] = 1  # and the same again, bit for bit
        again = engine.synthesize(TEXT, seed=1, max_frames=40)
        assert np.array_equal(again.pcm, speech.pcm)
        # It is what those random numbers say.
        loops.clear()
        model = engine._model
        assert model is not None
        u = Utterance(
            model.prompts.build(TEXT, engine.voices[0], None),
            engine.talker_sampling(),
            engine.predictor_sampling(),
            derive_streams(1, 0, 1),
            40,
        )
        loop = FrameLoop(model.talker, model.predictor, model.bundle.config.talker)
        loop.join(u)
        while len(loop):
            loop.step()
        assert np.array_equal(np.stack(u.codes), speech.codes)


def test_after_the_retries_it_ends(checkpoint: Callable[[str], Path], loops: dict[int, int]) -> None:
    guard = RunawayGuard(window=12, distinct=1, period=3, retries=2)
    with guarded(checkpoint, guard) as engine:
        loops[9] = 99
        frames: list[int] = []
        speech = engine.synthesize(TEXT, seed=1, max_frames=60, on_frame=frames.append)
        assert speech.finish_reason == "runaway"
        assert len(speech.codes) == 21
        assert loops[9] == 99 - 3
        assert frames.count(21) >= 1
        assert len(speech.pcm) == 21 * 1920


def test_a_retry_leaves_company_and_other_segments_as_they_are(
    checkpoint: Callable[[str], Path], loops: dict[int, int]
) -> None:
    guard = RunawayGuard(window=12, distinct=1, period=3, retries=2)
    text = "One two three. Four five six. Seven eight nine."
    with guarded(checkpoint, guard) as engine:
        request = Request(text, seed=1, segment_chars=15, max_frames=50)
        other = Request(TEXT, seed=2, max_frames=33)
        loops[9] = 1  # the first row of the batch, that is the first segment
        speech, company = engine.batch([request, other])
        loops.clear()
        assert np.array_equal(company.pcm, engine.batch([other])[0].pcm)
        assert speech.finish_reason == "limit"
        assert len(speech.codes) == 50
        assert len(speech.pcm) == 50 * 1920


def test_two_draws_of_one_seed_are_unrelated() -> None:
    drawn = {
        derive_streams(seed, segment, attempt)[0].next_u32()
        for seed in range(5)
        for segment in range(5)
        for attempt in range(5)
    }
    assert len(drawn) == 125
    assert derive_streams(3, 2, 0)[1].state == derive_streams(3, 2)[1].state

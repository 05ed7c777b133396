"""The sampler against an independent float64 reference, and its guards (spec §4.1)."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

from kazeia.errors import GenerationError, OptionError
from kazeia.random import Xorshift32
from kazeia.sampling import (
    OFFICIAL_PREDICTOR,
    OFFICIAL_TALKER,
    PREDICTOR_DEFAULTS,
    TALKER_DEFAULTS,
    Sampling,
    probabilities,
    resolve_sampling,
    sample,
    top_k_ids,
    top_p_keep,
)

PLAIN = Sampling(temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)

# S01's table: every combination of these.
OPTIONS = [
    Sampling(temperature=t, top_k=k, top_p=p, repetition_penalty=r, repetition_window=None)
    for t in (0.1, 0.9, 2.0)
    for p in (0.8, 1.0)
    for k in (0, 3, 50)
    for r in (1.0, 1.05, 2.0)
]


def table_rows(vocabulary: int = 96, count: int = 24) -> list[tuple[np.ndarray, list[int], np.ndarray]]:
    """(logits float32, history, allowed) of many tempers; half of the logits are negative."""
    random = np.random.default_rng(20)
    rows = []
    for i in range(count):
        logits = (random.standard_normal(vocabulary) * (0.5, 3.0, 12.0)[i % 3]).astype(np.float32)
        history = [int(h) for h in random.integers(0, vocabulary, (0, 1, 7, 40)[i % 4])]
        allowed = random.random(vocabulary) < (1.0, 0.7)[i % 2]
        allowed[0] = True
        rows.append((logits, history, allowed))
    return rows


def reference(logits: np.ndarray, history: list[int], o: Sampling, allowed: np.ndarray) -> np.ndarray:
    """The same law written the slow way: one token at a time, sets found by counting."""
    score = {i: float(x) for i, x in enumerate(logits)}
    for i in set(history):
        score[i] = score[i] * o.repetition_penalty if score[i] < 0 else score[i] / o.repetition_penalty
    score = {i: s / o.temperature for i, s in score.items() if allowed[i]}
    if o.top_k:
        kth = sorted(score.values(), reverse=True)[min(o.top_k, len(score)) - 1]
        score = {i: s for i, s in score.items() if s >= kth}
    best = max(score.values())
    weight = {i: math.exp(s - best) for i, s in score.items()}
    total = math.fsum(weight.values())
    if o.top_p < 1:
        kept, mass = {}, 0.0
        for i in sorted(weight, key=lambda i: weight[i], reverse=True):  # until the mass reaches p
            if mass >= o.top_p:
                break
            kept[i] = weight[i]
            mass += weight[i] / total
        weight, total = kept, math.fsum(kept.values())
    out = np.zeros(len(logits))
    for i, w in weight.items():
        out[i] = w / total
    return out


# ---- S01 ----


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_kept_set_and_probabilities_equal_the_reference(options: Sampling) -> None:
    for logits, history, allowed in table_rows():
        got = probabilities(logits, history, options, allowed)
        want = reference(logits, history, options, allowed)
        assert np.array_equal(got > 0, want > 0)
        # Scores are float32, so their exponentials carry the rounding of the largest score.
        largest = float(np.abs(logits).max()) * options.repetition_penalty / options.temperature
        np.testing.assert_allclose(got, want, rtol=2**-22 * max(1.0, largest), atol=1e-300)
        assert got.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "options", [Sampling(top_k=1), Sampling(temperature=0), Sampling(temperature=0, top_k=1)]
)
def test_greedy_is_the_first_maximum_after_penalty_and_masks(options: Sampling) -> None:
    for logits, history, allowed in table_rows():
        score = logits.astype(np.float64)
        for i in set(history):
            score[i] = score[i] * 1.05 if score[i] < 0 else score[i] / 1.05
        score[~allowed] = -np.inf
        token = sample(logits, history, options.replace(repetition_window=None), Xorshift32(1), ~allowed)
        assert token == int(np.argmax(score))
        chosen = probabilities(logits, history, options.replace(repetition_window=None), allowed)
        assert chosen[token] == 1.0
        assert chosen.sum() == 1.0


def test_greedy_takes_the_lowest_id_of_equal_maxima_and_draws_nothing() -> None:
    rng = Xorshift32(5)
    assert sample(np.array([0, 7, 7, 7], np.float32), [], Sampling(temperature=0), rng) == 1
    assert sample(np.array([0, 7, 7, 7], np.float32), [1], Sampling(top_k=1), rng) == 2
    assert rng.state == 5


def test_worked_example_of_the_penalty_and_temperature() -> None:
    # A seen +4.2 becomes 4.0 then 4.444…; a seen -4.2 becomes -4.41 then -4.9 (spec §4.2).
    logits = np.array([4.2, -4.2, 0.0], np.float32)
    got = probabilities(logits, [0, 1], Sampling(top_k=0, repetition_window=None))
    want = np.exp([4.0 / 0.9, -4.41 / 0.9, 0.0])
    np.testing.assert_allclose(got, want / want.sum(), rtol=1e-6)


def test_an_id_seen_often_is_penalised_once() -> None:
    logits = np.array([2.0, -2.0, 1.0], np.float32)
    options = PLAIN.replace(repetition_penalty=2.0)
    assert np.array_equal(
        probabilities(logits, [0, 0, 1, 1, 1], options), probabilities(logits, [0, 1], options)
    )


@pytest.mark.parametrize(
    ("window", "penalised"),
    [(None, {0, 1, 2}), (0, set()), (1, {2}), (2, {1, 2}), (3, {0, 1, 2}), (99, {0, 1, 2})],
)
def test_only_the_last_ids_of_the_window_are_penalised(window: int | None, penalised: set[int]) -> None:
    logits = np.ones(4, np.float32)
    got = probabilities(logits, [0, 1, 2], PLAIN.replace(repetition_penalty=2.0, repetition_window=window))
    assert {i for i in range(3) if got[i] < got[3]} == penalised


def test_penalty_comes_before_top_k() -> None:
    # Without the penalty id 0 would be the best of three; with it, it falls out of the top 2.
    got = probabilities(
        np.array([3.0, 2.5, 2.0], np.float32), [0], PLAIN.replace(repetition_penalty=2.0, top_k=2)
    )
    assert list(got > 0) == [False, True, True]


def test_masked_ids_take_no_place_in_top_k_and_are_never_drawn() -> None:
    logits = np.arange(10, dtype=np.float32)
    suppress = logits >= 7
    got = probabilities(logits, [], PLAIN.replace(top_k=2), ~suppress)
    assert list(np.flatnonzero(got)) == [5, 6]
    rng = Xorshift32(3)
    assert {sample(logits, [], PLAIN.replace(top_k=2), rng, suppress) for _ in range(200)} == {5, 6}


@pytest.mark.parametrize("penalty", [1.0, 1.05])
def test_end_token_masked_by_a_mask_wins_otherwise(penalty: float) -> None:
    logits = np.zeros(3072, np.float32)
    logits[2150] = 50.0
    suppress = np.zeros(3072, bool)
    suppress[2048:] = True
    options = Sampling(repetition_penalty=penalty)
    assert sample(logits, [], options, Xorshift32(1), suppress) < 2048
    suppress[2150] = False
    assert sample(logits, [], options, Xorshift32(1), suppress) == 2150


# ---- ties and borders ----


@pytest.mark.parametrize(
    ("k", "kept"), [(1, [1, 3]), (2, [1, 3]), (3, [0, 1, 2, 3, 4]), (5, [0, 1, 2, 3, 4])]
)
def test_top_k_keeps_every_tie_with_the_kth(k: int, kept: list[int]) -> None:
    scores = np.array([4, 9, 4, 9, 4, 1], np.float32)
    assert list(top_k_ids(scores, k)) == kept


@pytest.mark.parametrize("k", [0, 6, 7, 10**6])
def test_top_k_off_or_too_large_keeps_all(k: int) -> None:
    assert list(top_k_ids(np.array([4, 9, 4, 9, 4, 1], np.float32), k)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("weights", "p", "kept"),
    [
        ([1, 1, 1, 1], 0.5, [2, 3]),  # cumulative 0.25, 0.5 <= 0.5 both go; lower ids first
        ([1, 1, 1, 1, 1], 0.8, [1, 2, 3, 4]),  # 0.2 <= 1 - 0.8 only once rounded to float32
        ([5, 3, 2], 0.5, [0]),
        ([5, 3, 2], 0.51, [0, 1]),
        ([5, 3, 2], 1e-9, [0]),
        ([1, 0, 0], 0.9, [0]),
        ([7], 0.1, [0]),
    ],
)
def test_top_p_keeps_the_crossing_token_and_at_least_one(
    weights: list[float], p: float, kept: list[int]
) -> None:
    assert list(np.flatnonzero(top_p_keep(np.array(weights, float), p))) == kept


# ---- sample() and its distribution ----


@pytest.mark.parametrize(
    "options", [OPTIONS[0], Sampling(), Sampling(top_k=3), Sampling(top_p=0.8), PLAIN], ids=str
)
def test_sample_is_the_inverse_of_the_cumulative_distribution(options: Sampling) -> None:
    for logits, history, allowed in table_rows(count=12):
        chances = probabilities(logits, history, options, allowed)
        rng, twin = Xorshift32(77), Xorshift32(77)
        for _ in range(25):
            u = twin.uniform()
            running = itertools.accumulate(chances)
            want = next(token for token, mass in enumerate(running) if mass > u)
            assert sample(logits, history, options, rng, ~allowed) == want


def test_frequencies_follow_the_probabilities() -> None:
    logits = np.array([1.0, 2.0, -1.0, 0.5, 3.0, 2.9, -4.0, 0.0], np.float32)
    options = Sampling(temperature=1.3, top_k=6, repetition_window=None)
    chances = probabilities(logits, [1, 2], options)
    rng, draws = Xorshift32(2463534242), 20_000
    counts = np.bincount([sample(logits, [1, 2], options, rng) for _ in range(draws)], minlength=8)
    assert counts[chances == 0].sum() == 0
    expected = chances[chances > 0] * draws
    chi_square = float(((counts[chances > 0] - expected) ** 2 / expected).sum())
    assert chi_square < 20.5  # 5 degrees of freedom: p = 0.001


class _FixedDraw(Xorshift32):
    def __init__(self, u: float) -> None:
        super().__init__(1)
        self.u = u

    def uniform(self) -> float:
        return self.u


@pytest.mark.parametrize(("u", "token"), [(0.0, 1), (0.49, 1), (0.5, 3), (1 - 2**-24, 3)])
def test_extreme_draws_never_reach_a_token_without_weight(u: float, token: int) -> None:
    logits = np.array([-np.inf, 2.0, -np.inf, 2.0, -np.inf], np.float32)
    assert sample(logits, [], PLAIN, _FixedDraw(u)) == token


def test_a_rows_token_depends_on_nothing_but_the_row() -> None:
    rows = np.random.default_rng(3).standard_normal((8, 2048)).astype(np.float32)
    alone = [sample(row.copy(), [], Sampling(), Xorshift32(9)) for row in rows]
    # In company: views into a batch, every second row, a Fortran-ordered batch.
    assert [sample(rows[i], [], Sampling(), Xorshift32(9)) for i in range(8)] == alone
    assert [sample(np.asfortranarray(rows)[i], [], Sampling(), Xorshift32(9)) for i in range(8)] == alone


def test_the_callers_row_is_left_alone() -> None:
    row = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    row.flags.writeable = False
    before = row.copy()
    sample(row, [1, 2, 3], Sampling(top_p=0.9), Xorshift32(1), row > 1)
    assert np.array_equal(row, before)


# ---- S02: the guards ----

ALL_BUT_ONE = np.full(50, -np.inf, np.float32)
ALL_BUT_ONE[17] = -3.0


@pytest.mark.parametrize(
    "options", [PLAIN, Sampling(), Sampling(top_p=0.5), Sampling(temperature=0), Sampling(top_k=3)]
)
def test_a_single_finite_logit_is_always_drawn(options: Sampling) -> None:
    assert sample(ALL_BUT_ONE, [17], options, Xorshift32(1)) == 17


def test_equal_logits_are_a_uniform_draw() -> None:
    np.testing.assert_allclose(probabilities(np.full(8, 3.0, np.float32), [], Sampling()), np.full(8, 1 / 8))


@pytest.mark.parametrize("temperature", [1e-9, 1e-44, 5e-324, 1e-300])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e37, -1.0])
def test_a_vanishing_temperature_gives_the_maximum_without_overflow(temperature: float, scale: float) -> None:
    logits = (np.array([0.5, 1.0, 2.0, 1.5], np.float64) * scale).astype(np.float32)
    options = PLAIN.replace(temperature=temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = probabilities(logits, [], options)
    assert got[int(np.argmax(logits))] == 1.0


def test_huge_finite_logits_and_fill_values_do_not_overflow() -> None:
    low = np.finfo(np.float32).min
    got = probabilities(np.array([low, 1.0, -low, -low], np.float32), [0], Sampling(temperature=0.5))
    np.testing.assert_array_equal(got, [0, 0, 0.5, 0.5])
    got = probabilities(np.array([low, 1.0, 1.0], np.float32), [0], Sampling(temperature=0.5))
    np.testing.assert_array_equal(got, [0, 0.5, 0.5])


@pytest.mark.parametrize("options", [PLAIN, Sampling(), Sampling(top_p=0.5), Sampling(temperature=0)])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([np.nan, np.nan], "2 NaN and 0 \\+inf"),
        ([np.inf, 1], "0 NaN and 1 \\+inf"),
        ([np.nan, np.inf], "1 NaN and 1 \\+inf"),
    ],
)
def test_unusable_logits_are_a_named_error_not_a_token(
    options: Sampling, bad: list[float], said: str
) -> None:
    logits = np.array([0.0, *bad, 5.0], np.float32)
    with pytest.raises(GenerationError, match=f"talker, frame 12: {said} among 4 allowed logits"):
        sample(logits, [0], options, Xorshift32(1), None, "talker, frame 12")


def test_unusable_logits_under_the_mask_do_no_harm() -> None:
    logits = np.array([0.0, np.nan, np.inf, 5.0], np.float32)
    suppress = ~np.isfinite(logits)
    assert sample(logits, [], Sampling(temperature=0), Xorshift32(1), suppress) == 3


@pytest.mark.parametrize("suppress", [None, np.array([True, False, False])])
def test_no_finite_logit_is_a_named_error(suppress: np.ndarray | None) -> None:
    logits = np.array([-np.inf if suppress is None else 1.0, -np.inf, -np.inf], np.float32)
    with pytest.raises(GenerationError, match=r"predictor: all . allowed logits are -inf"):
        sample(logits, [], Sampling(), Xorshift32(1), suppress, "predictor")


BAD_NUMBERS = [True, "0.9", None, float("nan"), float("inf"), -1, 10**400, [1.0]]
BAD_OPTIONS = [
    *[("temperature", v) for v in [*BAD_NUMBERS, -1e-9]],
    *[("top_p", v) for v in [*BAD_NUMBERS, 0, 1.5, 1.0000001]],
    *[("repetition_penalty", v) for v in [*BAD_NUMBERS, 0, 1e-40, 1e40]],
    *[("top_k", v) for v in [True, "50", None, 50.0, float("nan"), -1, [1]]],
    *[("repetition_window", v) for v in [True, "16", 16.0, float("nan"), -1, [1]]],
]


@pytest.mark.parametrize(("name", "value"), BAD_OPTIONS, ids=lambda v: repr(v)[:12])
def test_bad_options_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"^{name} is "):
        Sampling(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=f"^{name} is "):
        Sampling().replace(**{name: value})


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown sampling option top_q; there are: temperature, top_k"):
        Sampling().replace(top_q=3)


def test_numbers_of_other_kinds_become_plain_ones() -> None:
    built = Sampling(temperature=1, top_k=np.int64(5), top_p=np.float32(0.5), repetition_penalty=2)
    assert built == Sampling(temperature=1.0, top_k=5, top_p=0.5, repetition_penalty=2.0)
    assert [type(v) for v in (built.temperature, built.top_k, built.top_p)] == [float, int, float]


def test_defaults_are_the_published_ones() -> None:
    assert Sampling(0.9, 50, 1.0, 1.05, 64) == TALKER_DEFAULTS
    assert Sampling(0.9, 50, 1.0, 1.05, 16) == PREDICTOR_DEFAULTS
    assert Sampling(0.9, 50, 1.0, 1.05, None) == OFFICIAL_TALKER
    official = OFFICIAL_PREDICTOR
    assert (official.temperature, official.top_k, official.top_p) == (0.9, 50, 1.0)
    assert official.repetition_penalty == 1.0


# ---- resolve_sampling ----

ENVIRON = {
    "KZTTS_TEMP": "0.5",
    "KZTTS_TOPK": "7",
    "KZTTS_TOPP": "0.25",
    "KZTTS_REPP": "1.5",
    "KZTTS_CP_TEMP": "2",
}


def test_argument_overrides_environment_overrides_base() -> None:
    base, explicit = Sampling(temperature=0.1, repetition_window=3), Sampling(temperature=0.2)
    assert resolve_sampling(explicit, "KZTTS_", base, ENVIRON) is explicit
    assert resolve_sampling(None, "KZTTS_", base, ENVIRON) == Sampling(0.5, 7, 0.25, 1.5, 3)
    assert resolve_sampling(None, "KZTTS_CP_", base, ENVIRON) == base.replace(temperature=2)
    assert resolve_sampling(None, "KZTTS_", base, {"KZTTS_TEMP": "", "KZTTS_TOPK": " "}) == base


@pytest.mark.parametrize("prefix", ["KZTTS_", "KZTTS_CP_"])
@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("TEMP", "warm"),
        ("TEMP", "-1"),
        ("TEMP", "nan"),
        ("TEMP", "0,9"),
        ("TOPK", "50.0"),
        ("TOPK", "-1"),
        ("TOPP", "0"),
        ("REPP", "x"),
    ],
)
def test_a_bad_environment_variable_is_named(prefix: str, suffix: str, text: str) -> None:
    with pytest.raises(OptionError, match=rf"environment variable {prefix}{suffix}\b.*{text}"):
        resolve_sampling(None, prefix, Sampling(), {prefix + suffix: text})  # type: ignore[arg-type]

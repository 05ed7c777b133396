"""The generator against published and independently computed values; one seed, two streams (S03)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kazeia.errors import OptionError
from kazeia.random import Xorshift32, check_seed, derive_streams, draw_seed


def numbers(state: int, count: int) -> list[int]:
    rng = Xorshift32(state)
    return [rng.next_u32() for _ in range(count)]


def linear_xorshift(state: int, count: int) -> list[int]:
    """xorshift as its inventor states it: a product of three 32x32 matrices over GF(2)."""

    def shift(by: int) -> np.ndarray:  # bit i of the result is bit i - by of the input
        return np.eye(32, k=-by, dtype=np.uint8)

    one = np.eye(32, dtype=np.uint8)
    step = (one + shift(5)) @ (one + shift(-17)) @ (one + shift(13)) % 2
    bits = np.array([state >> i & 1 for i in range(32)], np.uint8)
    out = []
    for _ in range(count):
        bits = step @ bits % 2
        out.append(sum(int(bit) << i for i, bit in enumerate(bits)))
    return out


def test_published_values_of_the_default_seed() -> None:
    assert numbers(2463534242, 3) == [723471715, 2497366906, 2064144800]


def test_the_first_step_from_one() -> None:
    assert numbers(1, 1) == [270369]  # 1 ^ 1<<13 ^ 1<<5 ^ 1<<18


@pytest.mark.parametrize("state", [1, 2, 0xFFFFFFFF, 2463534242, 0x80000000])
def test_the_generator_equals_its_matrix_form(state: int) -> None:
    assert numbers(state, 200) == linear_xorshift(state, 200)


def test_a_zero_state_is_replaced_and_others_are_folded() -> None:
    assert numbers(0, 4) == numbers(0x9E3779B9, 4)
    assert numbers(2**32, 4) == numbers(0, 4)
    assert numbers(2**32 + 7, 4) == numbers(7, 4)


def test_uniform_is_the_top_24_bits() -> None:
    rng, twin = Xorshift32(99), Xorshift32(99)
    for _ in range(2000):
        u = rng.uniform()
        assert u == (twin.next_u32() >> 8) / 2**24
        assert 0 <= u < 1
        assert float(np.float32(u)) == u


def splitmix(z: int) -> int:
    """The finaliser once more, on NumPy's wrapping integers."""
    with np.errstate(over="ignore"):
        x = np.uint64(z % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return int(x ^ (x >> np.uint64(31)))


def test_published_value_of_splitmix64() -> None:
    # The finaliser is checked here so that the test below may lean on it.
    gamma = 0x9E3779B97F4A7C15
    assert [splitmix(1234567 + gamma * i) for i in (1, 2)] == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("segment", [0, 1, 1000])
def test_streams_come_from_the_mixer(seed: int, segment: int) -> None:
    gamma = 0x9E3779B97F4A7C15
    base = splitmix(splitmix(seed + gamma) + segment * gamma)
    talker, predictor = derive_streams(seed, segment)
    assert (talker.state, predictor.state) == (splitmix(base + gamma) >> 32, splitmix(base + 2 * gamma) >> 32)


def test_streams_of_a_seed_never_change() -> None:
    # Audio made with a seed must stay the same for ever: these numbers are a promise.
    keys = [(0, 0), (1, 0), (0, 1), (2**64 - 1, 0)]
    assert [tuple(rng.state for rng in derive_streams(*key)) for key in keys] == [
        (1451924235, 1155905713),
        (1858625311, 1828076284),
        (595752380, 4170851686),
        (1766873225, 743338495),
    ]


def test_neighbouring_seeds_and_segments_give_unrelated_streams() -> None:
    states = [rng.state for s, g in itertools.product(range(64), range(8)) for rng in derive_streams(s, g)]
    assert len(set(states)) == len(states)
    flips = [(a ^ b).bit_count() for a, b in zip(states[::16], states[16::16], strict=False)]
    assert 12 < sum(flips) / len(flips) < 20  # half of the 32 bits
    first = np.array([derive_streams(s)[0].uniform() for s in range(4000)])
    assert abs(first.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.06
    other = np.array([derive_streams(s)[1].uniform() for s in range(4000)])
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.06


def test_talker_and_predictor_do_not_share_a_stream() -> None:
    talker, predictor = derive_streams(7)
    ahead = [talker.next_u32() for _ in range(100)]
    assert not set(ahead) & {predictor.next_u32() for _ in range(100)}


@pytest.mark.parametrize("seed", [-1, 2**64, True, False, 1.0, "1", None, float("nan")])
def test_bad_seeds_are_refused_by_name(seed: object) -> None:
    with pytest.raises(OptionError, match=r"^seed is .*0 <= seed < 2\*\*64"):
        derive_streams(seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("segment", [-1, True, 1.5, None])
def test_bad_segments_are_refused_by_name(segment: object) -> None:
    with pytest.raises(OptionError, match=r"^segment is "):
        derive_streams(1, segment)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, np.int64(5), np.uint64(2**64 - 1)])
def test_good_seeds_pass(seed: int) -> None:
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int


def test_drawn_seeds_are_short_and_fresh() -> None:
    seeds = {draw_seed() for _ in range(50)}
    assert len(seeds) > 45
    assert all(check_seed(s) < 2**32 for s in seeds)

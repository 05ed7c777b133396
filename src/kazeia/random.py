"""Kazeia's own random numbers: one seed, the same draws on every platform.

PyTorch's and NumPy's generators may change between versions; these twenty lines cannot.
One seed drives two independent streams, one for the talker and one for the code predictor,
so that neither sampler's number of draws can shift the other's (spec §4.3).
"""

from __future__ import annotations

import secrets
from numbers import Integral

from kazeia.errors import OptionError

SEED_LIMIT = 1 << 64
"""Seeds lie in 0 <= seed < 2**64."""

_MASK32 = 0xFFFF_FFFF
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # 2**64 / golden ratio, odd: splitmix64's step
_ZERO_STATE = 0x9E37_79B9  # xorshift can never leave zero, so zero is replaced


class Xorshift32:
    """Marsaglia's 32-bit xorshift with shifts 13, 17, 5 (Xorshift RNGs, J. Stat. Softw. 8(14), 2003).

    `state` is taken modulo 2**32; zero becomes a fixed constant. The period is 2**32 - 1.
    """

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = (state & _MASK32) or _ZERO_STATE

    def next_u32(self) -> int:
        """The next number, 1 … 2**32 - 1."""
        x = self.state
        x ^= (x << 13) & _MASK32
        x ^= x >> 17
        x ^= (x << 5) & _MASK32
        self.state = x
        return x

    def uniform(self) -> float:
        """The next number of [0, 1): the top 24 bits, so it is exact in float32 and float64 alike."""
        return (self.next_u32() >> 8) * (1.0 / (1 << 24))


def check_seed(seed: object) -> int:
    """Return `seed` as an int if it is an integer of 0 <= seed < 2**64, else raise OptionError."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise OptionError(f"seed is {seed!r}; it must be an integer, 0 <= seed < 2**64")
    value = int(seed)
    if not 0 <= value < SEED_LIMIT:
        raise OptionError(f"seed is {value}; it must lie in 0 <= seed < 2**64")
    return value


def draw_seed() -> int:
    """A fresh seed from the operating system, below 2**32 so that it is short to type again."""
    return secrets.randbelow(1 << 32)


def derive_streams(seed: int, segment: int = 0, attempt: int = 0) -> tuple[Xorshift32, Xorshift32]:
    """The (talker, predictor) generators for one segment of an utterance.

    attempt: 0, and one more each time that the segment is begun anew.

    Neighbouring seeds or segments give unrelated streams: each passes through a 64-bit mixer.
    Raises OptionError unless 0 <= seed < 2**64 and segment is an integer >= 0.
    """
    base = _mix64(check_seed(seed) + _GOLDEN)
    if isinstance(segment, bool) or not isinstance(segment, Integral) or segment < 0:
        raise OptionError(f"segment is {segment!r}; it must be an integer >= 0")
    base = _mix64(base + int(segment) * _GOLDEN)
    for _ in range(attempt):
        base = _mix64(base + 3 * _GOLDEN)
    talker = Xorshift32(_mix64(base + _GOLDEN) >> 32)
    predictor = Xorshift32(_mix64(base + 2 * _GOLDEN) >> 32)
    return talker, predictor


def _mix64(z: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood 2014): every input bit moves every output bit."""
    z &= _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK64
    return z ^ (z >> 31)

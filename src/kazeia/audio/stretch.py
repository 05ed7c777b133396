"""Faster or slower speech with its pitch kept: WSOLA, in a streaming form.

W. Verhelst and M. Roelands, "An overlap-add technique based on waveform similarity (WSOLA) for high
quality time-scale modification of speech", ICASSP 1993. Windows of 30 ms are laid half over each other
at an even step; each is taken from the input near the place that the speed asks for, where it continues
the one before best. The search compares integers, so its outcome is exact: equal samples give equal
output, whatever the pieces they come in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import OptionError

MIN_SPEED, MAX_SPEED = 0.25, 4.0

_HALF_S = 0.015  # half a window: the step in the output
_SEARCH_S = 0.0125  # to either side: reaches a period of voices down to 80 Hz
_DECIMATE = 2  # the search looks at every second sample first
_LEVELS = 2047.0  # the search sees 12 bits, so that its sums stay exact in float64 and int64 alike

F32 = NDArray[np.float32]


def check_speed(speed: object) -> float:
    """Return `speed` as a float. Raises OptionError unless it is a number from 0.25 to 4."""
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not math.isfinite(speed):
        raise OptionError(f"speed is {speed!r}; expected a number from {MIN_SPEED} to {MAX_SPEED:g}")
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise OptionError(f"speed is {speed:g}; expected a number from {MIN_SPEED} to {MAX_SPEED:g}")
    return float(speed)


class TimeStretch:
    """Stretches a stream of samples; `speed` 2 halves its length.

    In all, round(n / speed) samples come out for n that go in. At speed 1 the samples pass untouched.
    Raises OptionError for a speed that is out of range.
    """

    def __init__(self, speed: float, sample_rate: int) -> None:
        self.speed = check_speed(speed)
        self._half = max(_DECIMATE, round(_HALF_S * sample_rate))
        self._search = max(_DECIMATE, round(_SEARCH_S * sample_rate) // _DECIMATE * _DECIMATE)
        n = np.arange(2 * self._half)
        # Periodic Hann: two of them, half a window apart, sum to one.
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * n / len(n))).astype(np.float32)
        self._input = np.zeros(0, np.float32)  # what may still be needed
        self._start = 0  # the index of its first sample in the whole input
        self._taken = 0  # samples in
        self._given = 0  # samples out
        self._step = 0  # windows laid
        self._at = 0  # where the last one was taken from
        self._tail = np.zeros(self._half, np.float32)  # its second half, windowed
        self._ready = np.zeros(0, np.float32)  # output that is made but not yet due
        self._finished = False

    def push(self, pcm: NDArray[Any]) -> F32:
        """Take samples (n,) and return those that are ready."""
        samples = np.asarray(pcm, np.float32)
        if self._finished:
            raise OptionError("this stretch is finished; make another one")
        self._taken += len(samples)
        if self.speed == 1.0:
            self._given += len(samples)
            return samples
        self._input = np.concatenate([self._input, samples])
        self._ready = np.concatenate([self._ready, self._lay()])
        return self._give(math.floor(self._taken / self.speed))

    def finish(self) -> F32:
        """The rest of the output."""
        if self._finished or self.speed == 1.0:
            self._finished = True
            return np.zeros(0, np.float32)
        wanted = round(self._taken / self.speed)
        silence = np.zeros(2 * (self._search + self._half) + self._half, np.float32)
        while self._given + len(self._ready) < wanted:
            self._input = np.concatenate([self._input, silence])
            self._ready = np.concatenate([self._ready, self._lay()])
        self._finished = True
        return self._give(wanted)

    def _give(self, due: int) -> F32:
        """What is ready, up to `due` samples in all: fast speech would otherwise run ahead of its length."""
        count = min(len(self._ready), max(0, due - self._given))
        out, self._ready = self._ready[:count], self._ready[count:]
        self._given += count
        return out

    def _lay(self) -> F32:
        """Lay every window whose whole neighbourhood is known."""
        half, parts = self._half, [np.zeros(0, np.float32)]
        while True:
            aim = round(self._step * half * self.speed)
            natural = self._at + half  # continuing there would change nothing
            needed = max(aim + self._search, natural) + 2 * half
            if self._start + len(self._input) < needed:
                break
            at = aim if self._step == 0 else self._best(aim, natural)
            window = self._input[at - self._start : at - self._start + 2 * half]
            if self._step == 0:  # nothing came before: the first half is heard as it is
                parts.append(window[:half].copy())
            else:
                parts.append(self._tail + window[:half] * self._window[:half])
            self._tail = window[half:] * self._window[half:]
            self._at = at
            self._step += 1
            self._forget()
        return np.concatenate(parts)

    def _forget(self) -> None:
        """Drop the input that no window can reach any more."""
        aim = round(self._step * self._half * self.speed)
        first = max(self._start, min(aim - self._search, self._at + self._half))
        drop = min(first - self._start, len(self._input))
        self._input = self._input[drop:]
        self._start += drop

    def _best(self, aim: int, natural: int) -> int:
        """Where near `aim` the input is most like what would have come next, at `natural`."""
        if aim == natural:
            return aim
        low = max(self._start, aim - self._search)
        high = aim + self._search  # inclusive
        length = 2 * self._half
        target = _levels(self._input[natural - self._start : natural - self._start + length : _DECIMATE])
        region = _levels(self._input[low - self._start : high - self._start + length])
        # Every second place, on every second sample; then the neighbours of the best on all samples.
        coarse = _similarity(region[::_DECIMATE], target)
        found = low + _DECIMATE * _nearest_best(coarse, (aim - low) // _DECIMATE)
        full = _levels(self._input[natural - self._start : natural - self._start + length])
        first, last = max(low, found - _DECIMATE + 1), min(high, found + _DECIMATE - 1)
        fine = _similarity(region[first - low : last - low + length], full)
        return first + _nearest_best(fine, found - first)


def _levels(pcm: F32) -> NDArray[np.int64]:
    levels: NDArray[np.int64] = np.rint(np.clip(pcm, -1.0, 1.0) * _LEVELS).astype(np.int64)
    return levels


def _similarity(region: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """Normalised correlation of `target` with each place of `region`; sums are exact integers."""
    dots = np.correlate(region, target, "valid")
    squares = np.concatenate([np.zeros(1, np.int64), np.cumsum(region * region)])
    energy = squares[len(target) :] - squares[: -len(target)]
    score: NDArray[np.float64] = dots / np.sqrt(np.maximum(energy, 1).astype(np.float64))
    return score


def _nearest_best(score: NDArray[np.float64], wanted: int) -> int:
    """The best place; of equals (silence) the one nearest to where it should be."""
    best = np.flatnonzero(score == score.max())
    return int(best[np.argmin(np.abs(best - wanted))])

"""Time-stretching: the length changes, the pitch does not, and the pieces do not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kazeia.audio.stretch import TimeStretch
from kazeia.errors import OptionError

RATE = 24_000
SPEEDS = [0.25, 0.5, 0.83, 1.2, 1.5, 2.0, 3.1, 4.0]


def tone(hz: float, seconds: float = 2.0) -> np.ndarray:
    t = np.arange(round(seconds * RATE)) / RATE
    return (0.5 * np.sin(2 * np.pi * hz * t) + 0.2 * np.sin(4 * np.pi * hz * t)).astype(np.float32)


def stretch(pcm: np.ndarray, speed: float, *sizes: int) -> np.ndarray:
    machine, parts, at = TimeStretch(speed, RATE), [], 0
    for size in (*sizes, len(pcm)):
        parts.append(machine.push(pcm[at : at + size]))
        at += size
    return np.concatenate([*parts, machine.finish()])


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("samples", [0, 1, 100, 719, 1920, 48_000, 50_001])
def test_the_length_is_exact(speed: float, samples: int) -> None:
    pcm = np.resize(tone(150), samples).astype(np.float32)
    out = stretch(pcm, speed)
    assert len(out) == round(samples / speed)
    assert out.dtype == np.float32
    assert np.isfinite(out).all()


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("hz", [90.0, 160.0, 310.0])
def test_the_pitch_stays(speed: float, hz: float) -> None:
    out = stretch(tone(hz), speed)
    spectrum = np.abs(np.fft.rfft(out * np.hanning(len(out)), 1 << 18))
    found = np.argmax(spectrum) * RATE / (1 << 18)
    assert found == pytest.approx(hz, rel=0.01)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_steady_tone_stays_smooth(speed: float) -> None:
    # A joint out of phase would dip in loudness: the envelope of a steady tone must not.
    edge = round(1600 / speed)  # the tone begins and ends within a window
    out = stretch(tone(160), speed)[edge:-edge].astype(np.float64)
    period = RATE // 160 * 2
    power = np.convolve(out**2, np.ones(period) / period, "valid")
    assert power.min() > 0.8 * power.max()


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_pieces_do_not_matter(speed: float) -> None:
    random = np.random.default_rng(3)
    pcm = (tone(140) + 0.1 * random.standard_normal(48_000)).astype(np.float32)
    whole = stretch(pcm, speed)
    assert np.array_equal(stretch(pcm, speed, *[1920] * 25), whole)
    assert np.array_equal(stretch(pcm, speed, 1, 0, 7, 3333, 10_000), whole)


def test_at_speed_one_the_samples_are_untouched() -> None:
    pcm = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    machine = TimeStretch(1.0, RATE)
    assert machine.push(pcm) is pcm
    assert len(machine.finish()) == 0
    assert np.array_equal(stretch(pcm, 1, 10, 1000), pcm)


def test_silence_stays_silent() -> None:
    assert not stretch(np.zeros(30_000, np.float32), 1.7).any()


@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_memory_does_not_grow_with_the_stream(speed: float) -> None:
    machine, kept = TimeStretch(speed, RATE), []
    for _ in range(30):
        machine.push(tone(150, 0.5))
        kept.append(len(machine._input))
    assert max(kept[15:]) <= max(kept[:15])


@pytest.mark.parametrize(
    "speed", [0, 0.2499, 4.01, -1, math.nan, math.inf, True, None, "1", [1]], ids=lambda v: repr(v)
)
def test_a_wrong_speed_is_an_option_error(speed: object) -> None:
    with pytest.raises(OptionError, match="speed is"):
        TimeStretch(speed, RATE)  # type: ignore[arg-type]


def test_a_finished_stretch_takes_no_more() -> None:
    machine = TimeStretch(2.0, RATE)
    machine.finish()
    with pytest.raises(OptionError, match="finished"):
        machine.push(np.zeros(10, np.float32))

"""The parameters of a pulse-and-noise vocoder whose pulses are locked to the frame grid.

In a frame with pitch number k the pulses stand at m/k of the frame, m = 0 … k-1 (f0 = k · 12.5 Hz): every frame starts
at phase 0, so the voiced waveform is a function of the frames' parameters alone.
"""

from __future__ import annotations

import common
import numpy as np

FFT = 1024
BINS = FFT // 2 + 1
POINTS = 80  # mel points of the envelope
ORDER = 48
BANDS = 4
_EDGES = (0.0, 1500.0, 3000.0, 6000.0, 12000.0)


def _mel(hz: np.ndarray | float) -> np.ndarray:
    return 2595.0 * np.log10(1.0 + np.asarray(hz) / 700.0)


_HZ = np.linspace(0.0, common.RATE / 2, BINS)
_MEL_POINTS = np.linspace(0.0, float(_mel(common.RATE / 2)), POINTS)


def _interpolation(at: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(len(grid), len(at)): values on `grid` -> linear interpolation at `at`."""
    matrix = np.zeros((len(grid), len(at)))
    for j, x in enumerate(at):
        i = int(np.clip(np.searchsorted(grid, x) - 1, 0, len(grid) - 2))
        w = float(np.clip((x - grid[i]) / (grid[i + 1] - grid[i]), 0.0, 1.0))
        matrix[i, j], matrix[i + 1, j] = 1.0 - w, w
    return matrix


def _dct() -> np.ndarray:
    """(POINTS, POINTS) orthonormal DCT-II, rows are coefficients."""
    n = np.arange(POINTS)
    basis = np.cos(np.pi / POINTS * (n[None, :] + 0.5) * n[:, None]) * np.sqrt(2.0 / POINTS)
    basis[0] /= np.sqrt(2.0)
    return basis


_DCT = _dct()[:ORDER]
_TO_POINTS = _interpolation(_MEL_POINTS, _mel(_HZ))  # (BINS, POINTS)
_TO_BINS = _interpolation(_mel(_HZ), _MEL_POINTS)  # (POINTS, BINS)
LOG_SPECTRUM = (_DCT @ _TO_BINS).astype(np.float32)  # (ORDER, BINS): mc @ LOG_SPECTRUM = ln |H|


def _minimum_phase() -> np.ndarray:
    """(ORDER, BINS) complex: mc @ this = complex log spectrum of the minimum-phase response."""
    full = np.concatenate([LOG_SPECTRUM, LOG_SPECTRUM[:, -2:0:-1]], axis=1).astype(np.float64)
    cepstrum = np.fft.ifft(full, axis=1).real
    fold = np.zeros(FFT)
    fold[0], fold[FFT // 2] = 1.0, 1.0
    fold[1 : FFT // 2] = 2.0
    return np.fft.fft(cepstrum * fold, axis=1)[:, :BINS]


MINIMUM_PHASE = _minimum_phase().astype(np.complex64)
_BAND_CENTRES = np.array([(a + b) / 2 for a, b in zip(_EDGES, _EDGES[1:], strict=False)])
BAND_TO_BINS = _interpolation(_HZ, _BAND_CENTRES).astype(np.float32)  # (BANDS, BINS)


def encode_envelope(power: np.ndarray) -> np.ndarray:
    """WORLD's power envelope (ticks, BINS) -> mc (ticks, ORDER): ln amplitude on the mel axis, DCT."""
    log = 0.5 * np.log(np.maximum(power, 1e-12))
    return log @ _TO_POINTS @ _DCT.T


def encode_aperiodicity(ratio: np.ndarray) -> np.ndarray:
    """(ticks, BINS) amplitude ratio -> (ticks, BANDS) mean log ratio."""
    log = np.log(np.clip(ratio, 1e-3, 1.0))
    parts = [log[:, (a <= _HZ) & (b > _HZ)].mean(1) for a, b in zip(_EDGES, _EDGES[1:], strict=False)]
    return np.stack(parts, 1)


def lock_pitch(f0: np.ndarray, frames: int) -> np.ndarray:
    """f0 per tick -> pitch number per frame (frames,) in 10…36; unvoiced stretches are interpolated."""
    ticks = common.FRAME // common.TICK
    f0 = np.pad(f0, (0, max(0, frames * ticks - len(f0))))[: frames * ticks]
    voiced = f0 > 0
    if not voiced.any():
        return np.full(frames, 16)
    at = np.arange(len(f0))
    # A step far from its neighbours is a tracking error: the median over 50 ms removes it.
    filled = np.interp(at, at[voiced], f0[voiced])
    padded = np.pad(filled, 5, mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(padded, 11), axis=1)
    weight = voiced.reshape(frames, ticks) + 1e-3
    mean = (smooth.reshape(frames, ticks) * weight).sum(1) / weight.sum(1)
    return np.clip(np.round(mean / 12.5), 10, 36).astype(np.int64)

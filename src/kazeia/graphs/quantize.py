"""Block-wise weight quantisation for ONNX Runtime's `MatMulNBits`.

A row of the weight is cut into blocks; each block keeps one float scale and its values as
unsigned integers around the operator's implicit zero point (128 for 8 bits, 8 for 4 bits).
Scales are fitted by least squares instead of taken from the largest value alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

BLOCK = 32  # values that share a scale
# What a step reads for one row is read faster in longer blocks of 8 bits: 12.7 GB/s with 32, 18.1 with 128
# (one thread, Zen 5; 4 bits win less). In exchange single rows need `graphs.transformer.Rows`.
LONG_BLOCK = 128
_ROWS_AT_ONCE = 512  # bounds the working memory while a big matrix is fitted
# Shrink factors tried on the largest value of a block; clipping an outlier can pay.
_CANDIDATES = {8: (1.0,), 4: (1.0, 0.93, 0.86, 0.79)}
_TINY = 1e-30  # a block below this is zero: the inverse of its scale would overflow


@dataclass(frozen=True)
class Packed:
    """A quantised weight in the operator's layout."""

    data: U8  # (out, blocks, block * bits / 8)
    scales: F32  # (out, blocks)
    bits: int
    block: int
    in_features: int
    out_features: int


def quantize(weight: F32, bits: int, block: int = BLOCK) -> Packed:
    """Quantise `weight` (out, in) to 8 or 4 bits per value, `block` values to a scale."""
    out_features, in_features = weight.shape
    blocks = -(-in_features // block)
    data = np.empty((out_features, blocks, block * bits // 8), np.uint8)
    scales = np.empty((out_features, blocks), np.float32)
    for start in range(0, out_features, _ROWS_AT_ONCE):
        rows = weight[start : start + _ROWS_AT_ONCE]
        padded = np.zeros((rows.shape[0], blocks * block), np.float32)
        padded[:, :in_features] = rows
        codes, fitted = _fit(padded.reshape(-1, blocks, block), bits)
        data[start : start + _ROWS_AT_ONCE] = _pack(codes, bits)
        scales[start : start + _ROWS_AT_ONCE] = fitted
    return Packed(data, scales, bits, block, in_features, out_features)


def dequantize(packed: Packed) -> F32:
    """The weight (out, in) that the operator will in effect use."""
    zero = 1 << (packed.bits - 1)
    data = packed.data
    if packed.bits == 4:
        data = np.stack([data & 15, data >> 4], axis=-1).reshape(*data.shape[:2], packed.block)
    values = (data.astype(np.float32) - zero) * packed.scales[..., None]
    return values.reshape(packed.out_features, -1)[:, : packed.in_features]


def _fit(blocks: F32, bits: int) -> tuple[npt.NDArray[np.int16], F32]:
    """Signed codes (rows, blocks, block) and scales (rows, blocks) of least squared error."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    index = np.abs(blocks).argmax(axis=-1)[..., None]
    peak = np.take_along_axis(blocks, index, axis=-1)[..., 0]
    # The signed peak maps to the lowest code: it is the longer end of the range.
    first = np.where(np.abs(peak) < _TINY, 0, peak) / np.float32(low)
    best_codes = np.zeros(blocks.shape, np.int16)
    best_scales = np.zeros(blocks.shape[:2], np.float32)
    best_error = np.full(blocks.shape[:2], np.inf, np.float32)
    for factor in _CANDIDATES[bits]:
        scale = first * np.float32(factor)
        for _ in range(2):
            inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
            codes = np.clip(np.rint(blocks * inverse[..., None]), low, high)
            energy = (codes * codes).sum(-1)
            scale = np.divide((blocks * codes).sum(-1), energy, out=np.zeros_like(scale), where=energy != 0)
        error = ((blocks - codes * scale[..., None]) ** 2).sum(-1)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scales = np.where(better, scale, best_scales)
        best_codes = np.where(better[..., None], codes, best_codes).astype(np.int16)
    return best_codes, best_scales


def _pack(codes: npt.NDArray[np.int16], bits: int) -> U8:
    unsigned: U8 = (codes + (1 << (bits - 1))).astype(np.uint8)
    if bits == 8:
        return unsigned
    pairs: U8 = np.bitwise_or(unsigned[..., 0::2], unsigned[..., 1::2] << 4, dtype=np.uint8)
    return pairs

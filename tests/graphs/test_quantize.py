"""Quantised weights: how far they may be from the true ones, and that the kernel reads them as we do."""

from __future__ import annotations

import warnings

import numpy as np
import onnxruntime as ort
import pytest

from kazeia.graphs.probe import product_graph
from kazeia.graphs.quantize import BLOCK, LONG_BLOCK, dequantize, quantize

RNG = np.random.default_rng(7)
BITS = pytest.mark.parametrize(("bits", "block"), [(8, BLOCK), (8, LONG_BLOCK), (4, BLOCK)])


def normal(rows: int, columns: int) -> np.ndarray:
    return RNG.standard_normal((rows, columns)).astype(np.float32)


def heavy(rows: int, columns: int) -> np.ndarray:
    """A few values far out, as trained weights have them."""
    return RNG.standard_t(2.0, (rows, columns)).astype(np.float32)


WEIGHTS = {
    "normal": normal(24, 128),
    "heavy": heavy(24, 128),
    "ragged": normal(5, 70),
    "one column": normal(7, 1),
    "one block": normal(3, BLOCK),
    "one value": normal(1, 1),
    "one more than a block": heavy(9, BLOCK + 1),
    "many rows": normal(1030, 40),  # more than are fitted at once
    "tiny": normal(4, 96) * np.float32(1e-20),
    "large": normal(4, 96) * np.float32(1e15),
    "uniform": RNG.uniform(0, 1, (8, 64)).astype(np.float32),
    "constant": np.full((4, 64), -0.3, np.float32),
    "one outlier": np.where(np.arange(256).reshape(4, 64) % 64 == 5, 100, normal(4, 64)).astype(np.float32),
}
NAMES = pytest.mark.parametrize("name", sorted(WEIGHTS))


def blocks(weight: np.ndarray, block: int) -> np.ndarray:
    """(out, blocks, block) in float64, padded with zeros."""
    pad = -weight.shape[1] % block
    return np.pad(weight.astype(np.float64), ((0, 0), (0, pad))).reshape(len(weight), -1, block)


def nearest(weight: np.ndarray, bits: int, block: int, low: int) -> np.ndarray:
    """Plain rounding to the nearest of the scale that maps the largest value to `low`; as blocks."""
    b = blocks(weight, block)
    index = np.abs(b).argmax(-1)[..., None]
    scale = np.take_along_axis(b, index, -1) / low
    scale = np.where(scale == 0, 1, scale)
    high = (1 << (bits - 1)) - 1
    return np.clip(np.rint(b / scale), -high - 1, high) * scale


def error(weight: np.ndarray, other: np.ndarray, block: int) -> np.ndarray:
    """Squared error of each block (out, blocks)."""
    if other.ndim == 2:
        other = blocks(other, block)
    return np.asarray(((blocks(weight, block) - other) ** 2).sum(-1))


@BITS
@NAMES
def test_a_value_is_off_by_no_more_than_rounding_allows(name: str, bits: int, block: int) -> None:
    weight = WEIGHTS[name]
    off = np.abs(blocks(weight, block) - blocks(dequantize(quantize(weight, bits, block)), block))
    peak = np.abs(blocks(weight, block)).max(-1, keepdims=True)
    # One step, for the range is a step shorter above zero than below it; 4 bits may clip the largest
    # value to serve the others.
    allowed = peak / 128 * 1.01 if bits == 8 else peak * 0.25
    assert np.all(off <= allowed)


@BITS
@NAMES
def test_fitted_scales_are_never_worse_than_plain_rounding(name: str, bits: int, block: int) -> None:
    weight = WEIGHTS[name]
    fitted = error(weight, dequantize(quantize(weight, bits, block)), block)
    low = -(1 << (bits - 1))
    plain = error(weight, nearest(weight, bits, block, low), block)
    scale = (blocks(weight, block) ** 2).sum(-1)
    assert np.all(fitted <= plain * (1 + 1e-4) + scale * 1e-12)


@pytest.mark.parametrize("name", ["normal", "heavy", "ragged"])
@pytest.mark.parametrize("low", [-8, -7])
def test_four_bits_gain_from_fitting(name: str, low: int) -> None:
    weight = WEIGHTS[name]
    fitted = error(weight, dequantize(quantize(weight, 4)), BLOCK).sum()
    assert fitted < 0.97 * error(weight, nearest(weight, 4, BLOCK, low), BLOCK).sum()


@BITS
def test_typical_weights_keep_their_signal(bits: int, block: int) -> None:
    weight = WEIGHTS["normal"]
    noise = (
        error(weight, dequantize(quantize(weight, bits, block)), block).sum()
        / (weight.astype(np.float64) ** 2).sum()
    )
    assert -10 * np.log10(noise) > {(8, BLOCK): 43, (8, LONG_BLOCK): 40, (4, BLOCK): 20}[bits, block]


@BITS
def test_zeros_stay_zero_and_do_not_disturb_their_neighbours(bits: int, block: int) -> None:
    weight = normal(4, 96)
    weight[1] = 0
    weight[2, 32:64] = 0
    weight[3, :] = 0
    weight[3, 70] = 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = dequantize(quantize(weight, bits, block))
    assert np.all(back[weight == 0] == 0) or bits == 4
    assert np.all(back[1] == 0)
    assert np.all(back[2, 32:64] == 0)
    assert np.all(back[3][weight[3] == 0] == 0)
    assert back[3, 70] == pytest.approx(0.5)


@BITS
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-38, 1e-37, 1e-33, 1e-30])
def test_vanishing_weights_vanish_without_a_word(bits: int, block: int, size: float) -> None:
    with np.errstate(under="ignore"):
        weight = (normal(3, 70) * size).astype(np.float32)
    weight[1] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = dequantize(quantize(weight, bits, block))
    assert np.all(np.isfinite(back))
    assert np.abs(back - weight).max() <= 4 * size
    assert np.all(back[1] == 1)


@BITS
def test_the_same_weights_give_the_same_bytes_wherever_the_rows_are(bits: int, block: int) -> None:
    weight = WEIGHTS["many rows"]
    whole = quantize(weight, bits, block)
    for start, stop in ((0, 3), (511, 514), (1029, 1030)):
        part = quantize(weight[start:stop], bits, block)
        assert np.array_equal(part.data, whole.data[start:stop])
        assert np.array_equal(part.scales, whole.scales[start:stop])


@BITS
@NAMES
def test_the_layout_is_the_operators(name: str, bits: int, block: int) -> None:
    weight = WEIGHTS[name]
    packed = quantize(weight, bits, block)
    out, count = weight.shape[0], -(-weight.shape[1] // block)
    assert packed.data.shape == (out, count, block * bits // 8)
    assert packed.data.dtype == np.uint8
    assert packed.scales.shape == (out, count)
    assert packed.scales.dtype == np.float32
    assert dequantize(packed).shape == weight.shape


def product(weight: np.ndarray, bits: int, block: int, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    graph = product_graph(weight, "q8" if bits == 8 else "q4", block)
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@BITS
@pytest.mark.parametrize(
    "name", ["normal", "heavy", "ragged", "one block", "one more than a block", "constant"]
)
def test_the_kernel_computes_with_the_weights_we_mean(name: str, bits: int, block: int) -> None:
    weight = WEIGHTS[name]
    back = dequantize(quantize(weight, bits, block)).astype(np.float64)
    x = normal(6, weight.shape[1])
    wanted = x.astype(np.float64) @ back.T
    # The kernel rounds the activations to 8 bits, block by block.
    step = np.abs(blocks(x, block)).max(-1) / 127  # (rows, blocks)
    spread = np.sqrt((blocks(back, block) ** 2).sum(-1))  # (out, blocks)
    noise = np.sqrt((step**2) @ (spread**2).T / 12)
    off = np.abs(product(weight, bits, block, x) - wanted)
    assert np.all(off <= 6 * noise + 1e-5 * np.abs(wanted).max())
    # A wrong order of the packed values would be far outside of that.
    shuffled = x.astype(np.float64) @ np.roll(back, 1, axis=1).T
    if name not in ("constant",):
        assert np.abs(product(weight, bits, block, x) - shuffled).max() > 20 * noise.max()


@BITS
def test_each_column_of_the_weight_is_where_it_belongs(bits: int, block: int) -> None:
    # One unit at a time through a kernel that sees no rounding: exact powers of two.
    columns = 2 * block + 6
    weight = np.zeros((columns, columns), np.float32)
    weight[np.arange(columns), np.arange(columns)] = -(2.0 ** (np.arange(columns) % 5))
    x = np.eye(columns, dtype=np.float32) * 127
    assert np.allclose(product(weight, bits, block, x), x @ weight.T, rtol=1e-6)

"""The layers that the model files share. All tensors are channels last.

Each function adds nodes to a `GraphBuilder` and returns the name of its result. Operators are
chosen so that a row's result does not depend on the rows beside it: `MatMul`, `MatMulNBits` at
accuracy level 4 and `GroupQueryAttention` keep that promise, `Conv` does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kazeia.graphs.builder import CONTRIB, GraphBuilder
from kazeia.graphs.quantize import BLOCK, quantize
from kazeia.quant import Format

F32 = npt.NDArray[np.float32]

_BITS = {"q8": 8, "q4": 4}


def linear(
    g: GraphBuilder,
    x: str,
    name: str,
    weight: F32,
    bias: F32 | None = None,
    fmt: Format = "f32",
    block: int = BLOCK,
) -> str:
    """y = x Wᵀ + b for x (…, in), weight (out, in); `fmt` says how the weight is stored, quantised ones
    with a scale per `block` values."""
    if fmt == "f32":
        y = g.op("MatMul", x, g.weight(name, np.ascontiguousarray(weight.T)))
    else:
        packed = quantize(weight, _BITS[fmt], block)
        y = g.op(
            "MatMulNBits",
            x,
            g.weight(f"{name}.data", packed.data),
            g.weight(f"{name}.scales", packed.scales),
            domain=CONTRIB,
            K=packed.in_features,
            N=packed.out_features,
            bits=packed.bits,
            block_size=packed.block,
            accuracy_level=4,
        )
    return y if bias is None else g.op("Add", y, g.weight(f"{name}.bias", bias))


def rms_norm(g: GraphBuilder, x: str, name: str, weight: F32, eps: float) -> str:
    """RMSNorm over the last axis; spec §2.1."""
    return g.op("SimplifiedLayerNormalization", x, g.weight(name, weight), axis=-1, epsilon=eps)


def add_rms_norm(
    g: GraphBuilder, x: str, residual: str, name: str, weight: F32, eps: float
) -> tuple[str, str]:
    """(RMSNorm(x + residual), x + residual) in one pass."""
    norm, _, _, total = g.ops(
        "SkipSimplifiedLayerNormalization",
        x,
        residual,
        g.weight(name, weight),
        outputs=(None, "", "", None),
        domain=CONTRIB,
        epsilon=eps,
    )
    return norm, total


def layer_norm(g: GraphBuilder, x: str, name: str, weight: F32, bias: F32, eps: float) -> str:
    """LayerNorm over the last axis, with affine."""
    return g.op(
        "LayerNormalization",
        x,
        g.weight(name, weight),
        g.weight(f"{name}.bias", bias),
        axis=-1,
        epsilon=eps,
    )


def silu(g: GraphBuilder, x: str) -> str:
    """x / (1 + e^-x)."""
    return g.op("Mul", x, g.op("Sigmoid", x))


def gelu(g: GraphBuilder, x: str) -> str:
    """GELU in its exact form, with erf."""
    return g.op("Gelu", x, domain=CONTRIB)


def snake(g: GraphBuilder, x: str, name: str, alpha: F32, beta: F32) -> str:
    """SnakeBeta: x + sin²(x·e^alpha) / (e^beta + 1e-9), per channel; spec §5.3."""
    frequency = np.exp(alpha.astype(np.float64)).astype(np.float32)
    # The square root goes inside the square: one multiplication for both factors.
    gain = np.sqrt(1.0 / (np.exp(beta.astype(np.float64)) + 1e-9)).astype(np.float32)
    wave = g.op("Sin", g.op("Mul", x, g.weight(f"{name}.frequency", frequency)))
    wave = g.op("Mul", wave, g.weight(f"{name}.gain", gain))
    return g.op("Add", x, g.op("Mul", wave, wave))


def split(g: GraphBuilder, x: str, sizes: Sequence[int]) -> list[str]:
    """Cut the last axis into pieces of the given sizes."""
    return g.ops("Split", x, g.ints(*sizes), outputs=(None,) * len(sizes), axis=-1)


def swiglu(
    g: GraphBuilder,
    x: str,
    name: str,
    gate: F32,
    up: F32,
    down: F32,
    fmt: Format = "f32",
    block: int = BLOCK,
) -> str:
    """W_down(SiLU(W_gate x) ⊙ W_up x); gate and up are read as one matrix."""
    both = linear(g, x, f"{name}.gate_up", np.concatenate([gate, up]), fmt=fmt, block=block)
    a, b = split(g, both, (gate.shape[0], up.shape[0]))
    return linear(g, g.op("Mul", silu(g, a), b), f"{name}.down", down, fmt=fmt, block=block)

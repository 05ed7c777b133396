"""The decoder-only transformer that the talker and the code predictor share; spec §2.1.

Pre-norm layers: RMSNorm on queries and keys per head before RoPE, grouped-query attention over a
cache, SwiGLU. Inputs and outputs of `transformer`:

    embeds        (batch, seq, hidden) float32
    seqlens_k     (batch,) int32: positions in the cache after this call, minus one, per row
    total_length  () int32: the longest of them, plus one
    past_k.i/v.i  (batch, kv_heads, capacity, head_dim), present_k.i/v.i the same buffers
    row_index     (rows,) int64, quantised only: see `Rows`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kazeia.checkpoint.config import TransformerConfig
from kazeia.graphs.builder import CONTRIB, GraphBuilder
from kazeia.graphs.layers import F32, add_rms_norm, linear, rms_norm, split, swiglu
from kazeia.graphs.quantize import BLOCK, LONG_BLOCK
from kazeia.quant import Format
from kazeia.rope import rope_tables


class Weights(Protocol):
    """Where tensors come from: `TensorFiles`, or anything that answers alike."""

    def get(self, name: str, shape: tuple[int, ...]) -> F32: ...


@dataclass(frozen=True)
class Rows:
    """Between (batch, seq, width), which attention wants, and the (rows, width) of everything else.

    A quantised product of one single row may run through another kernel than one of many rows (which
    depends on the processor, the bits and the block), and the last bits differ. `row_index`, when present,
    lets the caller repeat the last row so that the number of rows is even; attention sees only the real ones.
    """

    batch_seq: str  # int64 [batch, seq]
    count: str  # int64 [batch * seq]
    row_index: str | None

    def flatten(self, g: GraphBuilder, x: str, width: int) -> str:
        """(batch, seq, width) → (rows, width)."""
        flat = g.op("Reshape", x, g.ints(-1, width))
        return flat if self.row_index is None else g.op("Gather", flat, self.row_index, axis=0)

    def unflatten(self, g: GraphBuilder, x: str, *tail: int) -> str:
        """(rows, width) → (batch, seq, *tail)."""
        if self.row_index is not None:
            x = g.op("Slice", x, g.ints(0), self.count, g.ints(0))
        return g.op("Reshape", x, g.op("Concat", self.batch_seq, g.ints(*tail), axis=0))


def block_of(fmt: Format) -> int:
    """Values to a scale in the layers' matrices."""
    return LONG_BLOCK if fmt == "q8" else BLOCK


def transformer(
    g: GraphBuilder,
    x: str,
    weights: Weights,
    prefix: str,
    config: TransformerConfig,
    positions: int,
    fmt: Format,
) -> str:
    """All layers and the final norm: (batch, seq, hidden) → (batch, seq, hidden)."""
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.hidden_size
    head_dim, eps = config.head_dim, config.rms_norm_eps
    cos, sin = rope_tables(config.rope_theta, head_dim, 0, positions)
    cos_cache, sin_cache = g.weight("rope.cos", cos), g.weight("rope.sin", sin)
    seqlens = g.input("seqlens_k", ["batch"], np.int32)
    total = g.input("total_length", [], np.int32)

    shape = g.op("Shape", x)
    batch_seq = g.op("Slice", shape, g.ints(0), g.ints(2), g.ints(0))
    rows = Rows(
        batch_seq=batch_seq,
        count=g.op("ReduceProd", batch_seq, axes=[0], keepdims=1),
        row_index=g.input("row_index", ["rows"], np.int64) if fmt != "f32" else None,
    )
    block = block_of(fmt)

    stream = rows.flatten(g, x, width)
    delta: str | None = None
    for i in range(config.num_hidden_layers):
        layer = f"{prefix}.layers.{i}"

        def get(name: str, *shape: int, layer: str = layer) -> F32:
            return weights.get(f"{layer}.{name}.weight", shape)

        norm_weight = get("input_layernorm", width)
        if delta is None:
            a = rms_norm(g, stream, f"{i}.input_norm", norm_weight, eps)
        else:
            a, stream = add_rms_norm(g, delta, stream, f"{i}.input_norm", norm_weight, eps)
        q_width, kv_width = heads * head_dim, kv_heads * head_dim
        qkv_weight = np.concatenate(
            [
                get("self_attn.q_proj", q_width, width),
                get("self_attn.k_proj", kv_width, width),
                get("self_attn.v_proj", kv_width, width),
            ]
        )
        qkv = linear(g, a, f"{i}.qkv", qkv_weight, fmt=fmt, block=block)
        q, k, v = split(g, qkv, (q_width, kv_width, kv_width))
        q = _head_norm(g, rows, q, f"{i}.q_norm", get("self_attn.q_norm", head_dim), heads, eps)
        k = _head_norm(g, rows, k, f"{i}.k_norm", get("self_attn.k_norm", head_dim), kv_heads, eps)
        attended, _, _ = g.ops(
            "GroupQueryAttention",
            q,
            k,
            rows.unflatten(g, v, kv_width),
            g.input(f"past_k.{i}", ["batch", kv_heads, "capacity", head_dim]),
            g.input(f"past_v.{i}", ["batch", kv_heads, "capacity", head_dim]),
            seqlens,
            total,
            cos_cache,
            sin_cache,
            outputs=(None, f"present_k.{i}", f"present_v.{i}"),
            domain=CONTRIB,
            num_heads=heads,
            kv_num_heads=kv_heads,
            do_rotary=1,
        )
        for kind in "kv":
            g.output(f"present_{kind}.{i}", f"present_{kind}.{i}", ["batch", kv_heads, "capacity", head_dim])
        attended = rows.flatten(g, attended, q_width)
        delta = linear(g, attended, f"{i}.o", get("self_attn.o_proj", width, q_width), fmt=fmt, block=block)
        b, stream = add_rms_norm(
            g, delta, stream, f"{i}.post_norm", get("post_attention_layernorm", width), eps
        )
        inner = config.intermediate_size
        delta = swiglu(
            g,
            b,
            f"{i}.mlp",
            get("mlp.gate_proj", inner, width),
            get("mlp.up_proj", inner, width),
            get("mlp.down_proj", width, inner),
            fmt,
            block,
        )
    assert delta is not None, "a transformer has at least one layer"
    final, _ = add_rms_norm(g, delta, stream, "norm", weights.get(f"{prefix}.norm.weight", (width,)), eps)
    return rows.unflatten(g, final, width)


def _head_norm(g: GraphBuilder, rows: Rows, x: str, name: str, weight: F32, heads: int, eps: float) -> str:
    """RMSNorm of each head: (rows, heads·head_dim) → (batch, seq, heads·head_dim)."""
    head_dim = weight.shape[0]
    per_head = rms_norm(g, rows.unflatten(g, x, heads, head_dim), name, weight, eps)
    return g.op("Reshape", per_head, g.ints(0, 0, heads * head_dim))

"""The codec decoder: codes → 24 kHz samples, causal and stateful; spec §5.

Inputs: `codes` (frames, codebooks) int64; `cos`, `sin` (frames, head_dim / 2) of the frames'
absolute positions; `mask` (frames, 1, 1, window), 0 where a key exists and −inf before the first
frame; and one `state.*` per layer that looks back. Outputs: `pcm` (frames · 1920,) float32, not yet
clamped to [−1, 1] (§5.4 step 11), and `next.*` beside every state. State holds each layer's own
last inputs and starts at zero (spec §5.6), so that any cut into calls gives the same samples, bit
for bit: a convolution is one `MatMul` per tap, and every query attends to a window of fixed size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.graphs.builder import GraphBuilder, WeightFile
from kazeia.graphs.layers import F32, gelu, layer_norm, linear, rms_norm, snake, split, swiglu
from kazeia.graphs.transformer import Weights
from kazeia.quant import Format

DILATIONS = (1, 3, 9)
_CONVNEXT_EPS = 1e-6


@dataclass
class _Stream:
    """A graph with state: weights by their official names, and the list of states met so far."""

    g: GraphBuilder
    weights: Weights
    states: dict[str, tuple[int, int]]

    def get(self, name: str, *shape: int) -> F32:
        return self.weights.get(f"decoder.{name}", shape)

    def extend(self, x: str, name: str, past: int, width: int) -> str:
        """Put the last `past` rows of earlier calls before x (time, width); keep the new last rows."""
        g = self.g
        whole = g.op("Concat", g.input(f"state.{name}", [past, width]), x, axis=0)
        tail = g.op("Slice", whole, g.ints(-past), g.ints(np.iinfo(np.int64).max), g.ints(0))
        g.output(tail, f"next.{name}", [past, width])
        self.states[name] = (past, width)
        return whole

    def causal_conv(self, x: str, name: str, c_in: int, c_out: int, kernel: int, dilation: int = 1) -> str:
        """(time, c_in) → (time, c_out): one matrix product per tap, summed; spec §5.3."""
        g = self.g
        weight = self.get(f"{name}.conv.weight", c_out, c_in, kernel)
        bias = g.weight(f"{name}.bias", self.get(f"{name}.conv.bias", c_out))
        past = (kernel - 1) * dilation
        whole = self.extend(x, name, past, c_in)
        if c_out == 1:
            # A column per tap in one product, then the columns shifted against each other.
            columns = split(g, linear(g, whole, name, weight[0].T), (1,) * kernel)
            taps = [self._tap(column, j * dilation, past) for j, column in enumerate(columns)]
        else:
            taps = [
                linear(g, self._tap(whole, j * dilation, past), f"{name}.tap{j}", weight[:, :, j])
                for j in range(kernel)
            ]
        return g.op("Sum", *taps, bias)

    def depthwise_conv(self, x: str, name: str, width: int, kernel: int) -> str:
        """Causal convolution of each channel by itself: (time, width) → (time, width)."""
        g = self.g
        weight = self.get(f"{name}.conv.weight", width, 1, kernel)
        bias = g.weight(f"{name}.bias", self.get(f"{name}.conv.bias", width))
        whole = self.extend(x, name, kernel - 1, width)
        taps = [
            g.op("Mul", self._tap(whole, j, kernel - 1), g.weight(f"{name}.tap{j}", weight[:, 0, j].copy()))
            for j in range(kernel)
        ]
        return g.op("Sum", *taps, bias)

    def transposed_conv(self, x: str, name: str, c_in: int, c_out: int, kernel: int, stride: int) -> str:
        """(time, c_in) → (time · stride, c_out), trimmed on the right only; spec §5.3.

        With kernel = 2·stride an output sample sees the current input and the one before.
        """
        g = self.g
        weight = self.get(f"{name}.conv.weight", c_in, c_out, kernel)
        bias = self.get(f"{name}.conv.bias", c_out)
        if kernel == 2 * stride:
            whole = self.extend(x, name, 1, c_in)
            x = g.op("Concat", self._tap(whole, 1, 1), self._tap(whole, 0, 1), axis=1)
        # (taps, c_in, c_out, stride) → rows of the product (stride · c_out), columns (taps · c_in)
        taps = weight.reshape(c_in, c_out, kernel // stride, stride)
        matrix = taps.transpose(3, 1, 2, 0).reshape(stride * c_out, -1)
        y = linear(g, x, name, np.ascontiguousarray(matrix), np.tile(bias, stride))
        return g.op("Reshape", y, g.ints(-1, c_out))

    def _tap(self, whole: str, start: int, past: int) -> str:
        """Rows start … start + time of an extended sequence of past + time rows."""
        end = start - past or np.iinfo(np.int64).max
        return self.g.op("Slice", whole, self.g.ints(start), self.g.ints(end), self.g.ints(0))


def build_codec_decoder(
    folder: Path, weights: Weights, config: CodecDecoderConfig, fmt: Format = "f32"
) -> dict[str, tuple[int, int]]:
    """Write `codec_decoder.onnx` and its weights; return the states' names and shapes (rows, width).

    `fmt` is that of the transformer's matrices; all others are float32.
    """
    with WeightFile(folder / "codec_decoder.weights") as file:
        g = GraphBuilder("codec_decoder", file)
        s = _Stream(g, weights, {})
        codes = g.input("codes", ["frames", config.num_quantizers], np.int64)
        x = _dequantize(s, codes, config)
        x = s.causal_conv(x, "pre_conv", config.codebook_dim, config.latent_dim, 3)
        x = _pre_transformer(s, x, config, fmt)
        for i, ratio in enumerate(config.upsampling_ratios):
            x = s.transposed_conv(x, f"upsample.{i}.0", config.latent_dim, config.latent_dim, ratio, ratio)
            x = _convnext(s, x, f"upsample.{i}.1", config.latent_dim)
        width = config.decoder_dim
        x = s.causal_conv(x, "decoder.0", config.latent_dim, width, 7)
        for i, rate in enumerate(config.upsample_rates):
            x = _decoder_block(s, x, f"decoder.{i + 1}.block", width >> i, width >> (i + 1), rate)
        last = len(config.upsample_rates) + 1
        width >>= len(config.upsample_rates)
        x = _snake(s, x, f"decoder.{last}", width)
        x = s.causal_conv(x, f"decoder.{last + 1}", width, 1, 7)
        g.output(g.op("Reshape", x, g.ints(-1)), "pcm", ["samples"])
        g.save(folder / "codec_decoder.onnx")
    return s.states


def _dequantize(s: _Stream, codes: str, config: CodecDecoderConfig) -> str:
    """Codes → the sum of their codebook vectors, semantic and acoustic projected apart; §5.4 step 1."""
    g, half = s.g, config.codebook_dim // 2
    columns = split(g, codes, (1,) * config.num_quantizers)

    def vectors(part: str, start: int, stop: int) -> str:
        found = []
        for k in range(start, stop):
            book = f"quantizer.{part}.vq.layers.{k - start}._codebook"
            total = s.get(f"{book}.embedding_sum", config.codebook_size, half)
            usage = s.get(f"{book}.cluster_usage", config.codebook_size)
            table = g.weight(book, (total / np.maximum(usage, np.float32(1e-5))[:, None]).astype(np.float32))
            found.append(g.op("Gather", table, g.op("Squeeze", columns[k], g.ints(1)), axis=0))
        x = found[0] if len(found) == 1 else g.op("Sum", *found)
        name = f"quantizer.{part}.output_proj"
        return linear(g, x, name, s.get(f"{name}.weight", config.codebook_dim, half, 1)[:, :, 0])

    semantic = config.num_semantic_quantizers
    return g.op(
        "Add", vectors("rvq_first", 0, semantic), vectors("rvq_rest", semantic, config.num_quantizers)
    )


def _pre_transformer(s: _Stream, x: str, config: CodecDecoderConfig, fmt: Format) -> str:
    """Sliding-window transformer over frames; §5.4 steps 3–5."""
    g, width, inner = s.g, config.hidden_size, config.intermediate_size
    root = "pre_transformer"
    cos = g.op("Unsqueeze", g.input("cos", ["frames", config.head_dim // 2]), g.ints(1))
    sin = g.op("Unsqueeze", g.input("sin", ["frames", config.head_dim // 2]), g.ints(1))
    mask = g.input("mask", ["frames", 1, 1, config.sliding_window])
    window = _window_index(g, x, config.sliding_window)

    def project(x: str, name: str, c_in: int, c_out: int) -> str:
        weight, bias = s.get(f"{name}.weight", c_out, c_in), s.get(f"{name}.bias", c_out)
        return linear(g, x, name, weight, bias, fmt)

    x = project(x, f"{root}.input_proj", config.latent_dim, width)
    for i in range(config.num_hidden_layers):
        layer = f"{root}.layers.{i}"
        a = rms_norm(
            g, x, f"{layer}.norm1", s.get(f"{layer}.input_layernorm.weight", width), config.rms_norm_eps
        )
        a = _window_attention(s, a, layer, config, fmt, cos, sin, mask, window)
        a = g.op("Mul", a, g.weight(f"{layer}.scale1", s.get(f"{layer}.self_attn_layer_scale.scale", width)))
        x = g.op("Add", x, a)
        norm = s.get(f"{layer}.post_attention_layernorm.weight", width)
        b = rms_norm(g, x, f"{layer}.norm2", norm, config.rms_norm_eps)
        b = swiglu(
            g,
            b,
            f"{layer}.mlp",
            s.get(f"{layer}.mlp.gate_proj.weight", inner, width),
            s.get(f"{layer}.mlp.up_proj.weight", inner, width),
            s.get(f"{layer}.mlp.down_proj.weight", width, inner),
            fmt,
        )
        b = g.op("Mul", b, g.weight(f"{layer}.scale2", s.get(f"{layer}.mlp_layer_scale.scale", width)))
        x = g.op("Add", x, b)
    x = rms_norm(g, x, f"{root}.norm", s.get(f"{root}.norm.weight", width), config.rms_norm_eps)
    return project(x, f"{root}.output_proj", width, config.latent_dim)


def _window_index(g: GraphBuilder, x: str, window: int) -> str:
    """(frames, window) indices of each frame's keys in the extended sequence: t … t + window − 1."""
    frames = g.op("Squeeze", g.op("Slice", g.op("Shape", x), g.ints(0), g.ints(1)), g.ints(0))
    zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
    start = g.op("Unsqueeze", g.op("Range", zero, frames, one), g.ints(1))
    return g.op("Add", start, g.ints(*range(window)))


def _window_attention(
    s: _Stream,
    x: str,
    layer: str,
    config: CodecDecoderConfig,
    fmt: Format,
    cos: str,
    sin: str,
    mask: str,
    window: str,
) -> str:
    """Attention of every frame over the last `sliding_window` frames, itself included.

    Keys and values are gathered window by window, so that each query's sums have one fixed length
    and order whatever the call's size.
    """
    g, width = s.g, config.hidden_size
    heads, kv_heads, head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    q_width, kv_width = heads * head_dim, kv_heads * head_dim
    names = [f"{layer}.self_attn.{n}_proj.weight" for n in "qkv"]
    widths = (q_width, kv_width, kv_width)
    weight = np.concatenate([s.get(n, w, width) for n, w in zip(names, widths, strict=True)])
    q, k, v = split(g, linear(g, x, f"{layer}.qkv", weight, fmt=fmt), widths)
    q = _rotate(g, q, heads, head_dim, cos, sin)
    k = g.op("Reshape", _rotate(g, k, kv_heads, head_dim, cos, sin), g.ints(-1, kv_width))
    shape = g.ints(0, 0, kv_heads, head_dim)

    def windows(value: str, kind: str) -> str:  # (frames, window, kv_heads, head_dim)
        whole = s.extend(value, f"{layer}.{kind}", config.sliding_window - 1, kv_width)
        return g.op("Reshape", g.op("Gather", whole, window, axis=0), shape)

    # Query heads of one kv head are rows of one small product: (frames, kv_heads, group, head_dim).
    q = g.op("Reshape", q, g.ints(0, kv_heads, heads // kv_heads, head_dim))
    scores = g.op("MatMul", q, g.op("Transpose", windows(k, "k"), perm=[0, 2, 3, 1]))
    scores = g.op("Mul", scores, g.constant(head_dim**-0.5, np.float32))
    chances = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
    mixed = g.op("MatMul", chances, g.op("Transpose", windows(v, "v"), perm=[0, 2, 1, 3]))
    mixed = g.op("Reshape", mixed, g.ints(-1, q_width))
    out = s.get(f"{layer}.self_attn.o_proj.weight", width, q_width)
    return linear(g, mixed, f"{layer}.o", out, fmt=fmt)


def _rotate(g: GraphBuilder, x: str, heads: int, head_dim: int, cos: str, sin: str) -> str:
    """Half-split RoPE: (frames, heads · head_dim) → (frames, heads, head_dim)."""
    a, b = split(g, g.op("Reshape", x, g.ints(0, heads, head_dim)), (head_dim // 2,) * 2)
    first = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
    second = g.op("Add", g.op("Mul", b, cos), g.op("Mul", a, sin))
    return g.op("Concat", first, second, axis=-1)


def _convnext(s: _Stream, x: str, name: str, width: int) -> str:
    """Depthwise convolution, LayerNorm, two linears with GELU, scaled, plus the input; §5.3."""
    g = s.g
    y = s.depthwise_conv(x, f"{name}.dwconv", width, 7)
    norm = s.get(f"{name}.norm.weight", width), s.get(f"{name}.norm.bias", width)
    y = layer_norm(g, y, f"{name}.norm", *norm, _CONVNEXT_EPS)
    up = s.get(f"{name}.pwconv1.weight", 4 * width, width), s.get(f"{name}.pwconv1.bias", 4 * width)
    down = s.get(f"{name}.pwconv2.weight", width, 4 * width), s.get(f"{name}.pwconv2.bias", width)
    y = linear(g, gelu(g, linear(g, y, f"{name}.pwconv1", *up)), f"{name}.pwconv2", *down)
    return g.op("Add", x, g.op("Mul", y, g.weight(f"{name}.gamma", s.get(f"{name}.gamma", width))))


def _decoder_block(s: _Stream, x: str, name: str, c_in: int, c_out: int, rate: int) -> str:
    """Snake, upsampling by `rate`, three dilated residual units; §5.4 step 9."""
    x = _snake(s, x, f"{name}.0", c_in)
    x = s.transposed_conv(x, f"{name}.1", c_in, c_out, 2 * rate, rate)
    for i, dilation in enumerate(DILATIONS, start=2):
        unit = f"{name}.{i}"
        y = _snake(s, x, f"{unit}.act1", c_out)
        y = s.causal_conv(y, f"{unit}.conv1", c_out, c_out, 7, dilation)
        y = _snake(s, y, f"{unit}.act2", c_out)
        pointwise = s.get(f"{unit}.conv2.conv.weight", c_out, c_out, 1)[:, :, 0]
        y = linear(s.g, y, f"{unit}.conv2", pointwise, s.get(f"{unit}.conv2.conv.bias", c_out))
        x = s.g.op("Add", x, y)
    return x


def _snake(s: _Stream, x: str, name: str, width: int) -> str:
    return snake(s.g, x, name, s.get(f"{name}.alpha", width), s.get(f"{name}.beta", width))

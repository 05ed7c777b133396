"""Every tensor of a checkpoint: name, shape and the distribution its random values come from.

The lists follow spec §2.2 and §3.1 (model.safetensors) and spec §5.2 and §6.2 (the speech tokenizer).
Values are uniform with a mean and a standard deviation chosen so that a random network behaves like a
trained one in scale: hidden states and logits of order one, a waveform well inside ±1, no branch so small
that an error in it would not show.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kazeia.testing.shapes import (
    CODE_GROUPS,
    CONTROL_IDS,
    ENCODER_QUANTIZERS,
    ENCODER_RATIOS,
    UPSAMPLE_RATES,
    UPSAMPLING_RATIOS,
    Shape,
)

RECIPE = 1
"""Version of the values; raise it when any value or name changes."""

LOGIT_STD = 2.5
CLUSTER_FLOOR = 1e-5  # spec §5.3: the divisor's lower bound
DEAD_ROW = 3  # this entry of every codebook has no usage, so the bound is reached
CHUNK = 1 << 20

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Tensor:
    """One tensor to write: uniform values, unless `usage` or `boost` say otherwise.

    `std` and `mean` describe the uniform distribution. `dead_row` sets one entry to zero (cluster_usage);
    `usage` multiplies row i by max(usage[i], 1e-5), which makes an `embedding_sum`. `boost` = (row, factor)
    scales one row.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    dead_row: int | None = None
    usage: Tensor | None = None
    boost: tuple[int, float] | None = None

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def chunks(self, seed: int) -> Iterator[F32]:
        """Yield the values, flat float32, in pieces of at most `CHUNK`; the same for a (name, seed) always.

        Built on raw 64-bit draws and exact arithmetic only, so the bits do not depend on the platform
        or on NumPy's version.
        """
        digest = hashlib.sha256(self.name.encode()).digest()
        bits = np.random.SFC64(np.random.SeedSequence([RECIPE, seed, int.from_bytes(digest[:8], "little")]))
        scale = np.float32(self.std * math.sqrt(3.0) / 32768.0)
        row = self.size // self.shape[0]
        step = max(1, CHUNK // row) * row if self._by_row else CHUNK
        for start in range(0, self.size, step):
            count = min(step, self.size - start)
            raw = np.asarray(bits.random_raw(-(-count // 4)), dtype="<u8")
            values = raw.view("<u2")[:count].astype(np.float32)
            values -= np.float32(32767.5)
            values *= scale
            if self.mean:
                values += np.float32(self.mean)
            if self._by_row:
                self._edit_rows(values.reshape(-1, row), start // row, seed)
            yield values

    def values(self, seed: int) -> F32:
        """Return all values in their shape, float32."""
        return np.concatenate(list(self.chunks(seed))).reshape(self.shape)

    @property
    def _by_row(self) -> bool:
        return self.dead_row is not None or self.usage is not None or self.boost is not None

    def _edit_rows(self, rows: F32, first: int, seed: int) -> None:
        if self.usage is not None:
            usage = np.maximum(self.usage.values(seed), np.float32(CLUSTER_FLOOR))
            rows *= usage[first : first + len(rows), None]
        if self.dead_row is not None and first <= self.dead_row < first + len(rows):
            rows[self.dead_row - first] = 0.0
        if self.boost is not None and first <= self.boost[0] < first + len(rows):
            rows[self.boost[0] - first] *= np.float32(self.boost[1])


def linear(name: str, outputs: int, inputs: int, gain: float = 1.0) -> Tensor:
    """A matrix [outputs, inputs]: inputs of rms 1 give outputs of rms `gain`."""
    return Tensor(f"{name}.weight", (outputs, inputs), gain / math.sqrt(inputs))


def bias(name: str, size: int, std: float = 0.1) -> Tensor:
    """A bias vector."""
    return Tensor(f"{name}.bias", (size,), std)


def scale(name: str, size: int, mean: float = 1.0, std: float = 0.2) -> Tensor:
    """A vector of positive factors around `mean`: norm weights, layer scales."""
    return Tensor(name, (size,), std, mean)


def _decoder_layers(
    prefix: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    intermediate: int,
    *,
    layer_scale: bool = False,
) -> Iterator[Tensor]:
    """The layers of spec §2.1; with `layer_scale`, those of the codec (spec §5.4 step 4)."""
    # All branches together add about twice the residual's power, whatever the depth.
    branch = math.sqrt(2.0 / (2 * layers))
    for layer in range(layers):
        name = f"{prefix}.layers.{layer}"
        yield scale(f"{name}.input_layernorm.weight", hidden)
        yield scale(f"{name}.post_attention_layernorm.weight", hidden)
        attention = f"{name}.self_attn"
        gain = 1.2 if layer_scale else 1.0
        yield linear(f"{attention}.q_proj", heads * head_dim, hidden, gain)
        yield linear(f"{attention}.k_proj", kv_heads * head_dim, hidden, gain)
        yield linear(f"{attention}.v_proj", kv_heads * head_dim, hidden)
        # A softmax average of values has an rms of about 0.6.
        yield linear(f"{attention}.o_proj", hidden, heads * head_dim, 2.5 if layer_scale else branch / 0.6)
        yield linear(f"{name}.mlp.gate_proj", intermediate, hidden, 1.5)
        yield linear(f"{name}.mlp.up_proj", intermediate, hidden)
        yield linear(f"{name}.mlp.down_proj", hidden, intermediate, 2.5 if layer_scale else branch)
        if layer_scale:
            yield scale(f"{name}.self_attn_layer_scale.scale", hidden, 0.3, 0.06)
            yield scale(f"{name}.mlp_layer_scale.scale", hidden, 0.3, 0.06)
        else:
            # Above one: attention picks some keys out, rather than average them all.
            yield scale(f"{attention}.q_norm.weight", head_dim, 1.4)
            yield scale(f"{attention}.k_norm.weight", head_dim, 1.4)


def talker_tensors(shape: Shape) -> list[Tensor]:
    """Return the tensors of model.safetensors, sorted by name: talker, text side, code predictor."""
    return sorted(_talker(shape), key=lambda tensor: tensor.name)


def _talker(shape: Shape) -> Iterator[Tensor]:
    hidden, width = shape.hidden, shape.text_hidden
    yield Tensor("talker.model.text_embedding.weight", (shape.text_vocab, width), 1.0)
    yield linear("talker.text_projection.linear_fc1", width, width, 1.5)
    yield bias("talker.text_projection.linear_fc1", width)
    yield linear("talker.text_projection.linear_fc2", hidden, width, 0.5)
    yield bias("talker.text_projection.linear_fc2", hidden)
    # The inputs of a frame add up to an rms of about one: 0.5² + 15 · 0.2² + the text's 0.5².
    yield Tensor("talker.model.codec_embedding.weight", (shape.codec_vocab, hidden), 0.5)
    end = shape.codebook + CONTROL_IDS["codec_eos_token_id"]
    yield Tensor(
        "talker.codec_head.weight",
        (shape.codec_vocab, hidden),
        LOGIT_STD / math.sqrt(hidden),
        boost=(end, shape.end_gain),
    )
    yield scale("talker.model.norm.weight", hidden)
    yield from _decoder_layers(
        "talker.model",
        shape.layers,
        hidden,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        shape.intermediate,
    )
    prefix, inner = "talker.code_predictor", shape.predictor_hidden
    yield from _decoder_layers(
        f"{prefix}.model",
        shape.predictor_layers,
        inner,
        shape.predictor_heads,
        shape.predictor_kv_heads,
        shape.predictor_head_dim,
        shape.predictor_intermediate,
    )
    yield scale(f"{prefix}.model.norm.weight", inner)
    for group in range(CODE_GROUPS - 1):
        yield Tensor(f"{prefix}.model.codec_embedding.{group}.weight", (shape.codebook, hidden), 0.2)
        yield linear(f"{prefix}.lm_head.{group}", shape.codebook, inner, LOGIT_STD)
    if shape.projected:
        yield linear(f"{prefix}.small_to_mtp_projection", inner, hidden)
        yield bias(f"{prefix}.small_to_mtp_projection", inner)


def codec_tensors(shape: Shape) -> list[Tensor]:
    """Return the tensors of speech_tokenizer/model.safetensors, sorted by name: decoder and encoder."""
    return sorted([*_codec_decoder(shape), *_codec_encoder(shape)], key=lambda tensor: tensor.name)


def _codebook(prefix: str, sums: str, entries: int, width: int, std: float) -> Iterator[Tensor]:
    """The running sums a codebook is divided out of (spec §5.3)."""
    usage = Tensor(f"{prefix}.cluster_usage", (entries,), 0.8, 2.0, dead_row=DEAD_ROW)
    yield usage
    yield Tensor(f"{prefix}.{sums}", (entries, width), std, usage=usage)


def _conv(name: str, outputs: int, inputs: int, kernel: int, gain: float = 1.0) -> Iterator[Tensor]:
    """A convolution with bias: inputs of rms 1 give outputs of rms `gain`."""
    yield Tensor(f"{name}.conv.weight", (outputs, inputs, kernel), gain / math.sqrt(inputs * kernel))
    yield bias(f"{name}.conv", outputs, 0.1 * gain)


def _transposed(
    name: str, inputs: int, outputs: int, stride: int, taps: int, gain: float
) -> Iterator[Tensor]:
    """A transposed convolution of kernel taps·stride; each output sums over `taps` inputs."""
    shape = (inputs, outputs, taps * stride)
    yield Tensor(f"{name}.conv.weight", shape, gain / math.sqrt(inputs * taps))
    yield bias(f"{name}.conv", outputs)


def _snake(name: str, channels: int) -> Iterator[Tensor]:
    """SnakeBeta parameters, stored as logarithms (spec §5.3)."""
    yield Tensor(f"{name}.alpha", (channels,), 0.3)
    yield Tensor(f"{name}.beta", (channels,), 0.3)


def _codec_decoder(shape: Shape) -> Iterator[Tensor]:
    book, latent, hidden = shape.codebook_dim // 2, shape.latent, shape.codec_hidden
    for part, layers in (("rvq_first", 1), ("rvq_rest", CODE_GROUPS - 1)):
        prefix = f"decoder.quantizer.{part}"
        for layer in range(layers):
            yield from _codebook(
                f"{prefix}.vq.layers.{layer}._codebook",
                "embedding_sum",
                shape.codebook,
                book,
                1 / math.sqrt(layers),
            )
        yield Tensor(f"{prefix}.input_proj.weight", (book, shape.codebook_dim, 1), 1 / math.sqrt(2 * book))
        yield Tensor(f"{prefix}.output_proj.weight", (shape.codebook_dim, book, 1), 0.7 / math.sqrt(book))
    yield from _conv("decoder.pre_conv", latent, shape.codebook_dim, 3)

    prefix = "decoder.pre_transformer"
    yield linear(f"{prefix}.input_proj", hidden, latent)
    yield bias(f"{prefix}.input_proj", hidden)
    yield from _decoder_layers(
        prefix,
        shape.codec_layers,
        hidden,
        shape.codec_heads,
        shape.codec_heads,
        shape.codec_head_dim,
        shape.codec_intermediate,
        layer_scale=True,
    )
    yield scale(f"{prefix}.norm.weight", hidden)
    yield linear(f"{prefix}.output_proj", latent, hidden)
    yield bias(f"{prefix}.output_proj", latent)

    for stage, factor in enumerate(UPSAMPLING_RATIOS):
        prefix = f"decoder.upsample.{stage}"
        yield from _transposed(f"{prefix}.0", latent, latent, factor, 1, 0.9)
        block = f"{prefix}.1"
        yield Tensor(f"{block}.dwconv.conv.weight", (latent, 1, 7), 1 / math.sqrt(7))
        yield bias(f"{block}.dwconv.conv", latent)
        yield scale(f"{block}.norm.weight", latent)
        yield bias(f"{block}.norm", latent)
        yield linear(f"{block}.pwconv1", 4 * latent, latent, 1.5)
        yield bias(f"{block}.pwconv1", 4 * latent)
        yield linear(f"{block}.pwconv2", latent, 4 * latent, 1.5)
        yield bias(f"{block}.pwconv2", latent)
        yield scale(f"{block}.gamma", latent, 0.4, 0.1)

    yield from _conv("decoder.decoder.0", shape.decoder_dim, latent, 7)
    channels = shape.decoder_dim
    for stage, rate in enumerate(UPSAMPLE_RATES, start=1):
        prefix = f"decoder.decoder.{stage}.block"
        yield from _snake(f"{prefix}.0", channels)
        # A snake of rms-1 input has an rms of about 1.3; three residual units bring it to about 1.8.
        yield from _transposed(f"{prefix}.1", channels, channels // 2, rate, 2, 0.75 if stage == 1 else 0.55)
        channels //= 2
        for unit in (2, 3, 4):
            yield from _snake(f"{prefix}.{unit}.act1", channels)
            yield from _conv(f"{prefix}.{unit}.conv1", channels, channels, 7, 0.7)
            yield from _snake(f"{prefix}.{unit}.act2", channels)
            yield from _conv(f"{prefix}.{unit}.conv2", channels, channels, 1, 0.5)
    yield from _snake("decoder.decoder.5", channels)
    yield from _conv("decoder.decoder.6", 1, channels, 7, 0.07)


def _codec_encoder(shape: Shape) -> Iterator[Tensor]:
    hidden, channels = shape.encoder_hidden, shape.encoder_filters
    prefix = "encoder.encoder.layers"
    # Speech has an rms of about 0.1.
    yield from _conv(f"{prefix}.0", channels, 1, 7, 8.0)
    for stage, ratio in enumerate(reversed(ENCODER_RATIOS)):
        unit = f"{prefix}.{3 * stage + 1}.block"
        yield from _conv(f"{unit}.1", channels // 2, channels, 3, 1.2)
        yield from _conv(f"{unit}.3", channels, channels // 2, 1, 0.7)
        yield from _conv(f"{prefix}.{3 * stage + 3}", 2 * channels, channels, 2 * ratio, 1.2)
        channels *= 2
    yield from _conv(f"{prefix}.14", hidden, channels, 3, 1.2)

    for layer in range(shape.encoder_layers):
        name = f"encoder.encoder_transformer.layers.{layer}"
        for projection in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield linear(f"{name}.self_attn.{projection}", hidden, hidden, 1.5)
        yield linear(f"{name}.mlp.fc1", shape.encoder_intermediate, hidden, 1.5)
        yield linear(f"{name}.mlp.fc2", hidden, shape.encoder_intermediate, 1.5)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield scale(f"{name}.{norm}.weight", hidden)
            yield bias(f"{name}.{norm}", hidden)
        yield scale(f"{name}.self_attn_layer_scale.scale", hidden, 0.3, 0.06)
        yield scale(f"{name}.mlp_layer_scale.scale", hidden, 0.3, 0.06)
    yield Tensor("encoder.downsample.conv.weight", (hidden, hidden, 4), 1.2 / math.sqrt(4 * hidden))

    width = shape.encoder_codebook_dim
    for part, layers in (("semantic", 1), ("acoustic", ENCODER_QUANTIZERS - 1)):
        prefix = f"encoder.quantizer.{part}_residual_vector_quantizer"
        yield Tensor(f"{prefix}.input_proj.weight", (width, hidden, 1), 1 / math.sqrt(hidden))
        yield Tensor(f"{prefix}.output_proj.weight", (hidden, width, 1), 1 / math.sqrt(width))
        for layer in range(layers):
            book = f"{prefix}.layers.{layer}.codebook"
            # Each stage codes what the one before left over.
            yield from _codebook(book, "embed_sum", shape.codebook, width, math.prod([0.9] * layer))
            yield Tensor(f"{book}.initialized", (1,), 0.0, 1.0)

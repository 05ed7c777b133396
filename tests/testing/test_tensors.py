"""The lists of tensors, against the specification's tables and the released files' sizes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from kazeia.testing import SHAPES
from kazeia.testing.tensors import CLUSTER_FLOOR, DEAD_ROW, Tensor, codec_tensors, talker_tensors
from kazeia.testing.writer import file_size, to_bfloat16

BOTH = ("0.6b", "1.7b")
WIDTH = {"0.6b": 1024, "1.7b": 2048}
INNER = {"0.6b": 3072, "1.7b": 6144}


def layer_table(prefix: str, layers: int, width: int, inner: int) -> dict[str, tuple[int, ...]]:
    """The eleven tensors of each talker or predictor layer (spec §2.2)."""
    names: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (2048, width),
        "self_attn.k_proj.weight": (1024, width),
        "self_attn.v_proj.weight": (1024, width),
        "self_attn.o_proj.weight": (width, 2048),
        "self_attn.q_norm.weight": (128,),
        "self_attn.k_norm.weight": (128,),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }
    return {
        f"{prefix}.layers.{layer}.{name}": shape for layer in range(layers) for name, shape in names.items()
    }


def talker_table(size: str) -> dict[str, tuple[int, ...]]:
    """Spec §2.2 and §3.1."""
    h = WIDTH[size]
    table: dict[str, tuple[int, ...]] = {
        "talker.model.text_embedding.weight": (151936, 2048),
        "talker.text_projection.linear_fc1.weight": (2048, 2048),
        "talker.text_projection.linear_fc1.bias": (2048,),
        "talker.text_projection.linear_fc2.weight": (h, 2048),
        "talker.text_projection.linear_fc2.bias": (h,),
        "talker.model.codec_embedding.weight": (3072, h),
        "talker.codec_head.weight": (3072, h),
        "talker.model.norm.weight": (h,),
        "talker.code_predictor.model.norm.weight": (1024,),
        **layer_table("talker.model", 28, h, INNER[size]),
        **layer_table("talker.code_predictor.model", 5, 1024, 3072),
    }
    for group in range(15):
        table[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = (2048, h)
        table[f"talker.code_predictor.lm_head.{group}.weight"] = (2048, 1024)
    if size == "1.7b":
        table["talker.code_predictor.small_to_mtp_projection.weight"] = (1024, 2048)
        table["talker.code_predictor.small_to_mtp_projection.bias"] = (1024,)
    return table


def decoder_table() -> dict[str, tuple[int, ...]]:
    """Spec §5.2, without the prefix `decoder.`."""
    table: dict[str, tuple[int, ...]] = {}
    for part, count in (("rvq_first", 1), ("rvq_rest", 15)):
        table[f"quantizer.{part}.output_proj.weight"] = (512, 256, 1)
        table[f"quantizer.{part}.input_proj.weight"] = (256, 512, 1)
        for layer in range(count):
            book = f"quantizer.{part}.vq.layers.{layer}._codebook"
            table |= {f"{book}.embedding_sum": (2048, 256), f"{book}.cluster_usage": (2048,)}

    def with_bias(name: str, shape: tuple[int, ...], size: int) -> None:
        table[f"{name}.weight"], table[f"{name}.bias"] = shape, (size,)

    with_bias("pre_conv.conv", (1024, 512, 3), 1024)
    with_bias("pre_transformer.input_proj", (512, 1024), 512)
    with_bias("pre_transformer.output_proj", (1024, 512), 1024)
    table["pre_transformer.norm.weight"] = (512,)
    for layer in range(8):
        name = f"pre_transformer.layers.{layer}"
        table |= {f"{name}.self_attn.{part}_proj.weight": (1024, 512) for part in "qkv"}
        table[f"{name}.self_attn.o_proj.weight"] = (512, 1024)
        table |= {f"{name}.mlp.{part}_proj.weight": (1024, 512) for part in ("gate", "up")}
        table[f"{name}.mlp.down_proj.weight"] = (512, 1024)
        for vector in (
            "input_layernorm.weight",
            "post_attention_layernorm.weight",
            "self_attn_layer_scale.scale",
            "mlp_layer_scale.scale",
        ):
            table[f"{name}.{vector}"] = (512,)
    for stage in (0, 1):
        with_bias(f"upsample.{stage}.0.conv", (1024, 1024, 2), 1024)
        with_bias(f"upsample.{stage}.1.dwconv.conv", (1024, 1, 7), 1024)
        with_bias(f"upsample.{stage}.1.norm", (1024,), 1024)
        with_bias(f"upsample.{stage}.1.pwconv1", (4096, 1024), 4096)
        with_bias(f"upsample.{stage}.1.pwconv2", (1024, 4096), 1024)
        table[f"upsample.{stage}.1.gamma"] = (1024,)
    with_bias("decoder.0.conv", (1536, 1024, 7), 1536)
    for stage, (wide, narrow, stride) in enumerate(
        ((1536, 768, 8), (768, 384, 5), (384, 192, 4), (192, 96, 3)), start=1
    ):
        block = f"decoder.{stage}.block"
        table |= {f"{block}.0.alpha": (wide,), f"{block}.0.beta": (wide,)}
        with_bias(f"{block}.1.conv", (wide, narrow, 2 * stride), narrow)
        for unit in (2, 3, 4):
            for snake, vector in product(("act1", "act2"), ("alpha", "beta")):
                table[f"{block}.{unit}.{snake}.{vector}"] = (narrow,)
            with_bias(f"{block}.{unit}.conv1.conv", (narrow, narrow, 7), narrow)
            with_bias(f"{block}.{unit}.conv2.conv", (narrow, narrow, 1), narrow)
    table |= {"decoder.5.alpha": (96,), "decoder.5.beta": (96,)}
    with_bias("decoder.6.conv", (1, 96, 7), 1)
    return table


@pytest.mark.parametrize("size", BOTH)
def test_talker_tensors_are_those_of_the_specification(size: str) -> None:
    assert {tensor.name: tensor.shape for tensor in talker_tensors(SHAPES[size])} == talker_table(size)


def test_codec_decoder_tensors_are_those_of_the_specification() -> None:
    made = {tensor.name: tensor.shape for tensor in codec_tensors(SHAPES["0.6b"])}
    prefix = "decoder."
    found = {name.removeprefix(prefix): shape for name, shape in made.items() if name.startswith(prefix)}
    assert found == decoder_table()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("encoder.layers.0.conv.weight", (64, 1, 7)),
        ("encoder.layers.1.block.1.conv.weight", (32, 64, 3)),
        ("encoder.layers.10.block.3.conv.weight", (512, 256, 1)),
        ("encoder.layers.3.conv.weight", (128, 64, 8)),
        ("encoder.layers.6.conv.weight", (256, 128, 10)),
        ("encoder.layers.9.conv.weight", (512, 256, 12)),
        ("encoder.layers.12.conv.weight", (1024, 512, 16)),
        ("encoder.layers.14.conv.weight", (512, 1024, 3)),
        ("encoder_transformer.layers.7.self_attn.o_proj.weight", (512, 512)),
        ("encoder_transformer.layers.0.mlp.fc1.weight", (2048, 512)),
        ("encoder_transformer.layers.0.input_layernorm.bias", (512,)),
        ("downsample.conv.weight", (512, 512, 4)),
        ("quantizer.semantic_residual_vector_quantizer.input_proj.weight", (256, 512, 1)),
        ("quantizer.acoustic_residual_vector_quantizer.layers.30.codebook.embed_sum", (2048, 256)),
        ("quantizer.acoustic_residual_vector_quantizer.layers.30.codebook.initialized", (1,)),
    ],
)
def test_codec_encoder_tensors_are_those_of_the_specification(name: str, shape: tuple[int, ...]) -> None:
    made = {tensor.name: tensor.shape for tensor in codec_tensors(SHAPES["0.6b"])}
    assert made[f"encoder.{name}"] == shape


@pytest.mark.parametrize(
    ("size", "tensors", "parameters", "bytes_"),
    [
        ("0.6b", 402, 905_788_672, 1_811_626_576),
        ("1.7b", 404, 1_916_676_352, 3_833_402_552),
    ],
)
def test_talker_file_has_the_released_size_to_the_byte(
    size: str, tensors: int, parameters: int, bytes_: int
) -> None:
    made = talker_tensors(SHAPES[size])
    assert (len(made), sum(tensor.size for tensor in made)) == (tensors, parameters)
    assert file_size(made, "BF16", metadata=True) == bytes_


@pytest.mark.parametrize("size", BOTH)
def test_codec_file_has_the_released_size_to_the_byte(size: str) -> None:
    made = codec_tensors(SHAPES[size])
    assert (len(made), sum(tensor.size for tensor in made)) == (496, 170_557_441)
    assert file_size(made, "F32", metadata=False) == 682_293_092


@pytest.mark.parametrize("preset", [name for name in SHAPES if name.startswith("tiny")])
def test_values_have_the_spread_they_declare(preset: str) -> None:
    for tensor in (*talker_tensors(SHAPES[preset]), *codec_tensors(SHAPES[preset])):
        if tensor.size < 2000 or tensor.usage or tensor.dead_row is not None:
            continue
        values = tensor.values(0)
        assert values.std() == pytest.approx(tensor.std, rel=0.06), tensor.name
        assert values.mean() == pytest.approx(tensor.mean, abs=5 * tensor.std / math.sqrt(tensor.size))


@pytest.mark.parametrize("preset", ["tiny", "tiny-codec"])
def test_codebooks_come_out_of_division_by_the_bounded_usage(preset: str) -> None:
    books = [tensor for tensor in codec_tensors(SHAPES[preset]) if tensor.usage is not None]
    assert len(books) == 16 + 32
    for sums in books:
        assert sums.usage is not None
        usage = sums.usage.values(0)
        assert usage[DEAD_ROW] == 0
        assert (np.delete(usage, DEAD_ROW) > 0.5).all()
        entries = sums.values(0) / np.maximum(usage, np.float32(CLUSTER_FLOOR))[:, None]
        assert entries.std() == pytest.approx(sums.std, rel=0.1)
        assert entries[DEAD_ROW].std() == pytest.approx(sums.std, rel=0.6)
        assert sums.values(0).std() > 1.5 * sums.std  # so a missing division shows


def test_the_end_token_is_quiet_unless_the_shape_says_otherwise() -> None:
    def end_row(preset: str) -> float:
        head = next(t for t in talker_tensors(SHAPES[preset]) if t.name == "talker.codec_head.weight")
        values = head.values(0)
        return float(values[128 + 102].std() / values[:128].std())

    assert end_row("tiny") == pytest.approx(0.1, rel=0.3)
    assert end_row("tiny-ends") == pytest.approx(4, rel=0.3)


def test_values_depend_on_name_and_seed_only() -> None:
    base = Tensor("a", (64, 8), 1.0)
    assert np.array_equal(base.values(3), Tensor("a", (512,), 1.0).values(3).reshape(64, 8))
    assert not np.array_equal(base.values(3), base.values(4))
    assert not np.array_equal(base.values(3), Tensor("b", (64, 8), 1.0).values(3))


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0.0, 0x0000),
        (1.0, 0x3F80),
        (-2.5, 0xC020),
        (1.00390625, 0x3F80),  # half way between 0x3F80 and 0x3F81: to even
        (1.01171875, 0x3F82),  # half way between 0x3F81 and 0x3F82: to even
        (1.004, 0x3F81),
        (-1.0039, 0xBF80),
        (0.99999, 0x3F80),  # rounding carries into the exponent
    ],
)
def test_bfloat16_rounds_to_nearest_even(value: float, bits: int) -> None:
    assert to_bfloat16(np.array([value], np.float32)).tolist() == [bits]

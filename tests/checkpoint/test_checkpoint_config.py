"""The typed configs: everything is read from the file, and what cannot be run is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_checkpoint import CODEC_CONFIG, CONFIG, GENERATION, changed

from kazeia.checkpoint import (
    CodecConfig,
    ModelConfig,
    needs_projection,
)
from kazeia.checkpoint._fields import read_json
from kazeia.checkpoint.config import check_pair
from kazeia.checkpoint.generation import GenerationDefaults
from kazeia.errors import ConfigError


def test_every_value_comes_from_the_file() -> None:
    config = ModelConfig.from_dict(CONFIG)
    talker = config.talker
    assert (config.tts_model_type, config.tts_model_size) == ("custom_voice", "0b6")
    assert (config.im_start_token_id, config.im_end_token_id, config.assistant_token_id) == (294, 295, 292)
    assert (config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id) == (296, 297, 298)
    assert (talker.vocab_size, talker.text_vocab_size, talker.text_hidden_size) == (128, 300, 32)
    assert talker.code_predictor.vocab_size == 64
    assert talker.num_code_groups == talker.code_predictor.num_code_groups == 4
    stack = talker.transformer
    assert (stack.hidden_size, stack.intermediate_size, stack.num_hidden_layers) == (32, 48, 1)
    assert (stack.num_attention_heads, stack.num_key_value_heads, stack.head_dim) == (2, 1, 16)
    assert (stack.rms_norm_eps, stack.rope_theta, stack.max_position_embeddings) == (1e-6, 10000.0, 128)
    assert talker.codec_language_id == {"french": 80, "chinese": 81, "beijing_dialect": 82}
    assert list(talker.spk_id) == ["kazeia", "dylan"]
    assert talker.spk_is_dialect == {"kazeia": None, "dylan": "beijing_dialect"}
    ids = (talker.codec_bos_id, talker.codec_eos_token_id, talker.codec_pad_id, talker.codec_think_id)
    assert ids == (70, 71, 72, 73)
    assert (talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id) == (74, 75, 76)


def test_the_codec_config_knows_its_samples_per_frame() -> None:
    codec = CodecConfig.from_dict(CODEC_CONFIG)
    assert (codec.sample_rate, codec.decode_upsample_rate) == (24000, 24)
    assert codec.decoder.samples_per_frame == 24
    assert codec.decoder.upsample_rates == (3, 2)
    assert codec.decoder.upsampling_ratios == (2, 2)


def _keys(data: dict[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key, value in data.items():
        keys.append(prefix + key)
        if isinstance(value, dict) and key.endswith("_config"):
            keys += _keys(value, f"{prefix}{key}.")
    return keys


_VARIANTS = {"hidden_act", "attention_bias", "rope_scaling", "sliding_window"}
_MAY_BE_ABSENT = _VARIANTS | {"layer_types", "an_unknown_key"}
_REQUIRED = [key for key in _keys(CONFIG) if key.split(".")[-1] not in _MAY_BE_ABSENT]
_CODEC_REQUIRED = [
    key
    for key in _keys(CODEC_CONFIG)
    if key.split(".")[-1] not in {"hidden_act", "attention_bias", "input_sample_rate"}
]


@pytest.mark.parametrize("key", _REQUIRED)
def test_a_missing_key_is_named_never_defaulted(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^some/config\.json: {key}"):
        ModelConfig.from_dict(changed(CONFIG, key, ...), file="some/config.json")


@pytest.mark.parametrize("key", _REQUIRED)
def test_a_key_of_the_wrong_type_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^some/config\.json: {key}.*\[1\.5\]"):
        ModelConfig.from_dict(changed(CONFIG, key, [1.5]), file="some/config.json")


@pytest.mark.parametrize("key", _CODEC_REQUIRED)
@pytest.mark.parametrize("value", [..., "nonsense", [0.5], None])
def test_the_codec_config_names_missing_and_wrong_keys(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^codec\.json: {key}"):
        CodecConfig.from_dict(changed(CODEC_CONFIG, key, value), file="codec.json")


@pytest.mark.parametrize("key", sorted(_VARIANTS))
@pytest.mark.parametrize("stack", ["talker_config", "talker_config.code_predictor_config"])
def test_keys_that_only_name_variants_may_be_absent(stack: str, key: str) -> None:
    assert ModelConfig.from_dict(changed(CONFIG, f"{stack}.{key}", ...)) == ModelConfig.from_dict(CONFIG)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hidden_act", "gelu"),
        ("attention_bias", True),
        ("attention_bias", "no"),
        ("sliding_window", 72),
        ("head_dim", 24),
        ("num_attention_heads", 3),
        ("hidden_size", 0),
        ("hidden_size", -32),
        ("hidden_size", True),
        ("hidden_size", 32.0),
        ("rms_norm_eps", 0),
        ("rope_theta", float("nan")),
        ("rope_theta", float("inf")),
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("rope_scaling.rope_type", "yarn"),
        ("rope_scaling.type", "linear"),
        ("rope_scaling", "default"),
    ],
)
@pytest.mark.parametrize("stack", ["talker_config", "talker_config.code_predictor_config"])
def test_a_stack_that_cannot_be_run_is_refused_by_name(stack: str, path: str, value: Any) -> None:
    config = changed(CONFIG, f"{stack}.num_key_value_heads", 2)
    config = changed(config, f"{stack}.rope_scaling", {})
    with pytest.raises(ConfigError, match=rf"config\.json: {stack}\.{path}: found "):
        ModelConfig.from_dict(changed(config, f"{stack}.{path}", value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model_type", "llama"),
        ("tokenizer_type", "qwen3_tts_tokenizer_25hz"),
        ("im_start_token_id", 300),
        ("tts_pad_token_id", -1),
        ("talker_config.codec_bos_id", 128),
        ("talker_config.codec_language_id.french", 128),
        ("talker_config.spk_id.kazeia", 128),
        ("talker_config.spk_is_dialect.kazeia", "london_dialect"),
        ("talker_config.spk_is_dialect.kazeia", True),
        ("talker_config.code_predictor_config.num_code_groups", 5),
        ("talker_config.num_code_groups", 1),
    ],
)
def test_a_model_that_cannot_be_run_is_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: {path}: found "):
        ModelConfig.from_dict(changed(CONFIG, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model_type", "encodec"),
        ("decode_upsample_rate", 25),
        ("decoder_config.num_semantic_quantizers", 2),
        ("decoder_config.hidden_act", "gelu"),
        ("decoder_config.attention_bias", True),
        ("decoder_config.num_attention_heads", 3),
        ("decoder_config.codebook_dim", 9),
        ("decoder_config.head_dim", 7),
        ("decoder_config.decoder_dim", 18),
        ("decoder_config.upsample_rates", []),
        ("decoder_config.upsample_rates", [3, 0]),
    ],
)
def test_a_codec_that_cannot_be_run_is_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: {path}: found "):
        CodecConfig.from_dict(changed(CODEC_CONFIG, path, value))


def test_another_model_is_told_with_what_was_found_and_expected() -> None:
    with pytest.raises(ConfigError, match=r'"llama".*"qwen3_tts"'):
        ModelConfig.from_dict({"model_type": "llama"})
    with pytest.raises(ConfigError, match=r'model_type: missing.*"qwen3_tts"'):
        ModelConfig.from_dict({"hidden_size": 1})


@pytest.mark.parametrize("kind", ["base", "voice_design"])
def test_models_without_preset_speakers_load_as_a_config(kind: str) -> None:
    config = changed(changed(CONFIG, "tts_model_type", kind), "talker_config.spk_id", {})
    assert ModelConfig.from_dict(config).talker.spk_id == {}


def test_a_custom_voice_model_without_speakers_is_refused() -> None:
    with pytest.raises(ConfigError, match="spk_id"):
        ModelConfig.from_dict(changed(CONFIG, "talker_config.spk_id", {}))


@pytest.mark.parametrize(("path", "value"), [("num_quantizers", 5), ("codebook_size", 65)])
def test_a_codec_of_another_model_is_refused(path: str, value: int) -> None:
    codec = CodecConfig.from_dict(changed(CODEC_CONFIG, f"decoder_config.{path}", value))
    check_pair(ModelConfig.from_dict(CONFIG), CodecConfig.from_dict(CODEC_CONFIG))
    with pytest.raises(ConfigError, match=f"{path}, {value}"):
        check_pair(ModelConfig.from_dict(CONFIG), codec)


@pytest.mark.parametrize(("width", "needed"), [(32, False), (64, True), (16, True)])
def test_l02_the_projection_is_needed_exactly_when_the_widths_differ(width: int, needed: bool) -> None:
    config = ModelConfig.from_dict(changed(CONFIG, "talker_config.hidden_size", width))
    assert needs_projection(config) is needed


def test_generation_defaults_are_none_where_absent() -> None:
    assert GenerationDefaults.from_dict({}) == GenerationDefaults()
    defaults = GenerationDefaults.from_dict(GENERATION)
    assert (defaults.do_sample, defaults.temperature, defaults.top_k) == (True, 0.9, 50)
    assert defaults.max_new_tokens == 8192
    assert defaults.subtalker_temperature is None


@pytest.mark.parametrize(
    ("key", "value"), [("do_sample", 1), ("temperature", "hot"), ("top_k", 1.5), ("top_k", True)]
)
def test_generation_defaults_of_the_wrong_type_are_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"generation_config.json: {key}"):
        GenerationDefaults.from_dict({key: value})


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_l06_json_is_read_with_bom_and_crlf(tmp_path: Path, mark: bytes, end: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(mark + json.dumps({"clé": [1, 2]}, indent=1).replace("\n", end).encode())
    assert read_json(file) == {"clé": [1, 2]}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "list"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_json_that_cannot_be_read_names_the_file(tmp_path: Path, data: bytes, told: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=rf"config\.json: .*{told}"):
        read_json(file)

"""The checkpoint's JSON files as typed, frozen values (spec §1.4, §1.5, §4.4, §5.1).

Every dimension is read from the file: the class defaults of the official package describe another
model (spec §1.5), so a missing key is an error, never a default. Unknown keys are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kazeia.checkpoint._fields import Fields
from kazeia.errors import ConfigError

MODEL_TYPE = "qwen3_tts"
TOKENIZER_TYPE = "qwen3_tts_tokenizer_12hz"
CONFIG_FILE = "config.json"
CODEC_CONFIG_FILE = "speech_tokenizer/config.json"

# ONNX Runtime's GroupQueryAttention takes head sizes in steps of 16 only.
HEAD_STEP = 16


@dataclass(frozen=True)
class TransformerConfig:
    """The dimensions of one decoder stack (spec §1.4, §2.1)."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, file: str = CONFIG_FILE, path: str = ""
    ) -> TransformerConfig:
        """Read one stack; `path` is where `data` stands in `file`. Raises ConfigError."""
        fields = Fields(data, file, path)
        _check_layers(fields)
        _check_full_attention(fields)
        config = cls(
            hidden_size=fields.integer("hidden_size"),
            intermediate_size=fields.integer("intermediate_size"),
            num_hidden_layers=fields.integer("num_hidden_layers"),
            num_attention_heads=fields.integer("num_attention_heads"),
            num_key_value_heads=fields.integer("num_key_value_heads"),
            head_dim=fields.integer("head_dim"),
            rms_norm_eps=fields.positive("rms_norm_eps"),
            rope_theta=fields.positive("rope_theta"),
            max_position_embeddings=fields.integer("max_position_embeddings"),
        )
        _check_heads(fields, config.num_attention_heads, config.num_key_value_heads)
        if config.head_dim % HEAD_STEP:
            raise fields.error(
                "head_dim",
                f"found {config.head_dim}, expected a multiple of {HEAD_STEP} "
                "(the attention kernel of ONNX Runtime takes no other)",
            )
        return config


@dataclass(frozen=True)
class CodePredictorConfig:
    """The code predictor (spec §3)."""

    transformer: TransformerConfig
    vocab_size: int  # codes per codebook
    num_code_groups: int  # codebooks per frame, the talker's own included

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, file: str = CONFIG_FILE, path: str = ""
    ) -> CodePredictorConfig:
        """Read `code_predictor_config`. Raises ConfigError."""
        fields = Fields(data, file, path)
        return cls(
            transformer=TransformerConfig.from_dict(data, file=file, path=path),
            vocab_size=fields.integer("vocab_size"),
            num_code_groups=fields.integer("num_code_groups", 2),
        )


@dataclass(frozen=True)
class TalkerConfig:
    """The talker with its control, language and speaker ids (spec §1.5)."""

    transformer: TransformerConfig
    vocab_size: int  # rows of the codec embedding and of the codec head
    text_vocab_size: int
    text_hidden_size: int
    num_code_groups: int
    code_predictor: CodePredictorConfig
    codec_bos_id: int
    codec_eos_token_id: int
    codec_pad_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: Mapping[str, int]
    spk_id: Mapping[str, int]
    spk_is_dialect: Mapping[str, str | None]  # the dialect's name in codec_language_id, or None

    @property
    def needs_projection(self) -> bool:
        """Whether the code predictor is of another width, so that its inputs are projected (spec §3.1)."""
        return self.transformer.hidden_size != self.code_predictor.transformer.hidden_size

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that may be asked for; dialects come with their voices (spec §2.4)."""
        return tuple(name for name in self.codec_language_id if not name.endswith("_dialect"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, file: str = CONFIG_FILE, path: str = "") -> TalkerConfig:
        """Read `talker_config`. Raises ConfigError."""
        fields = Fields(data, file, path)
        child = fields.child("code_predictor_config")
        predictor = CodePredictorConfig.from_dict(child.data, file=file, path=child.path)
        groups = fields.integer("num_code_groups", 2)
        if groups != predictor.num_code_groups:
            raise child.error(
                "num_code_groups", f"found {predictor.num_code_groups}, expected the talker's {groups}"
            )
        size = fields.integer("vocab_size")
        languages = fields.ids("codec_language_id", size)
        speakers = fields.ids("spk_id", size, required=False)
        return cls(
            transformer=TransformerConfig.from_dict(data, file=file, path=path),
            vocab_size=size,
            text_vocab_size=fields.integer("text_vocab_size"),
            text_hidden_size=fields.integer("text_hidden_size"),
            num_code_groups=groups,
            code_predictor=predictor,
            codec_bos_id=fields.token("codec_bos_id", size),
            codec_eos_token_id=fields.token("codec_eos_token_id", size),
            codec_pad_id=fields.token("codec_pad_id", size),
            codec_think_id=fields.token("codec_think_id", size),
            codec_nothink_id=fields.token("codec_nothink_id", size),
            codec_think_bos_id=fields.token("codec_think_bos_id", size),
            codec_think_eos_id=fields.token("codec_think_eos_id", size),
            codec_language_id=languages,
            spk_id=speakers,
            spk_is_dialect=_dialects(fields, speakers, languages),
        )


@dataclass(frozen=True)
class ModelConfig:
    """`config.json` of a checkpoint (spec §1.5)."""

    tts_model_type: str  # "custom_voice", "base" or "voice_design"
    tts_model_size: str  # "0b6" or "1b7"
    tokenizer_type: str
    im_start_token_id: int
    im_end_token_id: int
    assistant_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    talker: TalkerConfig

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, file: str = CONFIG_FILE) -> ModelConfig:
        """Read `config.json`; `file` is the name used in messages.

        Any `tts_model_type` is accepted here; what can be spoken with it is the engine's affair.
        Raises ConfigError.
        """
        fields = Fields(data, file)
        _check_type(fields, "model_type", MODEL_TYPE)
        _check_type(fields, "tokenizer_type", TOKENIZER_TYPE)
        child = fields.child("talker_config")
        talker = TalkerConfig.from_dict(child.data, file=file, path=child.path)
        size = talker.text_vocab_size
        kind = fields.text("tts_model_type")
        if kind == "custom_voice" and not talker.spk_id:
            raise fields.error(
                "talker_config.spk_id", "no speaker is listed, but a custom_voice model has at least one"
            )
        return cls(
            tts_model_type=kind,
            tts_model_size=fields.text("tts_model_size"),
            tokenizer_type=fields.text("tokenizer_type"),
            im_start_token_id=fields.token("im_start_token_id", size),
            im_end_token_id=fields.token("im_end_token_id", size),
            assistant_token_id=fields.token("assistant_token_id", size),
            tts_pad_token_id=fields.token("tts_pad_token_id", size),
            tts_bos_token_id=fields.token("tts_bos_token_id", size),
            tts_eos_token_id=fields.token("tts_eos_token_id", size),
            talker=talker,
        )


@dataclass(frozen=True)
class CodecDecoderConfig:
    """The speech tokenizer's decoder, codes to samples (spec §5.1)."""

    latent_dim: int
    codebook_dim: int  # each of the two residual quantizers works at half of it
    codebook_size: int
    decoder_dim: int
    hidden_size: int
    intermediate_size: int
    head_dim: int
    num_attention_heads: int
    num_hidden_layers: int
    num_key_value_heads: int
    num_quantizers: int
    num_semantic_quantizers: int
    rms_norm_eps: float
    rope_theta: float
    sliding_window: int  # frames
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]

    @property
    def samples_per_frame(self) -> int:
        """Samples that one frame of codes becomes: the product of all the upsampling factors."""
        return math.prod(self.upsample_rates) * math.prod(self.upsampling_ratios)

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, file: str = CODEC_CONFIG_FILE, path: str = ""
    ) -> CodecDecoderConfig:
        """Read `decoder_config`. Raises ConfigError."""
        fields = Fields(data, file, path)
        _check_layers(fields)
        config = cls(
            latent_dim=fields.integer("latent_dim"),
            codebook_dim=fields.integer("codebook_dim", 2),
            codebook_size=fields.integer("codebook_size"),
            decoder_dim=fields.integer("decoder_dim"),
            hidden_size=fields.integer("hidden_size"),
            intermediate_size=fields.integer("intermediate_size"),
            head_dim=fields.integer("head_dim", 2),
            num_attention_heads=fields.integer("num_attention_heads"),
            num_hidden_layers=fields.integer("num_hidden_layers"),
            num_key_value_heads=fields.integer("num_key_value_heads"),
            num_quantizers=fields.integer("num_quantizers", 2),
            num_semantic_quantizers=fields.integer("num_semantic_quantizers"),
            rms_norm_eps=fields.positive("rms_norm_eps"),
            rope_theta=fields.positive("rope_theta"),
            sliding_window=fields.integer("sliding_window"),
            upsample_rates=fields.integers("upsample_rates"),
            upsampling_ratios=fields.integers("upsampling_ratios"),
        )
        _check_heads(fields, config.num_attention_heads, config.num_key_value_heads)
        if config.num_semantic_quantizers != 1:
            raise fields.error(
                "num_semantic_quantizers", f"found {config.num_semantic_quantizers}, expected 1"
            )
        for key, value, step in (
            ("codebook_dim", config.codebook_dim, 2),
            ("head_dim", config.head_dim, 2),
            ("decoder_dim", config.decoder_dim, 2 ** len(config.upsample_rates)),  # halved at every rate
        ):
            if value % step:
                raise fields.error(key, f"found {value}, expected a multiple of {step}")
        return config


@dataclass(frozen=True)
class CodecConfig:
    """`speech_tokenizer/config.json` (spec §5.1)."""

    sample_rate: int  # Hz, `output_sample_rate` in the file
    decode_upsample_rate: int  # samples per frame
    decoder: CodecDecoderConfig

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, file: str = CODEC_CONFIG_FILE) -> CodecConfig:
        """Read the speech tokenizer's config; `file` is the name used in messages. Raises ConfigError."""
        fields = Fields(data, file)
        _check_type(fields, "model_type", TOKENIZER_TYPE)
        child = fields.child("decoder_config")
        decoder = CodecDecoderConfig.from_dict(child.data, file=file, path=child.path)
        rate = fields.integer("decode_upsample_rate")
        if rate != decoder.samples_per_frame:
            raise fields.error(
                "decode_upsample_rate",
                f"found {rate}, expected {decoder.samples_per_frame}, the product of "
                "decoder_config.upsample_rates and decoder_config.upsampling_ratios",
            )
        return cls(fields.integer("output_sample_rate"), rate, decoder)


def needs_projection(config: ModelConfig) -> bool:
    """True when `talker.code_predictor.small_to_mtp_projection.*` must exist (spec §3.1).

    That is exactly when the talker is wider or narrower than the code predictor; otherwise the
    projection is the identity and the tensors must be absent.
    """
    return config.talker.needs_projection


def check_pair(config: ModelConfig, codec: CodecConfig, *, file: str = CONFIG_FILE) -> None:
    """Raise ConfigError when the speech tokenizer cannot decode what the model says."""
    talker, decoder = config.talker, codec.decoder
    if talker.num_code_groups != decoder.num_quantizers:
        raise ConfigError(
            f"{file}: talker_config.num_code_groups: found {talker.num_code_groups}, expected the speech "
            f"tokenizer's num_quantizers, {decoder.num_quantizers}; the two belong to different models"
        )
    if talker.code_predictor.vocab_size != decoder.codebook_size:
        raise ConfigError(
            f"{file}: talker_config.code_predictor_config.vocab_size: found "
            f"{talker.code_predictor.vocab_size}, expected the speech tokenizer's codebook_size, "
            f"{decoder.codebook_size}; the two belong to different models"
        )


def _check_type(fields: Fields, key: str, expected: str) -> None:
    found = fields.raw(key)
    if found is None:
        raise fields.error(
            key, f'missing; expected "{expected}". This is not the config of a Qwen3-TTS-12Hz model'
        )
    if found != expected:
        raise fields.error(
            key, f'found "{found}", expected "{expected}". This folder holds another kind of model'
        )


def _check_layers(fields: Fields) -> None:
    """Refuse layer variants that the graphs do not build; an absent key means the usual layer."""
    act = fields.raw("hidden_act")
    if act is not None and act != "silu":
        raise fields.error("hidden_act", f'found "{act}", expected "silu"; other activations cannot be run')
    if fields.maybe_boolean("attention_bias"):
        raise fields.error("attention_bias", "found true, expected false; biases cannot be run")
    scaling = fields.raw("rope_scaling")
    if scaling is None:
        return
    scaling_fields = fields.child("rope_scaling")
    for key in ("rope_type", "type"):
        # mrope_section and interleaved beside "default" are still plain RoPE here (spec §2.1).
        if scaling_fields.raw(key) not in (None, "default"):
            raise scaling_fields.error(
                key, f'found "{scaling_fields.raw(key)}", expected "default"; scaled RoPE cannot be run'
            )


def _check_full_attention(fields: Fields) -> None:
    if fields.raw("sliding_window") is not None:
        raise fields.error(
            "sliding_window", f"found {fields.raw('sliding_window')}, expected null; it cannot be run here"
        )
    layer_types = fields.raw("layer_types")
    if isinstance(layer_types, list):
        for kind in layer_types:
            if kind != "full_attention":
                raise fields.error("layer_types", f'found "{kind}", expected only "full_attention"')


def _check_heads(fields: Fields, heads: int, kv_heads: int) -> None:
    if heads % kv_heads:
        raise fields.error(
            "num_attention_heads",
            f"found {heads}, expected a multiple of num_key_value_heads, {kv_heads}",
        )


def _dialects(
    fields: Fields, speakers: Mapping[str, int], languages: Mapping[str, int]
) -> dict[str, str | None]:
    if not speakers:
        return {}
    child = fields.child("spk_is_dialect")
    dialects: dict[str, str | None] = {}
    for name in speakers:
        value = child.raw(name)
        if value is None or value is False:
            dialects[name] = None
        elif isinstance(value, str) and value in languages:
            dialects[name] = value
        else:
            raise child.error(name, f"found {value!r}, expected false or a key of codec_language_id")
    return dialects

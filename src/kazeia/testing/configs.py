"""The JSON files of a checkpoint (spec §1.1, §1.5, §4.4, §5.1, §6.1)."""

from __future__ import annotations

from typing import Any

from kazeia.testing.shapes import (
    CODE_GROUPS,
    CONTROL_IDS,
    ENCODER_QUANTIZERS,
    ENCODER_RATIOS,
    UPSAMPLE_RATES,
    UPSAMPLING_RATIOS,
    Shape,
)

TRANSFORMERS_VERSION = "4.57.3"

GENERATION: dict[str, Any] = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}
"""generation_config.json: the released defaults (spec §4.4)."""

PROCESSOR: dict[str, Any] = {"padding_side": "left", "processor_class": "Qwen3TTSProcessor"}

FEATURE_EXTRACTOR: dict[str, Any] = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}


def model_config(shape: Shape, text_ids: dict[str, int]) -> dict[str, Any]:
    """Return config.json; `text_ids` are the tokenizer's control ids by their key in the file."""
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        **text_ids,
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": shape.model_size,
        "tts_model_type": shape.model_type,
        "talker_config": _talker_config(shape),
        "transformers_version": TRANSFORMERS_VERSION,
    }


def _talker_config(shape: Shape) -> dict[str, Any]:
    base = shape.codebook
    pairs = shape.head_dim // 2
    side = pairs * 20 // 64  # the released [24, 20, 20] of 64 pairs
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "code_predictor_config": {
            "attention_bias": False,
            "attention_dropout": 0,
            "head_dim": shape.predictor_head_dim,
            "hidden_act": "silu",
            "hidden_size": shape.predictor_hidden,
            "initializer_range": 0.02,
            "intermediate_size": shape.predictor_intermediate,
            "layer_types": ["full_attention"] * shape.predictor_layers,
            "max_position_embeddings": 65536,
            "max_window_layers": 28,
            "model_type": "qwen3_tts_talker_code_predictor",
            "num_attention_heads": shape.predictor_heads,
            "num_code_groups": CODE_GROUPS,
            "num_hidden_layers": shape.predictor_layers,
            "num_key_value_heads": shape.predictor_kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_scaling": None,
            "rope_theta": shape.predictor_rope_theta,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": shape.codebook,
        },
        **{key: base + row for key, row in CONTROL_IDS.items() if key != "codec_pad_id"},
        "codec_pad_id": base + CONTROL_IDS["codec_pad_id"],
        "codec_language_id": {name: base + row for name, row in (*shape.languages, *shape.dialects)},
        "spk_id": {name: base + row for name, row, _ in shape.speakers},
        "spk_is_dialect": {name: dialect or False for name, _, dialect in shape.speakers},
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": 32768,
        "model_type": "qwen3_tts_talker",
        "num_attention_heads": shape.heads,
        "num_code_groups": CODE_GROUPS,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": base + CONTROL_IDS["codec_pad_id"],
        "position_id_per_seconds": 13,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [pairs - 2 * side, side, side],
            "rope_type": "default",
            "type": "default",
        },
        "rope_theta": shape.rope_theta,
        "sliding_window": None,
        "text_hidden_size": shape.text_hidden,
        "text_vocab_size": shape.text_vocab,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": shape.codec_vocab,
    }


def codec_config(shape: Shape) -> dict[str, Any]:
    """Return speech_tokenizer/config.json."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": CODE_GROUPS,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "latent_dim": shape.latent,
            "codebook_dim": shape.codebook_dim,
            "codebook_size": shape.codebook,
            "decoder_dim": shape.decoder_dim,
            "hidden_act": "silu",
            "hidden_size": shape.codec_hidden,
            "intermediate_size": shape.codec_intermediate,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "head_dim": shape.codec_head_dim,
            "num_attention_heads": shape.codec_heads,
            "num_hidden_layers": shape.codec_layers,
            "num_key_value_heads": shape.codec_heads,
            "num_quantizers": CODE_GROUPS,
            "num_semantic_quantizers": 1,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000,
            # These two are in the released file and unused (spec §5.1).
            "semantic_codebook_size": 4096,
            "vector_quantization_hidden_dimension": 512,
            "sliding_window": shape.codec_window,
            "upsample_rates": list(UPSAMPLE_RATES),
            "upsampling_ratios": list(UPSAMPLING_RATIOS),
        },
        "encoder_config": _encoder_config(shape),
        "transformers_version": TRANSFORMERS_VERSION,
    }


def _encoder_config(shape: Shape) -> dict[str, Any]:
    return {
        "_frame_rate": 12.5,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": shape.encoder_codebook_dim,
        "codebook_size": shape.codebook,
        "compress": 2,
        "dilation_growth_rate": 2,
        "dtype": "float32",
        "head_dim": shape.encoder_head_dim,
        "hidden_act": "gelu",
        "hidden_size": shape.encoder_hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.encoder_intermediate,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-5,
        "normalize": False,
        "num_attention_heads": shape.encoder_heads,
        "num_filters": shape.encoder_filters,
        "num_hidden_layers": shape.encoder_layers,
        "num_key_value_heads": shape.encoder_heads,
        "num_quantizers": ENCODER_QUANTIZERS,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "sliding_window": 250,
        "transformers_version": "4.57.0.dev0",
        "trim_right_ratio": 1.0,
        "upsample_groups": shape.encoder_hidden,
        "upsampling_ratios": list(ENCODER_RATIOS),
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": shape.encoder_codebook_dim,
    }

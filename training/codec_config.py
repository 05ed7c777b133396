"""Dimensions of the codec decoder, as they stand in speech_tokenizer/config.json."""

from __future__ import annotations

from typing import Any

import common
import synthesis

DECODER: dict[str, Any] = {
    "attention_bias": False, "attention_dropout": 0.0, "latent_dim": synthesis.LATENT, "codebook_dim": 256,
    "codebook_size": common.CODES, "decoder_dim": synthesis.WIDTH, "hidden_act": "silu", "hidden_size": 256,
    "intermediate_size": 512, "layer_scale_initial_scale": 0.1, "max_position_embeddings": 8000, "head_dim": 64,
    "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 4, "num_quantizers": common.STREAMS,
    "num_semantic_quantizers": 1, "rms_norm_eps": 1e-5, "rope_theta": 10000, "semantic_codebook_size": 4096,
    "sliding_window": 16, "upsample_rates": [8, 5, 4, 3], "upsampling_ratios": list(synthesis.RATIOS),
    "vector_quantization_hidden_dimension": 512,
}  # fmt: skip

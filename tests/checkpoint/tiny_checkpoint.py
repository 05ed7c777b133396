"""Writes the smallest folders that open as a checkpoint, and safetensors files byte by byte."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_STACK = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_act": "silu",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "rope_scaling": None,
    "sliding_window": None,
    "max_position_embeddings": 128,
}
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_tts",
    "tokenizer_type": "qwen3_tts_tokenizer_12hz",
    "tts_model_type": "custom_voice",
    "tts_model_size": "0b6",
    "im_start_token_id": 294,
    "im_end_token_id": 295,
    "assistant_token_id": 292,
    "tts_pad_token_id": 296,
    "tts_bos_token_id": 297,
    "tts_eos_token_id": 298,
    "an_unknown_key": {"is": "ignored"},
    "talker_config": {
        **_STACK,
        "rope_scaling": {
            "type": "default",
            "rope_type": "default",
            "mrope_section": [4, 2, 2],
            "interleaved": True,
        },
        "vocab_size": 128,
        "text_vocab_size": 300,
        "text_hidden_size": 32,
        "num_code_groups": 4,
        "codec_bos_id": 70,
        "codec_eos_token_id": 71,
        "codec_pad_id": 72,
        "codec_think_id": 73,
        "codec_nothink_id": 74,
        "codec_think_bos_id": 75,
        "codec_think_eos_id": 76,
        "codec_language_id": {"french": 80, "chinese": 81, "beijing_dialect": 82},
        "spk_id": {"kazeia": 90, "dylan": 91},
        "spk_is_dialect": {"kazeia": False, "dylan": "beijing_dialect"},
        "code_predictor_config": {
            **_STACK,
            "vocab_size": 64,
            "num_code_groups": 4,
            "layer_types": ["full_attention"],
        },
    },
}
CODEC_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "input_sample_rate": 24000,
    "output_sample_rate": 24000,
    "decode_upsample_rate": 24,
    "decoder_config": {
        "latent_dim": 16,
        "codebook_dim": 8,
        "codebook_size": 64,
        "decoder_dim": 16,
        "hidden_size": 16,
        "hidden_act": "silu",
        "intermediate_size": 16,
        "attention_bias": False,
        "head_dim": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "num_quantizers": 4,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000,
        "sliding_window": 4,
        "upsample_rates": [3, 2],
        "upsampling_ratios": [2, 2],
    },
}
GENERATION = {"do_sample": True, "temperature": 0.9, "top_k": 50, "max_new_tokens": 8192}

_DTYPES = {"F32": ("<f4", 4), "F16": ("<f2", 2), "BF16": ("<u2", 2), "I64": ("<i8", 8)}
Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]

TENSORS: dict[str, tuple[str, tuple[int, ...], bytes]] = {
    "talker.model.norm.weight": ("F32", (4,), np.arange(4, dtype="<f4").tobytes()),
    "talker.codec_head.weight": ("F32", (2, 3), np.arange(6, dtype="<f4").tobytes()),
}


def changed(data: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A deep copy of `data` with the value at the dotted `path` replaced; `...` removes the key."""
    result = copy.deepcopy(dict(data))
    *parents, last = path.split(".")
    place = result
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return result


def header_of(tensors: Tensors) -> tuple[dict[str, Any], bytes]:
    """The header object and the body of a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, (dtype, shape, data) in tensors.items():
        assert len(data) == math.prod(shape) * _DTYPES[dtype][1]
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    return header, body


def pack(header: Any, body: bytes, pad: int = 0) -> bytes:
    """A safetensors file from a header (an object, or raw bytes) and a body."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += b" " * pad
    return len(raw).to_bytes(8, "little") + raw + body


def write_safetensors(path: Path, tensors: Tensors = TENSORS) -> None:
    path.write_bytes(pack(*header_of(tensors)))


def write_shards(folder: Path, shards: list[Tensors]) -> None:
    """An index and its shards, named as the hub names them."""
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(folder / name, tensors)
        weight_map.update(dict.fromkeys(tensors, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), "utf-8")


def write_checkpoint(
    folder: Path, config: Mapping[str, Any] = CONFIG, codec: Mapping[str, Any] = CODEC_CONFIG
) -> Path:
    """A folder with every file of a checkpoint; returns it."""
    (folder / "speech_tokenizer").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION), "utf-8")
    (folder / "vocab.json").write_text("{}", "utf-8")
    (folder / "merges.txt").write_text("", "utf-8")
    write_safetensors(folder / "model.safetensors")
    (folder / "speech_tokenizer" / "config.json").write_text(json.dumps(codec), "utf-8")
    write_safetensors(folder / "speech_tokenizer" / "model.safetensors")
    return folder

"""The official package's codec decoder, imported without its optional audio dependencies."""

from __future__ import annotations

import importlib.machinery
import sys
import types

import codec_config
from torch import nn


def decoder() -> nn.Module:
    """Qwen3TTSTokenizerV2Decoder at this voice's dimensions, random weights."""
    for name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi", "sox"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            sys.modules[name] = module
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
        Qwen3TTSTokenizerV2DecoderConfig,
    )
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Decoder

    return Qwen3TTSTokenizerV2Decoder(Qwen3TTSTokenizerV2DecoderConfig(**codec_config.DECODER))

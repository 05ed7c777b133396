"""Talker and code predictor at small size, with the tensor names of the official checkpoint.

Sizes are written once, in `TALKER` and `PREDICTOR`; export.py copies them into config.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import codes
import common
import torch
from torch import nn

F = nn.functional


@dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    theta: float = 10_000.0
    eps: float = 1e-6


TALKER = Shape(256, 4, 4, 2, 64, 512, theta=100.0)
PREDICTOR = Shape(128, 2, 2, 1, 64, 256)
TEXT_VOCAB, TEXT_WIDTH, VOCAB = 300, 256, common.CODES + 1024
IM_START, ASSISTANT, NEWLINE = 294, 292, 10
TTS_PAD, TTS_BOS, TTS_EOS = 296, 297, 298
PAD, BOS, EOS, THINK, NOTHINK, THINK_BOS, THINK_EOS = 356, 357, 358, 362, 363, 364, 365
LANGUAGE_ID = {"english": 258, "french": 269}
SPEAKER_ID = 1256
# Head h of such a layer reads the token this far behind the one that c8 points at.
GUIDES = {0: (0, 1, 2, 3), 1: (-1, 0, 1, 2)}


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm, self.k_norm = Norm(s.head_dim, s.eps), Norm(s.head_dim, s.eps)

    def forward(self, x: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor):
        s, (b, t, _) = self.s, x.shape
        q = rotate(self.q_norm(self.q_proj(x).view(b, t, s.heads, s.head_dim)).transpose(1, 2), *rope)
        k = rotate(self.k_norm(self.k_proj(x).view(b, t, s.kv_heads, s.head_dim)).transpose(1, 2), *rope)
        v = self.v_proj(x).view(b, t, s.kv_heads, s.head_dim).transpose(1, 2)
        group = s.heads // s.kv_heads
        # Query heads of one group share keys: fold them into the rows instead of repeating keys.
        q = q.reshape(b, s.kv_heads, group * t, s.head_dim)
        p = (q @ k.transpose(-1, -2)).view(b, s.kv_heads, group, t, t) * s.head_dim**-0.5 + mask
        p = p.softmax(-1)
        y = (p.view(b, s.kv_heads, group * t, t) @ v).view(b, s.heads, t, s.head_dim)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1)), p.view(b, s.heads, t, t)


class Mlp(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(s.hidden, s.inner, bias=False)
        self.up_proj = nn.Linear(s.hidden, s.inner, bias=False)
        self.down_proj = nn.Linear(s.inner, s.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(s), Mlp(s)
        self.input_layernorm, self.post_attention_layernorm = Norm(s.hidden, s.eps), Norm(s.hidden, s.eps)


class Stack(nn.Module):
    """Pre-norm decoder layers; returns the normed output and the attention of the guided layers."""

    def __init__(self, s: Shape, guided: bool = False) -> None:
        super().__init__()
        self.s, self.guided = s, guided
        self.layers = nn.ModuleList([Layer(s) for _ in range(s.layers)])
        self.norm = Norm(s.hidden, s.eps)

    def run(self, x: torch.Tensor, dropout: float) -> tuple[torch.Tensor, list[torch.Tensor]]:
        t, half = x.shape[1], self.s.head_dim // 2
        angle = torch.arange(t)[:, None] * self.s.theta ** (-torch.arange(half) / half)[None]
        rope = (angle.cos(), angle.sin())
        mask = torch.full((t, t), float("-inf")).triu(1)
        seen = []
        for i, layer in enumerate(self.layers):
            y, p = layer.self_attn(layer.input_layernorm(x), rope, mask)
            if self.guided and i in GUIDES:
                seen.append(p)
            x = x + F.dropout(y, dropout, self.training and dropout > 0)
            x = x + F.dropout(
                layer.mlp(layer.post_attention_layernorm(x)), dropout, self.training and dropout > 0
            )
        return self.norm(x), seen


class Predictor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Stack(PREDICTOR)
        self.model.codec_embedding = nn.ModuleList(
            [nn.Embedding(common.CODES, TALKER.hidden) for _ in range(common.STREAMS - 1)]
        )
        self.lm_head = nn.ModuleList(
            [nn.Linear(PREDICTOR.hidden, common.CODES, bias=False) for _ in range(common.STREAMS - 1)]
        )
        if TALKER.hidden != PREDICTOR.hidden:
            self.small_to_mtp_projection = nn.Linear(TALKER.hidden, PREDICTOR.hidden)


class TextProjection(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(TEXT_WIDTH, TEXT_WIDTH)
        self.linear_fc2 = nn.Linear(TEXT_WIDTH, TALKER.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear_fc2(F.silu(self.linear_fc1(x)))


class Talker(nn.Module):
    """`state_dict()` keys, prefixed with "talker.", are the checkpoint's tensor names."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Stack(TALKER, guided=True)
        self.model.codec_embedding = nn.Embedding(VOCAB, TALKER.hidden)
        self.model.text_embedding = nn.Embedding(TEXT_VOCAB, TEXT_WIDTH)
        self.text_projection = TextProjection()
        self.codec_head = nn.Linear(TALKER.hidden, VOCAB, bias=False)
        self.code_predictor = Predictor()
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)
        nn.init.normal_(self.model.text_embedding.weight, std=0.5)
        # A distance as the phases that rotary positions give it: a linear map makes a query of it.
        half = TALKER.head_dim // 2
        angle = torch.arange(common.CODES)[:, None] * TALKER.theta ** (-torch.arange(half) / half)[None]
        with torch.no_grad():
            pointer = self.code_predictor.model.codec_embedding[codes.POINTER - 1].weight
            pointer[:, :half], pointer[:, half : 2 * half] = 0.15 * angle.cos(), 0.15 * angle.sin()
        for k in range(codes.USED - 1, common.STREAMS - 1):
            # The noise streams mean nothing to the talker, and any code is as good as another.
            for tensor in (
                self.code_predictor.model.codec_embedding[k].weight,
                self.code_predictor.lm_head[k].weight,
            ):
                nn.init.zeros_(tensor)
                tensor.requires_grad_(False)

    def frame_vectors(self, frames: torch.Tensor) -> torch.Tensor:
        """Codes (…, ≥ USED) -> (…, hidden)."""
        x = self.model.codec_embedding(frames[..., 0])
        for k in range(1, codes.USED):
            x = x + self.code_predictor.model.codec_embedding[k - 1](frames[..., k])
        return x

    def inputs(
        self, text: torch.Tensor, codec: torch.Tensor, frames: torch.Tensor, at: torch.Tensor
    ) -> torch.Tensor:
        """Text ids (B, T), codec ids (B, T) with -1 for none, frames (n, USED) at flat positions `at` (n,)."""
        projected = self.text_projection(self.model.text_embedding.weight)
        x = F.embedding(text, projected)
        x = x + self.model.codec_embedding(codec.clamp_min(0)) * (codec >= 0)[..., None]
        flat = x.reshape(-1, x.shape[-1])
        return flat.index_add(0, at, self.frame_vectors(frames)).view_as(x)

    def predict(self, hidden: torch.Tensor, frames: torch.Tensor, dropout: float) -> list[torch.Tensor]:
        """Hidden (n, hidden), codes (n, ≥ USED - 1) -> logits of c1 … c8, each (n, CODES)."""
        rows = [hidden, self.model.codec_embedding(frames[:, 0])]
        rows += [
            self.code_predictor.model.codec_embedding[k - 1](frames[:, k]) for k in range(1, codes.USED - 1)
        ]
        x = torch.stack(rows, 1)
        if hasattr(self.code_predictor, "small_to_mtp_projection"):
            x = self.code_predictor.small_to_mtp_projection(x)
        y, _ = self.code_predictor.model.run(x, dropout)
        return [self.code_predictor.lm_head[k - 1](y[:, k]) for k in range(1, codes.USED)]


def prompt(text: list[int], language: str) -> tuple[list[int], list[int]]:
    """Text tokens -> (text ids, codec ids) of the prompt rows, all text first (spec §2.4, tail A)."""
    known = (
        [THINK, THINK_BOS, LANGUAGE_ID[language], THINK_EOS]
        if language != "auto"
        else [NOTHINK, THINK_BOS, THINK_EOS]
    )
    control = [*known, SPEAKER_ID]
    text_ids = [IM_START, ASSISTANT, NEWLINE, *[TTS_PAD] * len(control), TTS_BOS, *text, TTS_EOS, TTS_PAD]
    codec_ids = [-1, -1, -1, *control, PAD, *[PAD] * len(text), PAD, BOS]
    return text_ids, codec_ids


def text_start(language: str) -> int:
    """Position of the first text token."""
    return 3 + (4 if language != "auto" else 3) + 2


def sizes() -> dict[str, Any]:
    return {"talker": TALKER.__dict__, "predictor": PREDICTOR.__dict__}

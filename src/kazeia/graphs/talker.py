"""The talker: prompt rows or one frame's input → hidden state and codebook-0 logits; spec §2.

One graph serves prefill (seq = prompt length) and step (seq = 1). Outputs:

    hidden  (batch, seq, hidden) float32, after the final norm
    logits  (batch, vocab) float32, of the last position
"""

from __future__ import annotations

from pathlib import Path

from kazeia.checkpoint.config import TalkerConfig
from kazeia.graphs.builder import GraphBuilder, WeightFile
from kazeia.graphs.layers import linear
from kazeia.graphs.transformer import Weights, transformer
from kazeia.quant import Format

MAX_POSITIONS = 16384  # prompt and frames together; 20 minutes of one utterance


def build_talker(folder: Path, weights: Weights, config: TalkerConfig, fmt: Format, head_fmt: Format) -> None:
    """Write `talker.onnx` and `talker.weights` into `folder`."""
    width = config.transformer.hidden_size
    positions = min(config.transformer.max_position_embeddings, MAX_POSITIONS)
    with WeightFile(folder / "talker.weights") as file:
        g = GraphBuilder("talker", file)
        embeds = g.input("embeds", ["batch", "seq", width])
        hidden = transformer(g, embeds, weights, "talker.model", config.transformer, positions, fmt)
        last = last_position(g, hidden)
        head = weights.get("talker.codec_head.weight", (config.vocab_size, width))
        logits = linear(g, last, "codec_head", head, fmt=head_fmt)
        g.output(hidden, "hidden", ["batch", "seq", width])
        g.output(logits, "logits", ["batch", config.vocab_size])
        g.save(folder / "talker.onnx")


def last_position(g: GraphBuilder, x: str) -> str:
    """(batch, seq, width) → (batch, width)."""
    return g.op("Gather", x, g.constant(-1, "int64"), axis=1)

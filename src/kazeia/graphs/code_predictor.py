"""The code predictor: within one frame, from the talker's hidden state and code 0 to codes 1–15; spec §3.

The body is one graph over 16 positions with a cache of its own; the fifteen heads are small graphs
beside it, one per codebook, so that each step reads only the head it needs.

    body:  embeds (batch, seq, talker hidden) → hidden (batch, hidden), of the last position
    head:  hidden (batch, hidden) → logits (batch, codebook)
"""

from __future__ import annotations

from pathlib import Path

from kazeia.checkpoint.config import TalkerConfig
from kazeia.graphs.builder import GraphBuilder, WeightFile
from kazeia.graphs.layers import linear
from kazeia.graphs.talker import last_position
from kazeia.graphs.transformer import Weights, transformer
from kazeia.quant import Format

PREFIX = "talker.code_predictor"


def build_code_predictor(
    folder: Path, weights: Weights, config: TalkerConfig, fmt: Format, head_fmt: Format
) -> None:
    """Write `code_predictor.onnx`, `heads/NN.onnx` and their weights into `folder`."""
    predictor, outer = config.code_predictor, config.transformer.hidden_size
    width = predictor.transformer.hidden_size
    with WeightFile(folder / "code_predictor.weights") as file:
        g = GraphBuilder("code_predictor", file)
        x = g.input("embeds", ["batch", "seq", outer])
        if config.needs_projection:
            name = f"{PREFIX}.small_to_mtp_projection"
            projection = weights.get(f"{name}.weight", (width, outer))
            # In f32 always: one thin matrix, and every input of the predictor passes through it.
            x = linear(g, x, "input_projection", projection, weights.get(f"{name}.bias", (width,)))
        hidden = transformer(
            g, x, weights, f"{PREFIX}.model", predictor.transformer, config.num_code_groups, fmt
        )
        g.output(last_position(g, hidden), "hidden", ["batch", width])
        g.save(folder / "code_predictor.onnx")

    heads = folder / "heads"
    heads.mkdir()
    with WeightFile(heads / "heads.weights") as file:
        for k in range(config.num_code_groups - 1):
            g = GraphBuilder(f"head_{k}", file)
            x = g.input("hidden", ["batch", width])
            weight = weights.get(f"{PREFIX}.lm_head.{k}.weight", (predictor.vocab_size, width))
            g.output(linear(g, x, "head", weight, fmt=head_fmt), "logits", ["batch", predictor.vocab_size])
            g.save(heads / f"{k:02d}.onnx")

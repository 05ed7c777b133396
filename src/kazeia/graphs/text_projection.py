"""The text projection: rows of the text embedding → rows of the talker's width; spec §2.3."""

from __future__ import annotations

from kazeia.checkpoint.config import TalkerConfig
from kazeia.graphs.builder import GraphBuilder
from kazeia.graphs.layers import linear, silu
from kazeia.graphs.transformer import Weights


def text_projection_graph(weights: Weights, config: TalkerConfig) -> bytes:
    """fc2(SiLU(fc1 x)): x (rows, text_hidden) → y (rows, hidden). Run once, when a bundle is built."""
    g = GraphBuilder("text_projection", None)
    inner, width = config.text_hidden_size, config.transformer.hidden_size
    x = g.input("x", ["rows", inner])
    for name, c_in, c_out in (("linear_fc1", inner, inner), ("linear_fc2", inner, width)):
        prefix = f"talker.text_projection.{name}"
        weight, bias = weights.get(f"{prefix}.weight", (c_out, c_in)), weights.get(f"{prefix}.bias", (c_out,))
        x = linear(g, x, name, weight, bias)
        x = silu(g, x) if name == "linear_fc1" else x
    g.output(x, "y", ["rows", width])
    return g.to_bytes()

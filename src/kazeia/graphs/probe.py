"""A one-operator graph, to ask the machine how its quantised kernel behaves."""

from __future__ import annotations

from kazeia.graphs.builder import GraphBuilder
from kazeia.graphs.layers import F32, linear
from kazeia.quant import Format


def product_graph(weight: F32, fmt: Format, block: int) -> bytes:
    """y = x Wᵀ for x (rows, in), with weight (out, in) stored in that format."""
    g = GraphBuilder("probe", None)
    x = g.input("x", ["rows", weight.shape[1]])
    y = linear(g, x, "w", weight, fmt=fmt, block=block)
    g.output(y, "y", ["rows", weight.shape[0]])
    return g.to_bytes()

"""A one-operator graph, to ask the machine how its quantised kernel behaves."""

from __future__ import annotations

from kazeia.graphs.builder import GraphBuilder
from kazeia.graphs.layers import F32, linear


def product_graph(weight: F32, bits: int) -> bytes:
    """y = x Wᵀ for x (rows, in), with weight (out, in) quantised to `bits`."""
    g = GraphBuilder("probe", None)
    x = g.input("x", ["rows", weight.shape[1]])
    y = linear(g, x, "w", weight, fmt="q8" if bits == 8 else "q4")
    g.output(y, "y", ["rows", weight.shape[0]])
    return g.to_bytes()

"""How many bytes of weights a bundle's networks read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from kazeia.errors import BundleError


@dataclass(frozen=True)
class WeightBytes:
    """Bytes of the matrices, scales of quantised ones included; norms and tables are not worth counting."""

    talker: int
    """Read by one step: all of the talker and its head."""
    predictor: int
    """Read for one frame: the body once per codebook, and every head once."""
    predictor_resident: int
    """Of those, the different ones: what a cache would have to hold."""
    decoder: int
    """Read by one call, whatever the number of frames."""


def weight_bytes(bundle: Path) -> WeightBytes:
    """Count the weights of the bundle in a folder. Raises BundleError for graphs that cannot be read."""
    heads = [_matrix_bytes(path) for path in sorted((bundle / "heads").glob("*.onnx"))]
    if not heads:
        raise BundleError(f"{bundle / 'heads'}: no graphs of heads; build the bundle again")
    body = _matrix_bytes(bundle / "code_predictor.onnx")
    return WeightBytes(
        talker=_matrix_bytes(bundle / "talker.onnx"),
        predictor=len(heads) * body + sum(heads),
        predictor_resident=body + sum(heads),
        decoder=_matrix_bytes(bundle / "codec_decoder.onnx"),
    )


def _matrix_bytes(path: Path) -> int:
    """Bytes of everything that a matrix product of the graph reads and that is stored with it."""
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except Exception as error:  # protobuf's errors have no common class that is public
        raise BundleError(f"{path}: cannot be read ({error}); build the bundle again") from error
    sizes = {tensor.name: _tensor_bytes(tensor) for tensor in graph.initializer}
    read = [name for node in graph.node if "MatMul" in node.op_type for name in node.input]
    return sum(sizes.get(name, 0) for name in read)  # read twice, counted twice


def _tensor_bytes(tensor: onnx.TensorProto) -> int:
    for entry in tensor.external_data:
        if entry.key == "length":
            return int(entry.value)
    return len(tensor.raw_data)

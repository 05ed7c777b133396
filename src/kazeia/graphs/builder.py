"""A small hand for writing ONNX graphs: nodes, constants, and weights that go straight to a file.

Weights are appended to an external-data file the moment they are handed over, so that building a
two-gigabyte graph needs the memory of one tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
CONTRIB = "com.microsoft"  # ONNX Runtime's own operators

Dim = int | str
_INLINE_BYTES = 1024  # smaller tensors live inside the graph file
_PAGE = 4096  # big tensors start on a page, so that they can be mapped

_ELEM = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int8): TensorProto.INT8,
}


class WeightFile:
    """An external-data file under construction; several graphs may share one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("wb")

    def append(self, array: npt.NDArray[Any]) -> tuple[int, int]:
        """Write the array's bytes; return (offset, length) in bytes."""
        data = np.ascontiguousarray(array)
        align = _PAGE if data.nbytes >= _PAGE else 64
        offset = -(-self._file.tell() // align) * align
        self._file.seek(offset)
        self._file.write(data.data)
        return offset, data.nbytes

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> WeightFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class GraphBuilder:
    """Collects the nodes of one graph. Values are named by strings, as in ONNX itself."""

    def __init__(self, name: str, weights: WeightFile | None) -> None:
        # without a file, every tensor lives inside the graph
        self.name = name
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def input(self, name: str, shape: Sequence[Dim], dtype: npt.DTypeLike = np.float32) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, _ELEM[np.dtype(dtype)], list(shape)))
        return name

    def output(self, value: str, name: str, shape: Sequence[Dim], dtype: npt.DTypeLike = np.float32) -> None:
        """Declare `value` as the graph output `name`."""
        if value != name:
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _ELEM[np.dtype(dtype)], list(shape)))

    def op(self, kind: str, *inputs: str, domain: str = "", out: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return that output's name ("" leaves an input out)."""
        return self.ops(kind, *inputs, outputs=(out,), domain=domain, **attributes)[0]

    def ops(
        self, kind: str, *inputs: str, outputs: Sequence[str | None], domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs; None draws a fresh name, "" leaves an output out."""
        names = [self._fresh(kind) if name is None else name for name in outputs]
        self._nodes.append(
            helper.make_node(kind, list(inputs), names, name=self._fresh(kind), domain=domain, **attributes)
        )
        return names

    def weight(self, name: str, array: npt.NDArray[Any]) -> str:
        """Store a tensor under the given name; big ones go to the weight file."""
        if self._weights is None or array.nbytes <= _INLINE_BYTES:
            self._initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
            return name
        offset, length = self._weights.append(array)
        tensor = TensorProto(name=name, data_type=_ELEM[array.dtype], dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", self._weights.path.name),
            ("offset", str(offset)),
            ("length", str(length)),
        ):
            tensor.external_data.add(key=key, value=value)
        self._initializers.append(tensor)
        return name

    def constant(self, value: Any, dtype: npt.DTypeLike) -> str:
        """A small constant, stored once however often it is asked for."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(self._fresh("const"), array)
        return self._constants[key]

    def ints(self, *values: int) -> str:
        """A 1-D int64 constant: shapes, axes, starts, ends."""
        return self.constant(values, np.int64)

    def to_bytes(self) -> bytes:
        """The graph, serialised."""
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, initializer=self._initializers
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)],
            producer_name="kazeia",
            ir_version=IR_VERSION,
        )
        return bytes(model.SerializeToString())

    def save(self, path: Path) -> None:
        """Write the graph file; it belongs beside its weight file."""
        path.write_bytes(self.to_bytes())

    def _fresh(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

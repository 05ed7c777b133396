"""ONNX Runtime sessions, and calls whose inputs and outputs stay in the caller's own arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia.errors import BundleError
from kazeia.graphs.probe import product_graph
from kazeia.graphs.transformer import block_of
from kazeia.quant import Format

Array = npt.NDArray[Any]


def open_session(path: Path, threads: int) -> ort.InferenceSession:
    """Open a graph file on the CPU with `threads` threads of its own."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Shapes change from call to call; remembering a plan per shape costs memory for ever.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common error class of its own
        raise BundleError(
            f"{path}: ONNX Runtime {ort.__version__} cannot open this graph ({error}); "
            f"remove the folder {path.parent} and it will be built again"
        ) from error


class BoundCall:
    """One session with arrays bound to its inputs and outputs; change the arrays, run again.

    The arrays are used in place: they must be C-contiguous, and live as long as this object, which
    keeps them alive itself. Not for use by two threads at once.
    """

    def __init__(
        self, session: ort.InferenceSession, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> None:
        self._session = session
        self._arrays = (dict(inputs), dict(outputs))
        self._binding = session.io_binding()
        for name, array in inputs.items():
            self._bind(self._binding.bind_input, name, array)
        for name, array in outputs.items():
            self._bind(self._binding.bind_output, name, array)

    @staticmethod
    def _bind(bind: Any, name: str, array: Array) -> None:
        assert array.flags.c_contiguous, name
        bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)


@lru_cache
def row_pairs_needed(fmt: Format) -> bool:
    """Whether this machine computes a single row of a product of that format with other bits than two rows.

    True where the kernel for one row sums in another order; callers then keep the number of rows even
    (graphs.transformer.Rows).
    """
    if fmt == "f32":
        return False
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 256)).astype(np.float32)
    weight = rng.standard_normal((64, 256)).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        product_graph(weight, fmt, block_of(fmt)), options, providers=["CPUExecutionProvider"]
    )
    pair = session.run(None, {"x": x})[0]
    single = session.run(None, {"x": x[:1]})[0]
    return not np.array_equal(pair[:1], single)

"""One call shape of a cached transformer: the arrays it reads and writes, bound once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia.runtime.kv_cache import KVCache
from kazeia.runtime.session import BoundCall

F32 = npt.NDArray[np.float32]


class TransformerCall:
    """A (batch, seq) call on a cache; fill `embeds`, call `run`, read the outputs.

    `embeds` is (batch, seq, width) float32. Outputs are given by name and shape.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        cache: KVCache,
        batch: int,
        seq: int,
        width: int,
        outputs: dict[str, F32],
        row_pairs: bool,
    ) -> None:
        self.cache_data = cache.data  # a cache that has grown needs a new call
        self.embeds: F32 = np.zeros((batch, seq, width), np.float32)
        self.outputs = outputs
        self._seqlens = np.zeros(batch, np.int32)
        self._total = np.zeros((), np.int32)
        inputs = {"embeds": self.embeds, "seqlens_k": self._seqlens, "total_length": self._total}
        if any(node.name == "row_index" for node in session.get_inputs()):
            rows = batch * seq
            padded = rows + rows % 2 if row_pairs else rows
            inputs["row_index"] = np.minimum(np.arange(padded), rows - 1)
        views = cache.bindings(batch)
        self._call = BoundCall(
            session,
            inputs | {f"past_{name}": view for name, view in views.items()},
            outputs | {f"present_{name}": view for name, view in views.items()},
        )

    def run(self, lengths: list[int]) -> list[int]:
        """Run on rows that hold `lengths` positions; return how many they hold after."""
        after = [length + self.embeds.shape[1] for length in lengths]
        assert max(after) <= self.cache_data.shape[4], "the cache is too small"
        self._seqlens[:] = np.asarray(after, np.int32) - 1
        self._total[...] = max(after)
        self._call.run()
        return after

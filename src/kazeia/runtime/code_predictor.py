"""The code predictor at work: codes 1–15 of one frame, for a batch of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia.checkpoint.config import TalkerConfig
from kazeia.row_table import RowTable
from kazeia.runtime.kv_cache import KVCache
from kazeia.runtime.session import BoundCall
from kazeia.runtime.transformer_call import TransformerCall

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

Choose = Callable[[int, F32], int]
"""(row, logits (codebook,)) → code: how a row picks its next code."""


class PredictorState:
    """The cache and the bound calls of a predictor at work, kept for every number of rows it has met."""

    def __init__(self, predictor: CodePredictor) -> None:
        self._predictor = predictor
        self._calls: dict[int, PredictorCalls] = {}
        self._cache: KVCache | None = None

    def calls(self, batch: int) -> PredictorCalls:
        """The calls for exactly `batch` rows."""
        p = self._predictor
        if self._cache is None:
            self._cache = KVCache(p.config.code_predictor.transformer, batch, p.config.num_code_groups)
        if batch > self._cache.data.shape[2]:
            self._cache.reserve(batch, 1)
            self._calls.clear()  # they are bound to the smaller one
        if batch not in self._calls:
            self._calls[batch] = PredictorCalls(p, self._cache, batch)
        return self._calls[batch]


class PredictorCalls:
    """The sixteen calls of a frame of `batch` rows, and the arrays between them."""

    def __init__(self, p: CodePredictor, cache: KVCache, batch: int) -> None:
        inner, outer = p.config.code_predictor.transformer, p.config.transformer.hidden_size
        self.hidden = np.empty((batch, inner.hidden_size), np.float32)
        self.logits = np.empty((batch, p.config.code_predictor.vocab_size), np.float32)

        def call(seq: int) -> TransformerCall:
            return TransformerCall(p.body, cache, batch, seq, outer, {"hidden": self.hidden}, p.row_pairs)

        self.first, self.next = call(2), call(1)
        self.heads = [BoundCall(head, {"hidden": self.hidden}, {"logits": self.logits}) for head in p.heads]


class CodePredictor:
    """The code predictor network; spec §3. Holds no state of its own: many threads may use one."""

    def __init__(
        self,
        body: ort.InferenceSession,
        heads: Sequence[ort.InferenceSession],
        config: TalkerConfig,
        codec_embedding: F32,
        embeddings: RowTable,
        row_pairs: bool,
    ) -> None:
        """`codec_embedding` (vocab, hidden) is the talker's, for code 0; `embeddings`
        (15, codebook, hidden) the predictor's own."""
        self.body, self.heads, self.config, self.row_pairs = body, list(heads), config, row_pairs
        self._codec_embedding = codec_embedding
        self._embeddings = embeddings

    def new_state(self) -> PredictorState:
        return PredictorState(self)

    def predict(self, hidden: F32, code0: int, choose: Choose | None = None) -> I64:
        """Codes 1–15 (15,) of one frame, from the talker's hidden state (hidden,) and its code 0.

        `choose` picks each code; without it the most likely one is taken.
        """
        return self.frame(self.new_state(), hidden[None], np.array([code0]), choose or _most_likely)[0, 1:]

    def frame(self, state: PredictorState, hidden: F32, code0: I64, choose: Choose) -> I64:
        """One frame of every row: hidden (rows, hidden), code0 (rows,) → codes (rows, 16)."""
        batch = hidden.shape[0]
        calls = state.calls(batch)
        codes = np.empty((batch, self.config.num_code_groups), np.int64)
        codes[:, 0] = code0
        calls.first.embeds[:, 0] = hidden
        calls.first.embeds[:, 1] = self._codec_embedding[code0]
        lengths = calls.first.run([0] * batch)
        for k, head in enumerate(calls.heads):
            if k:
                calls.next.embeds[:, 0] = self._embeddings[k - 1, codes[:, k]]
                lengths = calls.next.run(lengths)
            head.run()
            for row in range(batch):
                codes[row, k + 1] = choose(row, calls.logits[row])
        return codes

    def logits(self, hidden: F32, codes: I64) -> F32:
        """Logits (15, codebook) of one frame when its codes (16,) are given, not chosen."""
        seen: list[F32] = []

        def forced(row: int, logits: F32) -> int:
            seen.append(logits.copy())
            return int(codes[len(seen)])

        self.frame(self.new_state(), hidden[None], codes[:1], forced)
        return np.stack(seen)

    def embed(self, codes: I64) -> F32:
        """The talker's next input (hidden,) for one frame (16,), text not yet added; spec §2.5."""
        total: F32 = self._codec_embedding[codes[0]].copy()
        for row in self._embeddings[np.arange(len(codes) - 1), codes[1:]]:
            total += row
        return total


def _most_likely(row: int, logits: F32) -> int:
    return int(logits.argmax())

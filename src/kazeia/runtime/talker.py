"""The talker at work: prefill a prompt, step a batch of frames."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia.checkpoint.config import TransformerConfig
from kazeia.runtime.kv_cache import KVCache
from kazeia.runtime.transformer_call import TransformerCall

F32 = npt.NDArray[np.float32]


@dataclass
class TalkerState:
    """The caches of the utterances in flight, and the call that steps them."""

    cache: KVCache
    call: TransformerCall | None = field(default=None, repr=False)


class Talker:
    """The talker network; spec §2. Holds no state of its own: many threads may use one."""

    def __init__(
        self, session: ort.InferenceSession, config: TransformerConfig, vocab_size: int, row_pairs: bool
    ) -> None:
        self._session = session
        self._config = config
        self._vocab = vocab_size
        self._row_pairs = row_pairs

    def new_state(self, rows: int = 1, capacity: int = 1) -> TalkerState:
        """An empty batch with room for `rows` utterances of `capacity` positions."""
        return TalkerState(KVCache(self._config, rows, capacity))

    def prefill(self, prompt: F32, capacity: int = 0) -> tuple[TalkerState, F32, F32]:
        """Read a prompt (positions, hidden) alone.

        Returns a state of one row, the hidden states (positions, hidden) after the final norm, and
        the last position's logits (vocab,).
        """
        state = self.new_state(1, max(capacity, len(prompt) + 1))
        return state, *self.read(state, prompt)

    def read(self, state: TalkerState, rows: F32) -> tuple[F32, F32]:
        """Read rows (positions, hidden) after those that the state's only utterance has read.

        Returns their hidden states (positions, hidden) after the final norm, and the last position's
        logits (vocab,).
        """
        cache = state.cache
        lengths = cache.lengths or [0]
        cache.reserve(1, lengths[0] + len(rows) + 1)
        call = self._new_call(state, 1, len(rows))
        call.embeds[0] = rows
        cache.lengths = call.run(lengths)
        return call.outputs["hidden"][0], call.outputs["logits"][0]

    def step(self, state: TalkerState, embeds: F32, held: Collection[int] = ()) -> tuple[F32, F32]:
        """One frame for every row: embeds (rows, hidden) → hidden (rows, hidden), logits (rows, vocab).

        Rows in `held` do not move on: they are computed in vain, and have read nothing afterwards.
        The arrays returned are overwritten by the next step.
        """
        cache = state.cache
        batch = len(cache.lengths)
        cache.reserve(batch, max(cache.lengths) + 1)
        call = state.call
        if call is None or call.embeds.shape[0] != batch or call.cache_data is not cache.data:
            call = state.call = self._new_call(state, batch, 1)
        call.embeds[:, 0] = embeds
        before, cache.lengths = cache.lengths, call.run(cache.lengths)
        for row in held:  # the position beyond its last one is written again when it moves on
            cache.lengths[row] = before[row]
        return call.outputs["hidden"][:, 0], call.outputs["logits"]

    def _new_call(self, state: TalkerState, batch: int, seq: int) -> TransformerCall:
        width = self._config.hidden_size
        outputs = {
            "hidden": np.empty((batch, seq, width), np.float32),
            "logits": np.empty((batch, self._vocab), np.float32),
        }
        return TransformerCall(self._session, state.cache, batch, seq, width, outputs, self._row_pairs)

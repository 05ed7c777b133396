"""What the talker has read already, voices and instructions, kept for the next time."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from kazeia.runtime.talker import Talker, TalkerState

F32 = npt.NDArray[np.float32]

MOST_POSITIONS = 192  # kept in all: 44 MB for a 0.6B model, some twenty voices


class PrefixCache:
    """Keys and values of the beginnings of prompts, the least recently used forgotten first.

    A prompt is read in two calls, beginning and rest, whether its beginning is remembered or not: so
    the same numbers come out, bit for bit. (One call for all would differ from two in the last bits of
    some lengths.) Any number of threads may use one.
    """

    def __init__(self, talker: Talker, most_positions: int = MOST_POSITIONS) -> None:
        self._talker = talker
        self._most = most_positions
        self._kept: OrderedDict[bytes, F32] = OrderedDict()  # (layers, 2, kv_heads, positions, head_dim)
        self._lock = threading.Lock()

    def read(self, prefix: F32, capacity: int) -> TalkerState:
        """A state of one row, with room for `capacity` positions, that has read `prefix`.

        prefix: (positions, hidden) float32.
        """
        positions = len(prefix)
        key = prefix.tobytes()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is not None:
            state = self._talker.new_state(1, max(capacity, positions + 1))
            state.cache.data[:, :, 0, :, :positions] = kept
            state.cache.lengths = [positions]
            return state
        state, _, _ = self._talker.prefill(prefix, capacity)
        self._keep(key, state.cache.data[:, :, 0, :, :positions])
        return state

    @property
    def positions(self) -> int:
        """Positions remembered."""
        with self._lock:
            return self._count()

    def _keep(self, key: bytes, data: F32) -> None:
        if data.shape[3] > self._most:
            return
        with self._lock:
            self._kept[key] = data.copy()
            while self._count() > self._most:
                self._kept.popitem(last=False)

    def _count(self) -> int:
        return sum(data.shape[3] for data in self._kept.values())

"""The key/value cache of a transformer over a batch whose rows come and go."""

from __future__ import annotations

import contextlib
import math
import mmap

import numpy as np
import numpy.typing as npt

from kazeia.checkpoint.config import TransformerConfig

_STEP = 64  # capacities are multiples of this many positions


class KVCache:
    """Keys and values of up to `rows` utterances, each with its own length.

    One array (layers, 2, rows, kv_heads, capacity, head_dim) float32. Its pages are taken from the
    system when they are first written, so memory follows use rather than capacity. Rows and capacity
    grow by doubling: what is there is copied no more often than that needs.
    """

    def __init__(self, config: TransformerConfig, rows: int, capacity: int) -> None:
        self._config = config
        self.lengths: list[int] = []  # positions filled, per row in use
        self.data = self._allocate(rows, capacity)

    def _allocate(self, rows: int, capacity: int) -> npt.NDArray[np.float32]:
        c = self._config
        capacity = -(-capacity // _STEP) * _STEP
        shape = (c.num_hidden_layers, 2, rows, c.num_key_value_heads, capacity, c.head_dim)
        pages = mmap.mmap(-1, max(1, 4 * math.prod(shape)))
        # NumPy's own memory would come in pages of 2 MB, each of which holds the beginnings of several
        # heads' stretches: all of it would be taken at once.
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel that has no such pages
                pages.madvise(mmap.MADV_NOHUGEPAGE)
        return np.frombuffer(pages, np.float32, math.prod(shape)).reshape(shape)

    @property
    def capacity(self) -> int:
        """Positions a row can hold."""
        return int(self.data.shape[4])

    def reserve(self, rows: int, capacity: int) -> None:
        """Make room for `rows` rows of `capacity` positions, keeping what is there."""
        old = self.data
        if rows <= old.shape[2] and capacity <= old.shape[4]:
            return
        self.data = self._allocate(_grown(old.shape[2], rows), _grown(old.shape[4], capacity))
        for row, length in enumerate(self.lengths):
            self.data[:, :, row, :, :length] = old[:, :, row, :, :length]

    def append(self, other: KVCache) -> None:
        """Take over row 0 of `other` as a new last row."""
        length = other.lengths[0]
        row = len(self.lengths)
        self.reserve(row + 1, length)
        self.data[:, :, row, :, :length] = other.data[:, :, 0, :, :length]
        self.lengths.append(length)

    def extract(self, row: int) -> KVCache:
        """A cache of its own that holds a copy of one row, and no more room than that needs."""
        length = self.lengths[row]
        alone = KVCache(self._config, 1, length)
        alone.data[:, :, 0, :, :length] = self.data[:, :, row, :, :length]
        alone.lengths = [length]
        return alone

    def keep(self, rows: list[int]) -> None:
        """Keep these rows only, in this order: each stays where it is, or moves to a lower place.

        No place may be filled before the row that was there has moved.
        """
        for to, source in enumerate(rows):
            if to != source:
                length = self.lengths[source]
                self.data[:, :, to, :, :length] = self.data[:, :, source, :, :length]
        self.lengths = [self.lengths[i] for i in rows]

    def bindings(self, rows: int) -> dict[str, npt.NDArray[np.float32]]:
        """The first `rows` rows as `{"k.0": …, "v.0": …, "k.1": …}` views."""
        return {
            f"{kind}.{layer}": self.data[layer, index, :rows]
            for layer in range(self.data.shape[0])
            for index, kind in enumerate("kv")
        }


def _grown(size: int, wanted: int) -> int:
    return size if wanted <= size else max(wanted, 2 * size)

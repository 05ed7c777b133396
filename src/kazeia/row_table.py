"""Rows of a table on disk, read when they are asked for."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kazeia.errors import BundleError

F32 = npt.NDArray[np.float32]


class RowTable:
    """A float32 `.npy` file (…, width) that is indexed like the array, whole rows at a time.

    Nothing of it stays in memory but in the system's own cache of files. A mapped array would keep what it
    touched, and much around it: up to all of a table of hundreds of megabytes. Any number of threads may
    use one. Raises OSError or ValueError for a file that cannot be read, or holds something else; indexing
    raises BundleError where the file has become shorter.
    """

    def __init__(self, path: Path) -> None:
        mapped = np.load(path, mmap_mode="r")
        if mapped.dtype != np.dtype("<f4") or mapped.ndim < 2 or not mapped.flags.c_contiguous:
            raise ValueError(f"found {mapped.dtype} {mapped.shape}, expected rows of little-endian float32")
        self.shape: tuple[int, ...] = mapped.shape
        self._numbers = np.arange(mapped.size // self.shape[-1]).reshape(self.shape[:-1])
        self._offset = path.stat().st_size - mapped.nbytes
        self._path = path
        self._mapped = mapped
        if hasattr(os, "preadv"):
            self._mapped = None
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    def __getitem__(self, index: Any) -> F32:
        """A copy of the rows that `index` names: a number, a slice, integers, or a tuple of these."""
        numbers = self._numbers[index]
        rows = np.empty((*np.shape(numbers), self.shape[-1]), np.float32)
        if self._mapped is not None:
            rows[...] = self._mapped[index]
            return rows
        flat = rows.reshape(-1, self.shape[-1])
        for row, number in zip(flat, np.ravel(numbers).tolist(), strict=True):
            got = os.preadv(self._file, [row.data], self._offset + number * row.nbytes)
            if got != row.nbytes:
                raise BundleError(
                    f"{self._path}: row {number} has {got} bytes, expected {row.nbytes}: the file was cut "
                    "off after the model was opened; build the bundle again"
                )
        return rows

"""Whether more threads get more out of this machine's memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_BYTES = 96 << 20  # larger than a core's own caches; a shared one may hold it, as it holds weights
_PIECE = 1 << 16  # values copied at once: they stay in a core's own cache
_PASSES = 4
_WORTH = 1.25  # times as fast: below, threads only wait for each other

Part = npt.NDArray[np.float32]


@lru_cache
def memory_scales(threads: int) -> bool:
    """Whether `threads` threads read memory much faster than one does. Takes a tenth of a second, once.

    On some machines one core draws nearly all that the memory gives, on others (many servers, and the
    virtual machines on them) about its share.
    """
    # Written once: pages never written would all be the same page of zeros.
    parts = np.array_split(np.full(_BYTES // 4, 1, np.float32), threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_read, parts))  # wakes the threads up
        alone = min(_seconds(pool, [part]) / part.nbytes for part in parts[:1] * _PASSES)
        together = min(_seconds(pool, parts) for _ in range(_PASSES)) / _BYTES
    return alone > _WORTH * together


def _seconds(pool: ThreadPoolExecutor, parts: list[Part]) -> float:
    started = time.perf_counter()
    list(pool.map(_read, parts))
    return time.perf_counter() - started


def _read(part: Part) -> None:
    near = np.empty(_PIECE, np.float32)
    for start in range(0, part.size - _PIECE + 1, _PIECE):
        np.copyto(near, part[start : start + _PIECE])

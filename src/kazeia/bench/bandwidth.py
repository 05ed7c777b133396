"""How fast this machine reads its main memory: the roof over everything that reads weights.

A buffer many times larger than the last level cache is read from end to end by two simple NumPy
readers (a dot product, and an OR over all bytes); the faster one counts. That is a lower bound: a better
reader may get more, never less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from kazeia.bench.children import run_child, serve
from kazeia.bench.machine import last_level_cache, memory_bytes

_LEAST = 512 << 20
_CACHES = 8  # the buffer is so many times larger than the last level cache
PASSES = 5
# One thread each, whatever NumPy's library would like: the threads here are ours.
_LIBRARIES = ("OPENBLAS", "OMP", "MKL", "VECLIB", "BLIS")
_ONE_THREAD = {f"{name}_{'MAXIMUM' if name == 'VECLIB' else 'NUM'}_THREADS": "1" for name in _LIBRARIES}

Part = npt.NDArray[np.float32]


def measure_bandwidth(threads: int) -> list[float]:
    """GB/s (1e9 bytes) of several passes with `threads` threads, in a process of its own."""
    order = {"threads": threads, "bytes": buffer_bytes(), "passes": PASSES}
    answer = run_child("kazeia.bench.bandwidth", order, "the memory's bandwidth", _ONE_THREAD)
    return [float(value) for value in answer["gb_per_s"]]


def buffer_bytes() -> int:
    """The size of the buffer: much larger than the caches, no more than a quarter of the memory."""
    size = max(_LEAST, _CACHES * (last_level_cache() or 0))
    memory = memory_bytes()
    return size if memory is None else min(size, memory // 4)


def read_passes(threads: int, size: int, passes: int) -> list[float]:
    """GB/s of each pass over `size` bytes, cut among `threads` threads; of the faster reader."""
    # Written once: pages never written would all be the same page of zeros.
    parts = np.array_split(np.full(size // 4, 1, np.float32), threads)
    total = sum(part.nbytes for part in parts)
    readers: list[Callable[[Part], Any]] = [_dot, _or]
    found = []
    with ThreadPoolExecutor(threads) as pool:
        for reader in readers:
            speeds = []
            for _ in range(passes + 1):
                started = time.perf_counter()
                list(pool.map(reader, parts))
                speeds.append(total / (time.perf_counter() - started) / 1e9)
            found.append(speeds[1:])  # the first one wakes the threads up
    return max(found, key=statistics.median)


def _dot(part: Part) -> Any:
    return np.dot(part, part)


def _or(part: Part) -> Any:
    return np.bitwise_or.reduce(part.view(np.uint8))


def _work(order: dict[str, Any]) -> dict[str, Any]:
    return {"gb_per_s": read_passes(order["threads"], order["bytes"], order["passes"])}


if __name__ == "__main__":
    serve(_work)

"""Memory stays flat, whatever is asked for how often (F04)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Each round is a mix of its own; the peak of later rounds is held against the first ones'.
PROGRAM = """
import gc, json, os, sys
import kazeia
from kazeia import Request

PAGE = os.sysconf("SC_PAGE_SIZE")

def rss():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE

engine = kazeia.load(sys.argv[1], quant="q4", threads=2)

def generations(n):
    for seed in range(20):
        engine.synthesize("Hello there." * (1 + seed % 3), seed=seed, max_frames=1)

def aborted(n):
    for seed in range(10):
        stream = engine.stream("Hello there.", seed=seed, chunk_frames=1)
        next(stream)
        del stream

def batches(n):
    for size in (1, 3, 8, 5, 2, 11):
        engine.batch([Request("Hi." * (1 + k), seed=k, max_frames=1 + k % 4) for k in range(size)])

def mixed(n):
    engine.synthesize("A longer text, which takes many more positions. " * 6, seed=n, max_frames=3,
                      segment_chars=None)
    engine.synthesize("Short.", seed=n, max_frames=40)
    list(engine.stream("Short.", seed=n, max_frames=7, chunk_frames=100))
    try:
        engine.synthesize("Hello.", voice="nobody")
    except kazeia.VoiceError:
        pass

found = {}
for work, rounds in ((generations, 10), (aborted, 5), (batches, 5), (mixed, 5)):
    sizes = []
    for n in range(rounds):
        work(n)
        sizes.append(rss())
    found[work.__name__] = sizes
print(json.dumps(found))
"""
ALLOWED = 3 * 2**20  # bytes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_flat_after_warming_up(checkpoint: Callable[[str], Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(checkpoint("tiny"))],
        capture_output=True,
        text=True,
        check=True,
    )
    for work, sizes in json.loads(done.stdout).items():
        warm = sizes[1]  # the first round fills the allocators' pools
        growth = max(sizes[2:]) - warm
        assert growth < ALLOWED, f"{work} grew by {growth / 2**20:.1f} MB: {sizes}"

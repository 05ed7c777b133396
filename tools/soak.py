"""A thousand short utterances and a hundred aborted streams: does anything grow, or stay behind?

    python tools/soak.py [--model embedded] [--utterances 1000] [--aborts 100]

Prints by how much resident memory (Linux) grew after the first fifth of each, and the threads that are left;
exits 1 when it was more than 8 MiB, or any.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
from pathlib import Path

import kazeia

GROWTH = 8 << 20
TEXTS = ("Oui.", "Merci.", "Bonjour à tous.", "À demain.", "Il fait beau ce matin.")


def resident() -> int:
    """Resident memory of this process in bytes."""
    gc.collect()
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def speak(engine: kazeia.Engine, seed: int) -> None:
    """One short utterance."""
    engine.synthesize(TEXTS[seed % len(TEXTS)], seed=seed, max_frames=60)


def abort(engine: kazeia.Engine, seed: int) -> None:
    """One stream that is dropped after a chunk or two."""
    stream = engine.stream(TEXTS[-1] * 3, seed=seed, max_frames=60)
    for _ in range(1 + seed % 2):
        next(stream)
    if seed % 3:
        stream.close()


def soak(engine: kazeia.Engine, utterances: int, aborts: int) -> list[tuple[str, int, int]]:
    """-> (what, how many, growth in bytes after the first fifth) for each kind of work."""
    found = []
    for what, count, work in (("utterances", utterances, speak), ("aborted streams", aborts, abort)):
        early = 0
        for seed in range(count):
            if seed == count // 5:
                early = resident()
            work(engine, seed)
        found.append((what, count, resident() - early))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--utterances", type=int, default=1000)
    parser.add_argument("--aborts", type=int, default=100)
    args = parser.parse_args()
    before = threading.active_count()
    with kazeia.load(args.model) as engine:
        found = soak(engine, args.utterances, args.aborts)
    left = threading.active_count() - before
    for what, count, growth in found:
        print(f"{count} {what}: {growth / 2**20:+.1f} MiB after the first fifth")
    print(f"threads left: {left}")
    return int(left > 0 or any(growth > GROWTH for _, _, growth in found))


if __name__ == "__main__":
    sys.exit(main())

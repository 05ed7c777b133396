#!/usr/bin/env python3
"""Print the README's table of figures: speed and memory of a model in each format.

    python tools/measure.py --model random:0.6b --threads 2

Every format is measured in a process of its own, after its bundle was built; times are medians over the
frames of one run, so compare them within one table only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

TEXT = "The quick brown fox jumps over the lazy dog, twice."
ROW = (
    "| {quant} | {load:.1f} s | {prefill:.0f} ms | {talker:.1f} ms | {predictor:.1f} ms "
    "| {decoder:.1f} ms | {rtf:.2f} | {rss:.2f} GB |"
)


def measure(model: str, quant: str, threads: int | None, frames: int) -> dict[str, object]:
    """Load, speak a few times, and read the peak of resident memory; run this in a fresh process."""
    import kazeia

    started = time.perf_counter()
    engine = kazeia.load(model, quant=quant, threads=threads)
    load = time.perf_counter() - started
    runs = [engine.synthesize(TEXT, seed=seed, max_frames=frames).timings for seed in range(3)]
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    per_frame = [t.per_frame_ms() for t in runs]
    return {
        "quant": quant,
        "load": load,
        "prefill": 1000 * statistics.median(t.prefill_s for t in runs),
        "rtf": statistics.median(t.rtf for t in runs),
        "rss": peak * 1024 / 1e9,
    } | {part: statistics.median(p[part] for p in per_frame) for part in ("talker", "predictor", "decoder")}


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Print the README's table of figures.")
    parser.add_argument("--model", default="random:0.6b")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--frames", type=int, default=25)
    parser.add_argument("--quant", nargs="*", default=["q8", "q4", "f32"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # the child process
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.model, asked.quant[0], asked.threads, asked.frames)))
        return 0

    import kazeia

    print(
        "| format | load | prefill | talker / frame | predictor / frame | decoder / frame | RTF | peak RSS |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for quant in asked.quant:
        kazeia.build_bundle(asked.model, quant=quant)
        command = [sys.executable, __file__, "--one", "--model", asked.model, "--quant", quant]
        command += ["--frames", str(asked.frames)]
        command += ["--threads", str(asked.threads)] if asked.threads else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(ROW.format(**json.loads(done.stdout)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

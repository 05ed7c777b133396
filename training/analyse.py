"""Step 1: WORLD analysis of the clips -> one .npz of features a clip (5 ms ticks).

    python analyse.py DATASET WORK [--share 0/2]      # one run a core: 0/2 and 1/2

Writes WORK/feat/NAME.npz: `mc` (ticks, 48) float16 = DCT of the log envelope on a mel axis, `ap` (ticks, 4) float16 =
log aperiodicity in four bands, `f0` (ticks,) float32 Hz (0 unvoiced). Clips already done are skipped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import common
import numpy as np
import pyworld
import soundfile
import vocoder


def analyse(audio: np.ndarray) -> dict[str, np.ndarray]:
    x = audio.astype(np.float64)
    period = 1000.0 * common.TICK / common.RATE
    f0, at = pyworld.dio(x, common.RATE, f0_floor=120.0, f0_ceil=450.0, frame_period=period)
    f0 = pyworld.stonemask(x, f0, at, common.RATE)
    envelope = pyworld.cheaptrick(x, f0, at, common.RATE, fft_size=vocoder.FFT)
    aperiodicity = pyworld.d4c(x, f0, at, common.RATE, fft_size=vocoder.FFT)
    return {
        "mc": vocoder.encode_envelope(envelope).astype(np.float16),
        "ap": vocoder.encode_aperiodicity(aperiodicity).astype(np.float16),
        "f0": f0.astype(np.float32),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("--share", default="0/1", help="which part of the clips: number/parts")
    args = parser.parse_args()
    part_number, parts = (int(x) for x in args.share.split("/"))
    out = common.work_dir(Path(args.work) / "feat")
    rows = common.read_manifest(args.dataset)
    # Held-out clips and both languages early, so that the first measurements need not wait for the rest.
    rows = sorted(rows, key=lambda r: (r["split"] != "held", common.row_name(r)[::-1]))
    for number, row in enumerate(rows[part_number::parts]):
        target = out / f"{common.row_name(row)}.npz"
        if target.exists():
            continue
        audio, rate = soundfile.read(Path(args.dataset) / row["file"])
        if rate != common.RATE:
            raise ValueError(f"{row['file']}: {rate} Hz, expected {common.RATE}")
        part = target.with_suffix(".part.npz")
        np.savez(part, **analyse(audio))
        part.rename(target)
        if number % 200 == 0:
            print(number, len(rows) // parts, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

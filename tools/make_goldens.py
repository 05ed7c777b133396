#!/usr/bin/env python3
"""Write tests/golden: small dumps of the official package's numbers, for machines without torch.

    python tools/make_goldens.py

Run it in an environment with kazeia, torch, transformers 4.57.3 and qwen-tts 0.1.1, whenever the recipe of
random checkpoints changes (kazeia.testing.tensors.RECIPE), and commit what it writes. Each case is a random
checkpoint, which tests make again from its shape and seed, and one utterance; the format is that of
tools/dump_official.py, with `"random": {"shape", "seed", "recipe"}` added to dump.json.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from dump_official import make_dump, write_dump
from kazeia.testing import make_checkpoint
from kazeia.testing.tensors import RECIPE
from official import Official

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"

CASES: dict[str, dict[str, Any]] = {
    # The plain case: all text in the prompt, a named language.
    "whole": {"shape": "tiny", "text": "hello there", "voice": "vivian", "language": "english"},
    # Projection before the predictor, instruct, a dialect speaker, text handed out frame by frame.
    "streamed": {
        "shape": "tiny-1b7",
        "text": "The end of it is, at last: né en été。",
        "voice": "eric",
        "language": "chinese",
        "instruct": "say it softly",
        "layout": "streamed",
    },
    # No language; a codec whose widths all differ, with a window shorter than the utterance.
    "codec": {"shape": "tiny-codec", "text": "the user and a sister", "voice": "ryan"},
    # The released head size, several queries per key.
    "heads": {"shape": "tiny-hd128", "text": "to all of 42", "voice": "Dylan", "language": "auto"},
}
FRAMES = 8
SEED = 0


def main() -> int:
    """Make every case; return the exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            asked = dict(case)
            shape = asked.pop("shape")
            official = Official(make_checkpoint(Path(scratch) / name, shape, SEED))
            info, tensors = make_dump(
                official,
                **asked,
                frames=FRAMES,
                extra={"random": {"shape": shape, "seed": SEED, "recipe": RECIPE}},
            )
            shutil.rmtree(GOLDEN / name, ignore_errors=True)
            write_dump(GOLDEN / name, info, tensors)
            size = sum(file.stat().st_size for file in (GOLDEN / name).iterdir())
            print(f"{name}: {info['frames']} frames, {size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

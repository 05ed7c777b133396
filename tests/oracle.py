"""The oracle: the official package's numbers, for tests marked `oracle`.

    official = load(folder)                      # an Official; skips the test where torch is missing
    trace = official.trace("hello", "vivian")    # prompt rows, hidden states, logits, codes
    official.predictor_logits(trace.frame_hidden, trace.codes)
    official.waveform(trace.codes)

See tools/official.py for shapes and meanings.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"
if str(TOOLS) not in sys.path:
    sys.path.insert(0, str(TOOLS))

from official import Official, Trace, available  # noqa: E402

__all__ = ["Official", "Trace", "available", "load", "require"]


def require() -> None:
    """Skip the calling test or module where the oracle is not installed; fail it where CI demands it."""
    if available():
        return
    reason = "the official package (torch, transformers, qwen-tts) is not installed"
    if os.environ.get("KAZEIA_REQUIRE_ORACLE"):
        raise RuntimeError(f"{reason}, and KAZEIA_REQUIRE_ORACLE is set")
    pytest.skip(reason, allow_module_level=True)


@functools.lru_cache(maxsize=4)
def _load(folder: str, dtype: str) -> Official:
    # Two threads gain nothing on tiny models, and lose much beside another busy process.
    return Official(folder, dtype, threads=1)


def load(folder: Path, dtype: str = "float32") -> Official:
    """Return the checkpoint in `folder`, loaded by the official package once per folder and type."""
    require()
    return _load(str(folder), dtype)

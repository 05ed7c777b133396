"""What the Python library says to the requests of the test programs; the page's examples."""

from __future__ import annotations

import re
from pathlib import Path

import kazeia
from kazeia.audio.wav import pcm_bytes

TEXT = "Guten Morgen, \N{GRINNING FACE} welt."
PAGE = Path(__file__).resolve().parents[2] / "docs" / "jvm.md"


def spoken(engine: kazeia.Engine, seed: int) -> bytes:
    """The PCM, as 16-bit little-endian bytes, of the request that Speak programs write out."""
    return pcm_bytes(engine.synthesize(TEXT, voice="vivian", language="de", seed=seed, max_frames=12).pcm)


def example(language: str) -> str:
    """The page's one example in a language that is a whole program."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(found) == 1, f"{language}: {len(found)} examples"
    return str(found[0])

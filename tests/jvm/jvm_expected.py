"""What the Python library says to the requests of the test programs."""

from __future__ import annotations

import kazeia
from kazeia.audio.wav import pcm_bytes

TEXT = "Guten Morgen, \N{GRINNING FACE} welt."


def spoken(engine: kazeia.Engine, seed: int) -> bytes:
    """The PCM, as 16-bit little-endian bytes, of the request that Speak programs write out."""
    return pcm_bytes(engine.synthesize(TEXT, voice="vivian", language="de", seed=seed, max_frames=12).pcm)

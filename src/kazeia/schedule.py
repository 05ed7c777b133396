"""How many frames each chunk of a stream holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

from kazeia.errors import OptionError

VARIABLE = "KZTTS_STREAM_CHUNK"
DEFAULT = (1,) * 5 + (2,) * 5 + (4,) * 5 + (8,)
"""Five chunks of each size, then the largest for ever. Sound begins after one frame, and a listener
never waits for a chunk as long as a frame (80 ms) takes at most 60 ms to generate and 32 ms to decode,
side by side: growing sooner would leave gaps, small chunks for ever would cost more."""

ChunkFrames = int | Sequence[int] | None
"""What a caller may give: a size for all chunks, the sizes of the first ones (the last of them
repeats), or None for the environment's KZTTS_STREAM_CHUNK, else `DEFAULT`."""


@dataclass(frozen=True)
class ChunkSchedule:
    """The sizes of the first chunks in frames; the last one repeats."""

    sizes: tuple[int, ...]

    def size(self, index: int) -> int:
        """Frames of chunk `index`."""
        return self.sizes[min(index, len(self.sizes) - 1)]


def chunk_schedule(choice: ChunkFrames, environ: Mapping[str, str] = os.environ) -> ChunkSchedule:
    """The schedule that `choice` stands for.

    Raises OptionError for sizes that are no whole numbers of at least 1, and, naming it, for such a
    value of KZTTS_STREAM_CHUNK (an empty one counts as not set).
    """
    wanted = "a whole number of at least 1"
    if choice is None:
        text = environ.get(VARIABLE, "").strip()
        if not text:
            return ChunkSchedule(DEFAULT)
        size = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if not _is_size(size):
            raise OptionError(
                f"environment variable {VARIABLE} is {text!r}; expected the frames of 80 ms per chunk, "
                f"{wanted}, as in {VARIABLE}=4; or unset it"
            )
        return ChunkSchedule((size,))
    sizes = choice if isinstance(choice, Sequence) and not isinstance(choice, str | bytes) else (choice,)
    if len(sizes) and all(map(_is_size, sizes)):
        return ChunkSchedule(tuple(map(int, sizes)))
    raise OptionError(
        f"chunk_frames is {choice!r}; expected {wanted}, a sequence of such numbers (the last one "
        "repeats), or None"
    )


def _is_size(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1

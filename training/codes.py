"""What the 16 codes of a frame say, and how they are made from an alignment.

| stream | content |
|---|---|
| c0 | the next phone: the one after the phone that fills the frame's last slot |
| c1 … c4 | the phone in each of the four 20 ms slots |
| c5 | the phone after c0 |
| c6 | how many more slots the last slot's phone lasts beyond this frame, 0 … 31 |
| c7 | pitch number k: f0 = k · 12.5 Hz, so that k whole periods fill the frame |
| c8 | where the talker reads: how many rows the token of c0's phone stands before the frame's own row, at most 255 |
| c9 … c15 | nothing: drawn at random, and the decoder has zeros for them |

Phones rather than sounds: what a phone sounds like in its context is a function of these codes, which the decoder
learns; what is left to the talker is to spell, to time and to intone. The decoder sees no later frame, hence c0, c5, c6,
and does not look at c8, which is the talker's note to itself: with rotary positions, a distance is a query.
"""

from __future__ import annotations

from dataclasses import dataclass

import common
import numpy as np

NEXT, SLOT0, NEXT2, REMAIN, PITCH, POINTER, NOISE = 0, 1, 5, 6, 7, 8, 9
HEARD = 8  # streams that the decoder uses
USED = 9  # streams that mean something
FARTHEST = 255
LONGEST = 31


@dataclass
class Alignment:
    """One utterance: symbols and where each starts, in samples from the start of the clip."""

    symbols: np.ndarray  # (phones,) ids
    starts: np.ndarray  # (phones,) samples; the first may be negative
    length: int  # samples

    def shifted(self, shift: int) -> Alignment:
        """The same with `shift` samples of silence before it."""
        return Alignment(self.symbols, self.starts + shift, self.length + shift)


def slot_phones(alignment: Alignment, frames: int) -> np.ndarray:
    """(frames · 4,) index of the phone under each slot's centre."""
    centres = np.arange(frames * common.SLOTS) * common.SLOT + common.SLOT // 2
    return np.clip(
        np.searchsorted(alignment.starts, centres, side="right") - 1, 0, len(alignment.symbols) - 1
    )


def encode(alignment: Alignment, pitch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """-> codes (frames, 16) int16 for `pitch` (frames,)."""
    frames = len(pitch)
    index = slot_phones(alignment, frames)
    symbols = np.concatenate([alignment.symbols, [0, 0]])
    last = index[common.SLOTS - 1 :: common.SLOTS]
    codes = np.zeros((frames, common.STREAMS), np.int16)
    codes[:, NEXT] = symbols[last + 1]
    codes[:, SLOT0 : SLOT0 + common.SLOTS] = symbols[index].reshape(frames, common.SLOTS)
    codes[:, NEXT2] = symbols[last + 2]
    ends = np.concatenate([alignment.starts[1:], [alignment.length]])
    # First slot whose centre lies at or past the phone's end.
    first_after = np.ceil((ends[last] - common.SLOT / 2) / common.SLOT)
    codes[:, REMAIN] = np.clip(first_after - (np.arange(frames) + 1) * common.SLOTS, 0, LONGEST)
    codes[:, PITCH] = pitch
    codes[:, NOISE:] = rng.integers(0, common.CODES, (frames, common.STREAMS - NOISE))
    return codes


CONTEXT = 9  # columns of `slot_context`


def slot_context(codes: np.ndarray) -> np.ndarray:
    """Codes (frames, 16) -> (frames · 4, 9) int: phones before-before, before, now, next, next-next; slots since the
    phone began, slots it still lasts (both at most 31), length of the phone before, pitch number.

    A pure function of the codes up to and including the slot's own frame. Two equal phones in a row count as one.
    """
    frames = len(codes)
    slots = codes[:, SLOT0 : SLOT0 + common.SLOTS].astype(int)
    out = np.zeros((frames * common.SLOTS, CONTEXT), int)
    before2, before, now, since, length = 0, 0, int(slots[0, 0]), 0, 0
    for t in range(frames):
        ahead = [*slots[t], int(codes[t, NEXT]), int(codes[t, NEXT2])]
        for j in range(common.SLOTS):
            phone = int(slots[t, j])
            if phone != now:
                before2, before, now, length, since = before, now, phone, min(since, LONGEST), 0
            following = [p for p in ahead[j + 1 : common.SLOTS] if p != phone]
            run = 0
            while j + 1 + run < common.SLOTS and ahead[j + 1 + run] == phone:
                run += 1
            rest = run if j + 1 + run < common.SLOTS else run + int(codes[t, REMAIN])
            chain = _distinct([*following, int(codes[t, NEXT]), int(codes[t, NEXT2])])
            out[t * common.SLOTS + j] = (
                before2, before, now, chain[0], chain[1] if len(chain) > 1 else 0,
                min(since, LONGEST), min(rest, LONGEST), length, int(codes[t, PITCH]),
            )  # fmt: skip
            since += 1
    return out


def _distinct(row: list[int]) -> list[int]:
    return [p for i, p in enumerate(row) if i == 0 or p != row[i - 1]]

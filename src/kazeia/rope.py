"""Rotary position embedding in its half-split form; spec §2.1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


def rope_tables(theta: float, head_dim: int, start: int, stop: int) -> tuple[F32, F32]:
    """cos and sin (stop − start, head_dim / 2) for positions start … stop − 1.

    The angle is rounded to float32 as in the reference, which shows at large positions.
    """
    exponent = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    inverse = np.float32(1) / np.power(np.float32(theta), exponent)
    angles = (np.arange(start, stop, dtype=np.float32)[:, None] * inverse).astype(np.float64)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

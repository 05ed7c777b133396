"""Writes a safetensors file piece by piece, so that memory does not grow with the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kazeia.testing.tensors import F32, Tensor

Progress = Callable[[int, int], None]
"""Called with (bytes written, bytes in all)."""

ITEM_SIZES = {"BF16": 2, "F32": 4}


def header_bytes(tensors: Sequence[Tensor], dtype: str, *, metadata: bool) -> bytes:
    """Return the length prefix and the JSON header, padded with spaces to eight bytes.

    Args:
        tensors: in file order.
        dtype: "BF16" or "F32", for all of them.
        metadata: whether to write `{"format": "pt"}`, as the released talker files do (spec §1.3).
    """
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}} if metadata else {}
    offset = 0
    for tensor in tensors:
        end = offset + tensor.size * ITEM_SIZES[dtype]
        entries[tensor.name] = {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def file_size(tensors: Sequence[Tensor], dtype: str, *, metadata: bool) -> int:
    """Return the size in bytes of the file `write_safetensors` would write."""
    payload = sum(tensor.size for tensor in tensors) * ITEM_SIZES[dtype]
    return len(header_bytes(tensors, dtype, metadata=metadata)) + payload


def to_bfloat16(values: F32) -> npt.NDArray[np.uint16]:
    """Return the bits of finite float32 values rounded to bfloat16, to nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded: npt.NDArray[np.uint32] = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    high: npt.NDArray[np.uint16] = (rounded >> np.uint32(16)).astype("<u2")
    return high


def write_safetensors(
    path: Path,
    tensors: Sequence[Tensor],
    dtype: str,
    seed: int,
    *,
    metadata: bool,
    progress: Callable[[int], None],
) -> None:
    """Write `tensors` with their values for `seed`; `progress` is told the bytes of each piece."""
    with path.open("wb") as file:
        header = header_bytes(tensors, dtype, metadata=metadata)
        progress(file.write(header))
        for tensor in tensors:
            for values in tensor.chunks(seed):
                piece = to_bfloat16(values) if dtype == "BF16" else values.astype("<f4", copy=False)
                progress(file.write(piece.data))

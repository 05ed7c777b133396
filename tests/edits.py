"""Checkpoints with something changed in them, for tests of what must then happen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Raw = tuple[str, list[int], bytes]
"""A tensor of a safetensors file: dtype, shape, bytes."""


def copy(source: Path, target: Path) -> Path:
    """A copy of a checkpoint or bundle."""
    return Path(shutil.copytree(source, target))


def read_tensors(path: Path) -> dict[str, Raw]:
    """All tensors of a safetensors file, as they are stored."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        found[name] = entry["dtype"], entry["shape"], data[first:last]
    return found


def write_tensors(path: Path, tensors: Mapping[str, Raw]) -> None:
    """Write a safetensors file."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *(t[2] for t in tensors.values())]))


def floats(raw: Raw) -> npt.NDArray[np.float32]:
    """The values of a BF16 or F32 tensor, in an array of their own."""
    dtype, shape, data = raw
    if dtype == "BF16":
        bits = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    return np.frombuffer(data, "<f4").reshape(shape).copy()


def change_tensor(
    folder: Path,
    name: str,
    change: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32] | None],
) -> Path:
    """Change one tensor of the weights in `folder` (the checkpoint, or its speech_tokenizer) in place.

    `change` gets the values and returns new ones, or None to leave the tensor out.
    """
    path = folder / "model.safetensors"
    tensors = read_tensors(path)
    values = change(floats(tensors[name]))
    if values is None:
        del tensors[name]
    else:
        tensors[name] = "F32", list(values.shape), values.astype("<f4").tobytes()
    write_tensors(path, tensors)
    return folder


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file in place: `change` edits the document it is given."""
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")

"""Reading and checking the header of a safetensors file before its body is touched."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazeia.errors import WeightsError

# The format's own limit; a full-size checkpoint's header is about 50 kB.
_HEADER_LIMIT = 100_000_000
_LFS_START = b"version https://git-lfs"
_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies: `start` is its first byte, counted from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Read the tensor table of one safetensors file.

    The whole table is checked: every range lies in the file, matches its shape and dtype, and the
    ranges neither overlap nor leave gaps. Raises WeightsError naming the file and what is wrong.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            first = stream.read(8)
            if first + stream.read(len(_LFS_START) - 8) == _LFS_START:
                raise _broken(path, "is a git-lfs pointer, not the weights; run 'git lfs pull' there")
            if len(first) < 8:
                raise _broken(path, f"holds {size} bytes, too few for a safetensors header")
            length = int.from_bytes(first, "little")
            if length > min(size - 8, _HEADER_LIMIT):
                raise _broken(
                    path, f"its header claims {length} bytes, but {size - 8} follow; not a safetensors file"
                )
            stream.seek(8)
            header = stream.read(length)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror or error})") from error
    return _check_table(path, _parse(path, header), 8 + length, size - 8 - length)


def _broken(path: Path, problem: str) -> WeightsError:
    return WeightsError(f"{path}: {problem}")


def _parse(path: Path, header: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise ValueError("a name occurs twice")
        return table

    try:
        table = json.loads(header.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"its header is not valid JSON ({error}); fetch the file again") from error
    if not isinstance(table, dict):
        raise _broken(path, "its header is not a JSON object; fetch the file again")
    table.pop("__metadata__", None)
    return table


def _check_table(path: Path, table: dict[str, Any], origin: int, body: int) -> dict[str, TensorEntry]:
    entries: dict[str, TensorEntry] = {}
    spans: list[tuple[int, int, str]] = []
    for name, value in table.items():
        dtype, shape, (begin, end) = _entry(path, name, value)
        expected = math.prod(shape) * _ITEM_BYTES[dtype]
        if end - begin != expected:
            raise _broken(
                path,
                f"tensor {name}: {dtype} {list(shape)} needs {expected} bytes, but its range "
                f"[{begin}, {end}] holds {end - begin}",
            )
        entries[name] = TensorEntry(dtype, shape, origin + begin)
        spans.append((begin, end, name))
    spans.sort()
    at = 0
    for begin, end, name in spans:
        if begin != at:
            kind = "overlaps the tensor before it" if begin < at else "leaves a gap before it"
            raise _broken(path, f"tensor {name}: its range [{begin}, {end}] {kind}; fetch the file again")
        at = end
    if body < at:
        raise _broken(
            path,
            f"the body holds {body} bytes, but its header describes {at}; the download is incomplete, "
            "fetch the file again",
        )
    if body > at:
        raise _broken(path, f"{body - at} bytes follow the last tensor; fetch the file again")
    return entries


def _entry(path: Path, name: str, value: Any) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    def naturals(numbers: Any) -> bool:
        return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)

    if not isinstance(value, dict):
        raise _broken(path, f"tensor {name}: its header entry is not an object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise _broken(path, f"tensor {name}: unknown dtype {dtype!r}")
    if not isinstance(shape, list) or not naturals(shape):
        raise _broken(path, f"tensor {name}: {shape!r} is not a shape")
    if not isinstance(offsets, list) or not naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _broken(path, f"tensor {name}: data_offsets {offsets!r} are not a range")
    return dtype, tuple(shape), (offsets[0], offsets[1])

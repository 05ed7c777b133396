"""Weights in safetensors files, single or sharded, memory-mapped and given out as float32."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from kazeia.checkpoint._fields import read_json
from kazeia.checkpoint._header import TensorEntry, read_header
from kazeia.errors import ConfigError, WeightsError

_NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # bfloat16 as its raw 16 bits

Float32 = npt.NDArray[np.float32]


class TensorFiles:
    """The tensors of one model: one file, or the shards that an index lists.

    Headers are checked in full when opened; bodies are mapped, so memory is spent only on what is
    read. An instance may be read from several threads at once.
    """

    def __init__(
        self, tensors: dict[str, tuple[int, TensorEntry]], files: Sequence[Path], index: Path | None = None
    ) -> None:
        """Use `open`. `tensors` maps a name to the number of its file in `files` and its place there."""
        self.files = tuple(files)
        self.index = index  # the file that lists the shards, if there are shards
        self._tensors = tensors
        self._bodies: list[npt.NDArray[np.uint8]] | None = [_map(path) for path in files]

    @classmethod
    def open(cls, folder: str | Path, stem: str = "model") -> TensorFiles:
        """Open `<stem>.safetensors`, or else the shards of `<stem>.safetensors.index.json`, in `folder`.

        Raises WeightsError naming the file and what is wrong with it, before anything large is
        allocated or mapped.
        """
        folder = Path(folder)
        single = folder / f"{stem}.safetensors"
        index = folder / f"{stem}.safetensors.index.json"
        if single.is_file():
            return cls({name: (0, entry) for name, entry in read_header(single).items()}, [single])
        if index.is_file():
            return cls._open_shards(index)
        raise WeightsError(
            f"{folder}: holds neither {single.name} nor {index.name}; the weights must be in this folder"
        )

    @classmethod
    def _open_shards(cls, index: Path) -> TensorFiles:
        where = read_weight_map(index)
        names = sorted(set(where.values()))
        files = [index.parent / name for name in names]
        missing = [path.name for path in files if not path.is_file()]
        if missing:
            raise WeightsError(
                f"{index}: lists {len(names)} shards, but {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing from {index.parent}"
            )
        headers = [read_header(path) for path in files]
        tensors: dict[str, tuple[int, TensorEntry]] = {}
        for name, shard in where.items():
            number = names.index(shard)
            if name not in headers[number]:
                raise WeightsError(
                    f"{files[number]}: tensor {name} is not in it, though {index.name} says so"
                )
            tensors[name] = (number, headers[number][name])
        return cls(tensors, files, index)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors, in the file's order."""
        return tuple(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape. Raises WeightsError when there is no such tensor."""
        return self._entry(name)[1].shape

    def dtype(self, name: str) -> str:
        """The tensor's type as the file names it, such as "BF16". Raises WeightsError if missing."""
        return self._entry(name)[1].dtype

    def get(self, name: str, shape: Sequence[int]) -> Float32:
        """The tensor as float32; `shape` is the shape it must have.

        A tensor stored as float32 comes as a read-only view of the file, others as new arrays.
        Raises WeightsError when it is missing, has another shape, or is not BF16, F16 or F32.
        """
        return self._read(name, tuple(shape), None)

    def rows(self, name: str, shape: Sequence[int], start: int, stop: int) -> Float32:
        """Rows `start` to `stop` of the first axis as float32, `(stop - start, *shape[1:])`.

        Only those rows are read. Raises WeightsError as `get` does, ValueError for a range outside
        the tensor.
        """
        if not shape or not 0 <= start <= stop <= shape[0]:
            raise ValueError(f"rows {start}:{stop} are not in a tensor of shape {tuple(shape)}")
        return self._read(name, tuple(shape), (start, stop))

    def close(self) -> None:
        """Let go of the files; arrays already given out stay valid. May be called twice."""
        self._bodies = None

    def __enter__(self) -> TensorFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _entry(self, name: str) -> tuple[int, TensorEntry]:
        try:
            return self._tensors[name]
        except KeyError:
            pass
        near = difflib.get_close_matches(name, self._tensors, n=3, cutoff=0.8)
        hint = f"; near names there: {', '.join(near)}" if near else ""
        searched = ", ".join(str(path) for path in self.files)
        raise WeightsError(f"tensor {name} is missing; searched {searched}{hint}")

    def _read(self, name: str, shape: tuple[int, ...], span: tuple[int, int] | None) -> Float32:
        number, entry = self._entry(name)
        path = self.files[number]
        if entry.shape != shape:
            raise WeightsError(f"{path}: tensor {name}: found shape {entry.shape}, expected {shape}")
        if entry.dtype not in _NUMPY_TYPES:
            raise WeightsError(f"{path}: tensor {name}: found {entry.dtype}, expected BF16, F16 or F32")
        if self._bodies is None:
            raise WeightsError(f"{path}: tensor {name} was asked for after the file was closed")
        stored = np.dtype(_NUMPY_TYPES[entry.dtype])
        start = entry.start
        if span is not None:
            start += span[0] * math.prod(shape[1:]) * stored.itemsize
            shape = (span[1] - span[0], *shape[1:])
        raw = np.ndarray(shape, stored, buffer=self._bodies[number].data, offset=start)
        if entry.dtype == "BF16":
            # bfloat16 is the upper half of a float32.
            bits = np.empty(shape, np.uint32)
            np.left_shift(raw, np.uint32(16), out=bits, dtype=np.uint32)
            return bits.view(np.float32)
        # A header of odd length leaves its tensors unaligned, which some kernels cannot read.
        floats: Float32 = raw.astype(np.float32, copy=not raw.flags.aligned)
        return floats


def read_weight_map(index: Path) -> dict[str, str]:
    """The `weight_map` of a `*.safetensors.index.json`: tensor name to shard file name.

    Raises WeightsError when the file or the map cannot be used.
    """
    try:
        where = read_json(index).get("weight_map")
    except ConfigError as error:
        raise WeightsError(str(error)) from error
    if not isinstance(where, dict) or not where:
        raise WeightsError(f"{index}: weight_map: expected an object of tensor names to shard files")
    for name, shard in where.items():
        # A shard lies beside its index: anything with a folder in it could reach outside the model.
        if not isinstance(shard, str) or shard in ("", ".", "..") or set(shard) & set("/\\:"):
            raise WeightsError(f"{index}: weight_map: {name}: found {shard!r}, expected a file name")
    return where


def _map(path: Path) -> npt.NDArray[np.uint8]:
    try:
        return np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: cannot be mapped into memory ({error})") from error

"""Weights files: broken ones are refused by name before anything is mapped, good ones give exact floats."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_checkpoint import TENSORS, header_of, pack, write_safetensors, write_shards

from kazeia.checkpoint import TensorFiles
from kazeia.checkpoint import safetensors as module
from kazeia.errors import WeightsError

_HEADER, _BODY = header_of(TENSORS)
_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1811626576\n"


def _with(name: str, **changes: Any) -> dict[str, Any]:
    return {**_HEADER, name: {**_HEADER[name], **changes}}


_NORM, _HEAD = TENSORS


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(_POINTER, "git-lfs pointer", id="git-lfs pointer"),
        pytest.param(b"", "holds 0 bytes", id="0 bytes"),
        pytest.param(b"\x01\x02\x03\x04", "holds 4 bytes", id="4 bytes"),
        pytest.param(b"\x08" + b"\0" * 7, "header claims 8 bytes, but 0 follow", id="8 bytes"),
        pytest.param(b"\xff" * 8 + b"{}", "header claims 18446744073709551615", id="2^64-1"),
        pytest.param(pack(_HEADER, _BODY)[:100], "bytes, but 92 follow", id="header longer than file"),
        pytest.param(pack(_HEADER, _BODY[:-1]), "download is incomplete", id="body one byte short"),
        pytest.param(pack(_HEADER, b""), "download is incomplete", id="no body"),
        pytest.param(pack(_HEADER, _BODY + b"x"), "1 bytes follow the last tensor", id="body too long"),
        pytest.param(pack(b"{nonsense", _BODY), "not valid JSON", id="bad JSON"),
        pytest.param(pack(b"\xff\xfe", _BODY), "not valid JSON", id="header not UTF-8"),
        pytest.param(pack(b"[" * 100_000, _BODY), "not valid JSON", id="header nested"),
        pytest.param(pack(b'{"a": {}, "a": {}}', _BODY), "occurs twice", id="name twice"),
        pytest.param(pack([], _BODY), "not a JSON object", id="header a list"),
        pytest.param(pack({"a": 1}, _BODY), "tensor a: .*not an object", id="entry a number"),
        pytest.param(pack(_with(_HEAD, dtype="F33"), _BODY), "unknown dtype 'F33'", id="dtype"),
        pytest.param(pack(_with(_HEAD, dtype=None), _BODY), "unknown dtype None", id="no dtype"),
        pytest.param(pack(_with(_HEAD, shape=[2, -3]), _BODY), "not a shape", id="shape"),
        pytest.param(pack(_with(_HEAD, shape=[2, 4]), _BODY), "needs 32 bytes", id="shape too big"),
        pytest.param(pack(_with(_HEAD, shape=[10**30]), _BODY), "bytes, but its range", id="shape huge"),
        pytest.param(pack(_with(_HEAD, dtype="BF16"), _BODY), "needs 12 bytes", id="dtype too small"),
        pytest.param(pack(_with(_HEAD, data_offsets=[16, 12]), _BODY), "not a range", id="reversed"),
        pytest.param(pack(_with(_HEAD, data_offsets=[16]), _BODY), "not a range", id="half a range"),
        pytest.param(pack(_with(_HEAD, data_offsets=[-8, 16]), _BODY), "not a range", id="negative"),
        pytest.param(pack(_with(_HEAD, data_offsets=[0, 24]), _BODY), "overlaps", id="overlapping"),
        pytest.param(pack(_with(_HEAD, data_offsets=[20, 44]), _BODY), "gap", id="gap"),
        pytest.param(pack(_with(_HEAD, data_offsets=[2**62, 2**62 + 24]), _BODY), "gap", id="out of range"),
    ],
)
def test_l01_a_broken_file_is_named_before_its_body_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, told: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(data)
    mapped: list[Path] = []
    monkeypatch.setattr(module, "_map", mapped.append)
    with pytest.raises(WeightsError, match=rf"model\.safetensors: .*{told}"):
        TensorFiles.open(tmp_path)
    assert mapped == []


def test_l01_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path, [{name: TENSORS[name]} for name in TENSORS])
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"index\.json: lists 2 shards, but model-00002-of-00002"):
        TensorFiles.open(tmp_path)


def test_l01_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path, [{name: TENSORS[name]} for name in TENSORS])
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {_NORM: TENSORS[_NORM]})
    with pytest.raises(
        WeightsError, match=rf"model-00002-of-00002\.safetensors: tensor {_HEAD} is not in it"
    ):
        TensorFiles.open(tmp_path)


def test_l01_a_broken_shard_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path, [{name: TENSORS[name]} for name in TENSORS])
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(_POINTER)
    with pytest.raises(WeightsError, match=r"model-00002-of-00002\.safetensors: is a git-lfs pointer"):
        TensorFiles.open(tmp_path)


@pytest.mark.parametrize(
    "index", ["{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../b"}}', "{"]
)
def test_an_index_that_cannot_be_used_is_named(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index, "utf-8")
    with pytest.raises(WeightsError, match=r"model\.safetensors\.index\.json: "):
        TensorFiles.open(tmp_path)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"):
        TensorFiles.open(tmp_path)


@pytest.mark.parametrize("sharded", [False, True])
def test_single_and_sharded_files_give_the_same_tensors(tmp_path: Path, sharded: bool) -> None:
    if sharded:
        write_shards(tmp_path, [{name: TENSORS[name]} for name in TENSORS])
    else:
        write_safetensors(tmp_path / "model.safetensors")
    with TensorFiles.open(tmp_path) as weights:
        assert set(weights.names) == set(TENSORS)
        assert _HEAD in weights
        assert "other" not in weights
        assert weights.shape(_HEAD) == (2, 3)
        assert weights.dtype(_HEAD) == "F32"
        np.testing.assert_array_equal(weights.get(_HEAD, (2, 3)), np.arange(6).reshape(2, 3))
        np.testing.assert_array_equal(weights.get(_NORM, (4,)), np.arange(4))
        assert len(weights.files) == (2 if sharded else 1)


def _bits(dtype: str) -> np.ndarray[Any, Any]:
    """Every finite 16-bit pattern, or float32 extremes."""
    if dtype == "F32":
        return np.array([0.0, -0.0, 1e-45, 3.4e38, -1.5, np.pi], "<f4").reshape(2, 3)
    kind = np.dtype(np.float16) if dtype == "F16" else np.dtype(ml_dtypes.bfloat16)
    every = np.arange(1 << 16, dtype=np.uint16).view(kind)
    return every[np.isfinite(every.astype(np.float32))].reshape(4, -1)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("pad", [0, 1, 2, 3])
def test_every_float_type_becomes_exactly_its_float32(tmp_path: Path, dtype: str, pad: int) -> None:
    """Also behind a header of odd length, where the body is not aligned."""
    stored = _bits(dtype)
    header, body = header_of({"t": (dtype, stored.shape, stored.tobytes())})
    (tmp_path / "model.safetensors").write_bytes(pack(header, body, pad))
    weights = TensorFiles.open(tmp_path)
    expected = stored.astype(np.float32)
    found = weights.get("t", stored.shape)
    assert found.dtype == np.float32
    assert found.flags.aligned
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    for start, stop in ((0, len(stored)), (1, 2), (1, 1), (len(stored) - 1, len(stored))):
        rows = weights.rows("t", stored.shape, start, stop)
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows.view(np.uint32), expected[start:stop].view(np.uint32))


def test_scalars_and_empty_tensors_are_read(tmp_path: Path) -> None:
    one = np.array([1.5], ml_dtypes.bfloat16)
    write_safetensors(
        tmp_path / "model.safetensors",
        {"empty": ("F32", (0, 3), b""), "scalar": ("BF16", (), one.tobytes()), "last": ("F32", (0,), b"")},
    )
    weights = TensorFiles.open(tmp_path)
    assert weights.get("scalar", ()) == np.float32(1.5)
    assert weights.get("empty", (0, 3)).shape == (0, 3)
    assert weights.get("last", (0,)).shape == (0,)


def test_files_of_the_reference_library_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tensors = {"b": rng.normal(size=(5, 7)).astype(np.float32), "a": rng.normal(size=3).astype(np.float16)}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    weights = TensorFiles.open(tmp_path)
    for name, expected in tensors.items():
        np.testing.assert_array_equal(weights.get(name, expected.shape), expected.astype(np.float32))


def test_name_shape_and_type_are_checked_on_every_read(tmp_path: Path) -> None:
    ids = np.arange(3, dtype="<i8").tobytes()
    write_safetensors(tmp_path / "model.safetensors", {**TENSORS, "ids": ("I64", (3,), ids)})
    weights = TensorFiles.open(tmp_path)
    with pytest.raises(
        WeightsError, match=r"talker\.codec_head\.weigt is missing; searched .*model\.saf.*near"
    ):
        weights.get("talker.codec_head.weigt", (2, 3))
    with pytest.raises(WeightsError, match="is missing"):
        weights.shape("other")
    with pytest.raises(WeightsError, match=r"found shape \(2, 3\), expected \(3, 2\)"):
        weights.get(_HEAD, (3, 2))
    with pytest.raises(WeightsError, match=r"found shape \(2, 3\), expected \(5, 3\)"):
        weights.rows(_HEAD, (5, 3), 0, 5)
    with pytest.raises(WeightsError, match="found I64, expected BF16, F16 or F32"):
        weights.get("ids", (3,))
    for start, stop in ((-1, 1), (1, 0), (0, 3)):
        with pytest.raises(ValueError, match="not in a tensor"):
            weights.rows(_HEAD, (2, 3), start, stop)


def test_arrays_outlive_close_and_are_read_only(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors")
    weights = TensorFiles.open(tmp_path)
    array = weights.get(_HEAD, (2, 3))
    weights.close()
    weights.close()
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(WeightsError, match="closed"):
        weights.get(_HEAD, (2, 3))


def test_threads_read_the_same_numbers(tmp_path: Path) -> None:
    data = np.arange(4096, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(64, 64)
    write_safetensors(tmp_path / "model.safetensors", {"t": ("BF16", (64, 64), data.tobytes())})
    weights = TensorFiles.open(tmp_path)
    wrong: list[int] = []

    def read(row: int) -> None:
        for _ in range(50):
            if not np.array_equal(weights.rows("t", (64, 64), row, row + 1)[0], data[row].astype(np.float32)):
                wrong.append(row)

    threads = [threading.Thread(target=read, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_single_file_is_used_when_an_index_lies_beside_it(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "y"}}), "utf-8")
    assert set(TensorFiles.open(tmp_path).names) == set(TENSORS)

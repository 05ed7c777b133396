"""Rows of a table on disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia.errors import BundleError
from kazeia.row_table import RowTable

VALUES = np.random.default_rng(3).standard_normal((3, 7, 5)).astype(np.float32)
INDICES: list[Any] = [
    0, -1, (1, 2), (2, -7), slice(None), slice(1, 3), [2, 0, 2], (np.arange(3), np.array([6, 0, 3])),
    (1, np.array([4, 4])), np.array([[0, 2], [1, 1]]), (slice(0, 2), 3), [], np.int64(2),
]  # fmt: skip


@pytest.fixture(params=["preadv", "mapped"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "mapped":
        monkeypatch.delattr(os, "preadv", raising=False)
    elif not hasattr(os, "preadv"):
        pytest.skip("this system has no preadv")
    np.save(tmp_path / "table.npy", VALUES)
    return tmp_path / "table.npy"


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_it_is_indexed_like_the_array(path: Path, index: Any) -> None:
    table = RowTable(path)
    assert table.shape == VALUES.shape
    found = table[index]
    assert found.dtype == np.float32
    assert found.flags.writeable
    assert np.array_equal(found, VALUES[index])


@pytest.mark.parametrize("index", [3, -4, (0, 7), [0, 3], (0, 0, 0, 0), "a", 1.5])
def test_rows_that_are_not_there_are_index_errors(path: Path, index: Any) -> None:
    with pytest.raises(IndexError):
        RowTable(path)[index]


def test_what_is_given_out_is_a_copy(path: Path) -> None:
    table = RowTable(path)
    table[0][:] = 9
    assert np.array_equal(table[0], VALUES[0])


@pytest.mark.parametrize(
    "array", [VALUES.astype(np.float64), VALUES.astype(">f4"), VALUES[0, 0], np.asfortranarray(VALUES[0])]
)
def test_a_table_of_something_else_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "table.npy", array)
    with pytest.raises(ValueError, match="expected rows of little-endian float32"):
        RowTable(tmp_path / "table.npy")


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="a mapped file that shrinks ends the process")
def test_a_file_that_was_cut_off_meanwhile_is_a_named_error(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, VALUES)
    table = RowTable(path)
    os.truncate(path, path.stat().st_size - 4)
    assert np.array_equal(table[2, :6], VALUES[2, :6])
    with pytest.raises(BundleError, match=r"row 20 has 16 bytes, expected 20: .* build the bundle again"):
        table[2, 6]


def test_threads_may_share_one(path: Path) -> None:
    table, wrong = RowTable(path), []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            index = rng.integers(0, 3, 4), rng.integers(0, 7, 4)
            if not np.array_equal(table[index], VALUES[index]):
                wrong.append(index)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

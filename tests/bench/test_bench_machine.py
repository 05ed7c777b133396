"""Reading the machine: what the system tells is read right, what it does not tell is None."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from kazeia.bench import machine
from kazeia.bench.bandwidth import buffer_bytes, read_passes


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    assert machine.last_level_cache(tmp_path) is None
    for index, size in enumerate(["32K", "1024K", "32M", "nonsense", ""]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert machine.last_level_cache(tmp_path) == 32 << 20


def test_the_peak_is_the_high_water_mark(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n")
    assert machine.peak_rss(status) == 2048 * 1024
    if sys.platform != "darwin":
        assert machine.peak_rss(tmp_path / "none") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_the_peak_stays_when_the_memory_is_given_back() -> None:
    block = np.ones(256 << 20, np.uint8)
    size, held = block.nbytes, machine.peak_rss()
    assert held is not None
    assert held > size
    del block
    after = machine.peak_rss()
    assert after is not None
    assert after > held - size / 8  # the system counts in small batches per thread


def test_bytes_from_the_disk(tmp_path: Path) -> None:
    io = tmp_path / "io"
    io.write_text("rchar: 9\nread_bytes: 4096\n")
    assert machine.disk_bytes_read(io) == 4096
    assert machine.disk_bytes_read(tmp_path / "none") is None


def test_forgetting_changes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10_000)
    machine.evict([file])
    assert file.read_bytes() == b"x" * 10_000


def test_the_machine_is_described() -> None:
    found = machine.this_machine()
    assert found.cpu
    assert found.cores >= 1
    assert found.to_dict()["python"].startswith("3.")


def test_the_buffer_is_much_larger_than_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kazeia.bench.bandwidth.last_level_cache", lambda: 1 << 30)
    monkeypatch.setattr("kazeia.bench.bandwidth.memory_bytes", lambda: 1 << 40)
    assert buffer_bytes() == 8 << 30
    monkeypatch.setattr("kazeia.bench.bandwidth.memory_bytes", lambda: 8 << 30)
    assert buffer_bytes() == 2 << 30


@pytest.mark.parametrize("threads", [1, 3])
def test_every_pass_has_a_speed(threads: int) -> None:
    speeds = read_passes(threads, 1 << 20, 4)
    assert len(speeds) == 4
    assert min(speeds) > 0

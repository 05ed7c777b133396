"""One fingerprint for equal content, another for any change, and a cache that only saves time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from tiny_checkpoint import TENSORS, header_of, pack, write_checkpoint

from kazeia.checkpoint import _fingerprint, open_checkpoint
from kazeia.errors import CheckpointError


def test_equal_content_gives_one_fingerprint_wherever_it_lies(tmp_path: Path) -> None:
    one = open_checkpoint(write_checkpoint(tmp_path / "one")).fingerprint()
    assert open_checkpoint(write_checkpoint(tmp_path / "deeper" / "two")).fingerprint() == one
    assert len(one) == 64


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "vocab.json",
        "merges.txt",
        "model.safetensors",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    ],
)
def test_any_changed_file_changes_the_fingerprint(tmp_path: Path, name: str) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    before = checkpoint.fingerprint()
    checkpoint.close()
    data = bytearray((checkpoint.path / name).read_bytes() or b"x")
    data[-1] ^= 1
    (checkpoint.path / name).write_bytes(data)
    assert checkpoint.fingerprint() != before


def test_unused_files_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    before = checkpoint.fingerprint()
    (checkpoint.path / "README.md").write_text("hello", "utf-8")
    assert checkpoint.fingerprint() == before


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose content is hashed; every file counts as big, and as settled."""
    hashed: list[str] = []
    original = _fingerprint._hash

    def count(real: str) -> str:
        hashed.append(Path(real).name)
        return original(real)

    monkeypatch.setattr(_fingerprint, "_hash", count)
    monkeypatch.setattr(_fingerprint, "_BIG", 0)
    monkeypatch.setattr(_fingerprint, "_settled", lambda state, now: True)
    return hashed


def test_hashes_of_unchanged_files_are_taken_from_the_cache(tmp_path: Path, counted: list[str]) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    cache = tmp_path / "cache" / "deep"
    first = checkpoint.fingerprint(cache)
    assert len(counted) == len(checkpoint.files())
    counted.clear()
    assert checkpoint.fingerprint(cache) == first == checkpoint.fingerprint()
    assert len(counted) == len(checkpoint.files())  # of the call without a cache
    assert [path.name for path in cache.iterdir()] == [_fingerprint.CACHE_FILE]


def test_a_changed_file_is_hashed_again_though_size_and_mtime_agree(
    tmp_path: Path, counted: list[str]
) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    checkpoint.close()
    cache = tmp_path / "cache"
    before = checkpoint.fingerprint(cache)
    counted.clear()
    file = checkpoint.path / "model.safetensors"
    status = file.stat()
    header, body = header_of(TENSORS)
    while file.stat().st_ctime_ns == status.st_ctime_ns:  # until the file system's clock has moved on
        file.write_bytes(pack(header, bytes(len(body))))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert checkpoint.fingerprint(cache) != before
    assert counted == ["model.safetensors"]


@pytest.mark.parametrize("age", [0, 40_000_000, -1_000_000_000])
def test_a_file_changed_just_now_is_not_remembered(age: int) -> None:
    now = 1_700_000_000_123_456_789
    assert not _fingerprint._settled([10, now - age, now - age], now)
    assert _fingerprint._settled([10, now - 60_000_000, now - 70_000_000], now)
    whole = now - now % 1_000_000_000
    assert not _fingerprint._settled([10, whole, whole], whole + 1_900_000_000)
    assert _fingerprint._settled([10, whole, whole], whole + 2_100_000_000)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"x": 1}', b'{"x": [1, 2, 3, 4]}', b'{"x": [1, 2, 3]}']
)
def test_an_unreadable_hash_cache_is_passed_over(tmp_path: Path, counted: list[str], content: bytes) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    (tmp_path / _fingerprint.CACHE_FILE).write_bytes(content)
    assert checkpoint.fingerprint(tmp_path) == checkpoint.fingerprint()
    counted.clear()
    checkpoint.fingerprint(tmp_path)
    assert counted == []  # it was repaired


def test_an_unwritable_hash_cache_is_passed_over(tmp_path: Path, counted: list[str]) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"not a folder")
    assert checkpoint.fingerprint(in_the_way) == checkpoint.fingerprint()


def test_a_failed_write_leaves_no_part_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[str]
) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    cache = tmp_path / "cache"

    def full(*args: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert checkpoint.fingerprint(cache) == checkpoint.fingerprint()
    assert list(cache.iterdir()) == []


def test_a_vanished_file_is_a_named_error(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "model"))
    (checkpoint.path / "merges.txt").unlink()
    with pytest.raises(CheckpointError, match=r"merges\.txt: cannot be read"):
        checkpoint.fingerprint()

"""How many samples an audio file says it holds: read from its header, without decoding anything."""

from __future__ import annotations

import struct
from collections.abc import Iterator

RATE = 24_000


def stated_samples(name: str, data: bytes) -> int | None:
    """The samples at 24 kHz of a file of a format, None where it does not know its length."""
    return {"wav": _wav, "flac": _flac, "mp3": _mp3, "opus": _opus}[name](data)


def _wav(data: bytes) -> int | None:
    riff, size, wave = struct.unpack("<4sI4s", data[:12])
    assert (riff, wave, data[36:40]) == (b"RIFF", b"WAVE", b"data")
    (length,) = struct.unpack("<I", data[40:44])
    if length == size == 0xFFFFFFFF:
        return None
    assert size == len(data) - 8
    assert length == len(data) - 44
    return int(length // 2)


def _flac(data: bytes) -> int | None:
    """STREAMINFO is the first block: 20 bits of rate, 3 of channels − 1, 5 of depth − 1, 36 of samples."""
    assert data[:4] == b"fLaC"
    assert data[4] & 0x7F == 0
    assert int.from_bytes(data[5:8], "big") == 34
    bits = int.from_bytes(data[18:26], "big")
    assert (bits >> 44, bits >> 41 & 7, bits >> 36 & 31) == (RATE, 0, 15)
    return bits & (1 << 36) - 1 or None


def _mp3(data: bytes) -> int | None:
    """The tag in the first frame: frames of 576 samples, bytes, and how much of both ends is padding."""
    start = 0
    if data[:3] == b"ID3":
        start = 10 + (data[6] << 21 | data[7] << 14 | data[8] << 7 | data[9])
    assert data[start : start + 2] == b"\xff\xf3", "not MPEG-2, layer III, without a checksum"
    tag = start + 4 + 9  # behind the side information of one channel
    if data[tag : tag + 4] not in (b"Xing", b"Info"):
        return None
    flags, frames, size = struct.unpack(">III", data[tag + 4 : tag + 16])
    assert flags & 3 == 3
    assert size == len(data) - start
    ends = int.from_bytes(data[tag + 141 : tag + 144], "big")  # 12 bits each
    return int(frames * 576 - (ends >> 12) - (ends & 0xFFF))


def _opus(data: bytes) -> int | None:
    """The last page's position counts samples at 48 kHz, those that are skipped at first included."""
    pages = list(_ogg_pages(data))
    head = pages[0][2]
    assert head[:8] == b"OpusHead"
    (skip,) = struct.unpack("<H", head[10:12])
    assert pages[-1][0] & 4, "the last page does not say so"
    return int((pages[-1][1] - skip) // 2)


def _ogg_pages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Flags, position and contents of each page."""
    at = 0
    while at < len(data):
        magic, _, flags, position = struct.unpack("<4sBBq", data[at : at + 14])
        assert magic == b"OggS"
        segments = data[at + 26]
        begin = at + 27 + segments
        at = begin + sum(data[at + 27 : begin])
        yield flags, position, data[begin:at]

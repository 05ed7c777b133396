"""WAV: exact headers, streams, clamping, and files that appear whole or not at all (F02, F03, F05, S06)."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import subprocess
import sys
import threading
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia.audio.files import atomic_file
from kazeia.audio.wav import UNKNOWN_SIZE, WavWriter, to_int16, wav_bytes, wav_header, write_wav
from kazeia.errors import AudioError, GenerationError, OptionError

RATE = 24_000
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)


def sizes(data: bytes) -> tuple[int, int]:
    """The RIFF and the data size of a header."""
    return struct.unpack("<I", data[4:8])[0], struct.unpack("<I", data[40:44])[0]


class Pipe(io.RawIOBase):
    """An unseekable sink that fails the test if anyone tries to seek, and takes little at a time."""

    def __init__(self, at_once: int = 10**9) -> None:
        self.data = bytearray()
        self.flushes = 0
        self.at_once = at_once

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        piece = bytes(data)[: self.at_once]
        self.data += piece
        return len(piece)

    def flush(self) -> None:
        self.flushes += 1

    def seek(self, *_: Any) -> int:
        raise AssertionError("seek on a pipe")

    tell = seek


# ---- samples ----


def test_half_scale_tone_reads_back_at_half_scale(tmp_path: Path) -> None:
    write_wav(tmp_path / "tone.wav", TONE, RATE)
    with wave.open(str(tmp_path / "tone.wav")) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        assert file.getnframes() == RATE
        back = np.frombuffer(file.readframes(RATE), "<i2") / 32768
    assert np.abs(back).max() == pytest.approx(0.5, abs=1e-4)
    np.testing.assert_allclose(back, TONE, atol=5e-5)
    crossings = np.count_nonzero(np.diff(np.signbit(back)))
    assert crossings == pytest.approx(880, abs=2)


def test_soundfile_reads_the_same_samples(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    write_wav(tmp_path / "tone.wav", TONE, RATE)
    back, rate = soundfile.read(tmp_path / "tone.wav", dtype="int16")
    assert rate == RATE
    assert np.array_equal(back, to_int16(TONE))
    info = soundfile.info(tmp_path / "tone.wav")
    assert (info.format, info.subtype, info.channels) == ("WAV", "PCM_16", 1)


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (0.0, 0), (-0.0, 0), (1.0, 32767), (-1.0, -32767),
        (1.0000001, 32767), (1.5, 32767), (-7.0, -32767), (1e30, 32767), (-3e38, -32767),
        (0.5, 16384), (-0.5, -16384),  # 16383.5: half to even
        (1.5 / 32767, 2), (0.5 / 32767, 0), (2.5 / 32767, 2), (-1.5 / 32767, -2),
        (0.49 / 32767, 0), (0.51 / 32767, 1), (5e-324, 0),
    ],
)  # fmt: skip
def test_samples_are_clamped_never_wrapped_and_rounded_half_to_even(x: float, value: int) -> None:
    assert to_int16(np.array([x], np.float64))[0] == value


def test_float32_halves_are_exact() -> None:
    every = np.arange(-32768, 32768, dtype=np.float32) / np.float32(32768)
    want = [round(float(x) * 32767) for x in every]  # Python rounds half to even, exactly
    assert to_int16(every).tolist() == want


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_unusable_samples_are_a_named_error(bad: float, tmp_path: Path) -> None:
    pcm = np.zeros(100, np.float32)
    pcm[[42, 77]] = bad
    with pytest.raises(GenerationError, match="2 of 100 samples are NaN or infinite, the first at sample 42"):
        write_wav(tmp_path / "a.wav", pcm, RATE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pcm", [np.zeros((2, 3), np.float32), np.zeros(3, np.int16), np.float32(0), [1, 2]])
def test_what_is_no_row_of_floats_is_refused(pcm: Any) -> None:
    with pytest.raises(OptionError, match="pcm has shape"):
        to_int16(pcm)


# ---- headers ----


def test_header_is_canonical() -> None:
    assert wav_header(200, 24_000) == (
        b"RIFF" + (236).to_bytes(4, "little") + b"WAVE"
        b"fmt " + bytes([16, 0, 0, 0, 1, 0, 1, 0, 0xC0, 0x5D, 0, 0, 0x80, 0xBB, 0, 0, 2, 0, 16, 0])
        + b"data" + (200).to_bytes(4, "little")
    )  # fmt: skip


@pytest.mark.parametrize("rate", [0, -1, True, 24000.0, "24000", 2**31])
def test_bad_rates_are_refused(rate: Any) -> None:
    with pytest.raises(OptionError, match="sample_rate is"):
        wav_header(0, rate)


def test_more_than_four_gigabytes_is_refused() -> None:
    assert len(wav_header(UNKNOWN_SIZE - 37, RATE)) == 44
    with pytest.raises(AudioError, match="4 GiB"):
        wav_header(UNKNOWN_SIZE - 36, RATE)


def test_no_samples_make_a_header_alone() -> None:
    data = wav_bytes(np.zeros(0, np.float32), RATE)
    assert len(data) == 44
    assert sizes(data) == (36, 0)


# ---- the streaming writer ----


@pytest.mark.parametrize("pieces", [[], [0], [RATE], [1, 2, 0, 1920, 7]])
def test_a_seekable_stream_equals_the_whole_file(pieces: list[int], tmp_path: Path) -> None:
    path, at = tmp_path / "stream.wav", 0
    with open(path, "wb") as file, WavWriter(file, RATE) as writer:
        for n in pieces:
            writer.write(TONE[at : at + n])
            at += n
    assert path.read_bytes() == wav_bytes(TONE[:at], RATE)
    assert writer.samples_written == at


def test_a_stream_into_the_middle_of_a_file_patches_its_own_header() -> None:
    memory = io.BytesIO(b"before")
    memory.seek(0, os.SEEK_END)
    with WavWriter(memory, RATE) as writer:
        writer.write(TONE[:10])
    assert memory.getvalue() == b"before" + wav_bytes(TONE[:10], RATE)


@pytest.mark.parametrize("at_once", [3, 10**9])
def test_a_pipe_gets_unknown_sizes_and_is_never_sought(at_once: int) -> None:
    pipe = Pipe(at_once)
    with WavWriter(pipe, RATE) as writer:  # type: ignore[arg-type]
        for start in range(0, 4000, 1000):
            flushes = pipe.flushes
            writer.write(TONE[start : start + 1000])
            assert pipe.flushes > flushes  # each piece can be heard at once
    writer.close()
    assert sizes(bytes(pipe.data)) == (UNKNOWN_SIZE, UNKNOWN_SIZE)
    assert bytes(pipe.data[44:]) == wav_bytes(TONE[:4000], RATE)[44:]


def test_a_pipe_header_reads_back(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    pipe = Pipe()
    with WavWriter(pipe, RATE) as writer:  # type: ignore[arg-type]
        writer.write(TONE)
    (tmp_path / "p.wav").write_bytes(pipe.data)
    back, rate = soundfile.read(tmp_path / "p.wav", dtype="int16")
    assert rate == RATE
    assert np.array_equal(back, to_int16(TONE))


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell's >>")
def test_appending_through_a_shell_counts_as_a_pipe(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; from kazeia.audio.wav import WavWriter\n"
        "w = WavWriter(sys.stdout.buffer, 24000); w.write(numpy.zeros(5)); w.close()"
    )
    path = tmp_path / "log"
    path.write_bytes(b"xy")
    with open(path, "ab") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    data = path.read_bytes()
    assert data[:6] == b"xyRIFF"
    assert sizes(data[2:]) == (UNKNOWN_SIZE, UNKNOWN_SIZE)
    assert len(data) == 2 + 44 + 10


def test_a_closed_writer_refuses_more() -> None:
    writer = WavWriter(io.BytesIO(), RATE)
    writer.close()
    with pytest.raises(AudioError, match="closed"):
        writer.write(TONE)


# ---- whole or not at all ----


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt, SystemExit, RuntimeError, OSError(errno.ENOSPC, "No space")]
)
def test_an_interrupted_write_leaves_what_was_there(
    before: bytes | None, failure: BaseException | type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "speech.wav"
    if before is not None:
        path.write_bytes(before)

    def interrupted() -> None:
        with atomic_file(path) as file, WavWriter(file, RATE) as writer:
            writer.write(TONE)
            assert not path.exists() or path.read_bytes() == before
            raise failure

    with pytest.raises(AudioError if isinstance(failure, OSError) else failure):  # type: ignore[arg-type]
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["speech.wav"])
    assert before is None or path.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_named_error_with_the_place() -> None:
    with pytest.raises(AudioError, match=r"cannot write /dev/full: No space left on device"):
        write_wav("/dev/full", TONE, RATE)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: d, "it is a folder"),
        (lambda d: d / "none" / "a.wav", "there is no such folder"),
        (lambda d: d / "file" / "a.wav", "it is not a folder"),
        (lambda d: d / ("x" * 300 + ".wav"), "File name too long"),
    ],
)
def test_places_that_cannot_be_written_are_named(make: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AudioError, match=rf"^cannot write {tmp_path}.*{said}"):
        write_wav(make(tmp_path), TONE, RATE)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(AudioError, match="Permission denied"):
            write_wav(tmp_path / "a.wav", TONE, RATE)
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_permissions_follow_the_umask_or_the_old_file_and_links_stay(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_wav(tmp_path / "new.wav", TONE, RATE)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.wav").stat().st_mode) == 0o640
    (tmp_path / "new.wav").chmod(0o604)
    (tmp_path / "link.wav").symlink_to("new.wav")
    write_wav(tmp_path / "link.wav", TONE[:5], RATE)
    assert (tmp_path / "link.wav").is_symlink()
    assert (tmp_path / "new.wav").read_bytes() == wav_bytes(TONE[:5], RATE)
    assert stat.S_IMODE((tmp_path / "new.wav").stat().st_mode) == 0o604


@pytest.mark.parametrize("name", ["é 語.wav", "a.b.c", "x" * 200 + ".wav"])
def test_names_of_any_kind_work(name: str, tmp_path: Path) -> None:
    write_wav(tmp_path / name, TONE[:5], RATE)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_written_to_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    write_wav(path, TONE[:5], RATE)
    reader.join(10)
    assert got == [wav_bytes(TONE[:5], RATE)]
    assert stat.S_ISFIFO(path.stat().st_mode)

"""Audio files by their names: the right format, the whole file or none, marks where there is a place."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from kazeia.audio.encode import FORMATS, Chapter, encode_whole
from kazeia.audio.output import (
    CHAPTERED,
    FILE_FORMATS,
    SUFFIXES,
    audio_file,
    audio_writer,
    check_format,
    format_of,
)
from kazeia.audio.wav import to_int16
from kazeia.errors import AudioError, GenerationError, MissingDependencyError, OptionError

RATE = 24_000
TONE = (0.3 * np.sin(np.arange(3 * RATE) / 20)).astype(np.float32)
CHAPTERS = (Chapter("Première", 0, RATE), Chapter("第二章", RATE, 3 * RATE))


def write(path: Path, name: str, **more: Any) -> bytes:
    with audio_file(path, name, RATE, **more) as writer:
        for start in range(0, len(TONE), 1920):
            writer.write(TONE[start : start + 1920])
    return path.read_bytes()


@pytest.mark.parametrize(("suffix", "name"), SUFFIXES.items())
def test_the_end_of_the_name_decides(suffix: str, name: str) -> None:
    assert format_of(f"a.b/c{suffix}") == name
    assert format_of(f"C{suffix.upper()}") == name
    assert format_of(f"c{suffix}", name) == name


def test_a_name_without_an_end_is_wav_or_what_is_asked_for() -> None:
    assert format_of("speech") == "wav"
    assert format_of("speech", "flac") == "flac"
    assert format_of("vol.1", "opus") == "opus"


@pytest.mark.parametrize("path", ["a.xyz", "a.wav.bak", "a.mp4", "a.txt"])
def test_an_unknown_end_is_an_error_that_lists_the_known_ones(path: str) -> None:
    with pytest.raises(OptionError, match=f"no audio format is known by the end .*{', '.join(SUFFIXES)}"):
        format_of(path)


@pytest.mark.parametrize("name", ["", "WAV", "ogg", "../wav"])
def test_an_unknown_format_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(OptionError, match=f"expected one of: {', '.join(FILE_FORMATS)}"):
        check_format(name)


def test_a_name_and_a_format_that_contradict_are_refused() -> None:
    with pytest.raises(OptionError, match=r"ends in \.MP3 is one of mp3, but .* is flac"):
        format_of("a.MP3", "flac")


def test_without_pyav_only_wav_and_pcm_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)  # importing it fails
    for name in FILE_FORMATS:
        if name in ("wav", "pcm"):
            assert check_format(name).name == name
        else:
            with pytest.raises(MissingDependencyError, match=r'pip install "kazeia\[formats\]"'):
                check_format(name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_written_in_pieces_is_the_whole_one(name: str, tmp_path: Path) -> None:
    assert write(tmp_path / "a", name) == encode_whole(name, TONE, RATE)


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_lossless_files_hold_the_librarys_samples(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a", name)
    samples, rate = soundfile.read(tmp_path / "a", dtype="int16")
    assert rate == RATE
    assert np.array_equal(samples, to_int16(TONE))


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_every_format_plays_as_long_as_the_sound(name: str, tmp_path: Path) -> None:
    import av

    data = write(tmp_path / "a", name)
    if name == "pcm":
        assert len(data) == 2 * len(TONE)
        return
    with av.open(io.BytesIO(data)) as container:
        assert container.duration is not None
        # ADTS has no place for the encoder's delay, nor for a length
        assert container.duration / 1e6 == pytest.approx(3, abs=0.1 if name == "aac" else 0.01)
        samples = sum(frame.samples for frame in container.decode(audio=0))
        assert samples / container.streams.audio[0].rate == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("name", CHAPTERED)
def test_chapters_and_tags_are_read_back(name: str, tmp_path: Path) -> None:
    import av

    data = write(tmp_path / "a", name, chapters=CHAPTERS, tags={"title": "Un livre", "artist": "Zoë"})
    with av.open(io.BytesIO(data)) as container:
        found = [(c["metadata"]["title"], float(c["start"] * c["time_base"])) for c in container.chapters()]
        tags = container.metadata | container.streams.audio[0].metadata
    assert found == [("Première", 0.0), ("第二章", 1.0)]
    assert (tags["title"], tags["artist"]) == ("Un livre", "Zoë")


@pytest.mark.parametrize("name", sorted(set(FILE_FORMATS) - set(CHAPTERED)))
def test_formats_without_chapters_are_as_without(name: str, tmp_path: Path) -> None:
    assert write(tmp_path / "a", name, chapters=CHAPTERS) == write(tmp_path / "b", name)


def test_more_than_a_thousand_chapters_fit_into_m4a(tmp_path: Path) -> None:
    import av

    marks = [Chapter(f"{i}", i * 60, (i + 1) * 60) for i in range(1100)]
    data = write(tmp_path / "a", "m4a", chapters=marks)
    with av.open(io.BytesIO(data)) as container:
        assert len(container.chapters()) == 1100


class Full(io.BytesIO):
    """A disk with room for 3000 bytes."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 3000:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_a_full_disk_comes_through(name: str) -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, 8 * RATE).astype(np.float32)
    with pytest.raises(OSError, match="No space left"), audio_writer(Full(), name, RATE) as writer:
        writer.write(noise)


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_an_error_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(GenerationError), audio_file(path, name, RATE) as writer:
        writer.write(np.concatenate([TONE, [np.nan]]))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_a_pipe_is_never_sought(name: str) -> None:
    ours, theirs = os.pipe()
    got: list[bytes] = []

    def read() -> None:
        with open(ours, "rb") as file:
            got.append(file.read())

    reader = threading.Thread(target=read)
    reader.start()
    with open(theirs, "wb") as file:
        if name == "m4a":
            with pytest.raises(AudioError, match="cannot be written to a pipe"):
                audio_writer(file, name, RATE)
        else:
            with audio_writer(file, name, RATE) as writer:
                writer.write(TONE)
    reader.join()
    if name not in ("m4a", "pcm"):
        import av

        with av.open(io.BytesIO(got[0])) as container:
            assert sum(f.samples for f in container.decode(audio=0)) >= len(TONE)


def test_what_stands_before_in_the_file_is_kept(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b") as file:
        file.write(b"before")
        with audio_writer(file, "mp3", RATE) as writer:
            writer.write(TONE)
    assert (tmp_path / "a").read_bytes().startswith(b"before\xff")

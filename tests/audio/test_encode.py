"""Encoders: what comes out is what went in, whatever the pieces, and nothing but the samples decides."""

from __future__ import annotations

import io
import sys
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from kazeia.audio.encode import FORMATS, audio_format, encode_stream, encode_whole, stream_encoder
from kazeia.audio.wav import pcm_bytes, to_int16, wav_bytes
from kazeia.errors import GenerationError, MissingDependencyError, OptionError
from stated_lengths import stated_samples

RATE = 24_000
NAMES = list(FORMATS)
LOSSY = ("mp3", "opus", "aac")


def speech_like(seconds: float) -> np.ndarray:
    """A voice-like sound whose pitch and loudness move, so that a shift or a cut shows."""
    t = np.arange(round(seconds * RATE)) / RATE
    pitch = 2 * np.pi * (140 * t + 12 * np.sin(2 * np.pi * 0.9 * t))
    tone = sum(np.sin(k * pitch) / k for k in range(1, 12))
    return (0.12 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * 2.3 * t))).astype(np.float32)


def decoded(data: bytes) -> np.ndarray:
    """The samples (n,) at 24 kHz that FFmpeg reads back, floats of -1 … 1."""
    import av

    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
    parts = []
    with av.open(io.BytesIO(data)) as container:
        for frame in container.decode(audio=0):
            parts += [f.to_ndarray()[0] for f in resampler.resample(frame)]
    parts += [f.to_ndarray()[0] for f in resampler.resample(None)]
    return np.concatenate(parts)


def aligned_snr(pcm: np.ndarray, other: np.ndarray) -> float:
    """dB of `pcm` over its difference to `other`, at the delay that fits best (codecs add some)."""
    size = 1 << (len(pcm) + len(other)).bit_length()
    correlation = np.fft.irfft(np.fft.rfft(other, size) * np.conj(np.fft.rfft(pcm, size)), size)
    delay = int(np.argmax(correlation))
    assert delay < 4000, "the sound begins late"
    part = other[delay : delay + len(pcm)]
    assert len(part) > len(pcm) - 1500, "the end is missing"
    difference = pcm[: len(part)] - part
    return float(10 * np.log10((pcm**2).sum() / (difference**2).sum()))


def streamed(name: str, pcm: np.ndarray, sizes: list[int]) -> bytes:
    edges = np.cumsum([0, *sizes])
    edges = [*edges[edges < len(pcm)], len(pcm)]
    pieces = (pcm[a:b] for a, b in pairwise(edges))
    return b"".join(encode_stream(name, pieces, RATE))


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_do_not_depend_on_the_pieces(name: str) -> None:
    pcm = speech_like(1.3)
    whole = streamed(name, pcm, [len(pcm)])
    assert streamed(name, pcm, [1920] * 20) == whole
    assert streamed(name, pcm, [1, 0, 700, 5, 11_000]) == whole
    assert encode_whole(name, pcm, RATE) == encode_whole(name, pcm, RATE)


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("whole", [False, True])
def test_lossy_formats_sound_the_same(name: str, whole: bool) -> None:
    pcm = speech_like(1.5)
    data = encode_whole(name, pcm, RATE) if whole else streamed(name, pcm, [1920] * 20)
    assert aligned_snr(pcm, decoded(data)) > 15
    assert len(data) < len(pcm)  # half of 16-bit PCM at most


def test_flac_keeps_every_sample() -> None:
    import av

    pcm = speech_like(1.1)
    samples, rate = soundfile.read(io.BytesIO(encode_whole("flac", pcm, RATE)), dtype="int16")
    assert rate == RATE
    assert np.array_equal(samples, to_int16(pcm))
    with av.open(io.BytesIO(streamed("flac", pcm, [1920] * 20))) as container:
        parts = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    assert np.array_equal(np.concatenate(parts), to_int16(pcm))


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus"])  # PCM and ADTS have no place for it
@pytest.mark.parametrize("samples", [480, 575, 576, 1920, 24_000, 40_777])
def test_a_whole_file_says_exactly_how_long_it_is(name: str, samples: int) -> None:
    data = encode_whole(name, speech_like(2)[:samples], RATE)
    assert stated_samples(name, data) == samples
    if name in ("wav", "flac"):
        assert soundfile.info(io.BytesIO(data)).frames == samples


@pytest.mark.parametrize("name", ["wav", "flac", "mp3"])  # Ogg tells it at the end
def test_a_streamed_file_does_not_pretend_to_know_its_length(name: str) -> None:
    assert stated_samples(name, streamed(name, speech_like(0.5), [1920] * 7)) is None


@pytest.mark.parametrize("samples", [480, 1920, 40_777])
def test_a_streamed_opus_ends_with_its_length(samples: int) -> None:
    assert stated_samples("opus", streamed("opus", speech_like(2)[:samples], [1920] * 25)) == samples


def test_pcm_and_wav_are_the_library_s_own() -> None:
    pcm = speech_like(0.3)
    assert streamed("pcm", pcm, [1000]) == encode_whole("pcm", pcm, RATE) == pcm_bytes(pcm)
    assert encode_whole("wav", pcm, RATE) == wav_bytes(pcm, RATE)
    wav = streamed("wav", pcm, [1000])
    assert wav[44:] == pcm_bytes(pcm)
    assert wav[40:44] == b"\xff\xff\xff\xff"  # a length that is not known yet


@pytest.mark.parametrize("name", NAMES)
def test_silence_and_nothing_can_be_encoded(name: str) -> None:
    nothing = np.zeros(0, np.float32)
    assert isinstance(b"".join(encode_stream(name, iter([nothing]), RATE)), bytes)
    assert isinstance(encode_whole(name, nothing, RATE), bytes)
    assert encode_whole(name, np.zeros(500, np.float32), RATE)


@pytest.mark.parametrize("name", NAMES)
def test_sound_begins_with_the_first_frames(name: str) -> None:
    # Two frames of 80 ms are enough for every format to send something that plays.
    encoder = stream_encoder(name, RATE)
    first = encoder.encode(speech_like(0.08)) + encoder.encode(speech_like(0.08))
    encoder.close()
    assert len(first) > 200


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_can_be_dropped_in_the_middle_and_closed_twice(name: str) -> None:
    encoder = stream_encoder(name, RATE)
    encoder.encode(speech_like(0.3))
    encoder.close()
    encoder.close()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(GenerationError, match="NaN"):
        stream_encoder(name, RATE).encode(np.full(1920, np.nan, np.float32))


@pytest.mark.parametrize("name", ["", "MP3", "ogg", "../wav"])
def test_an_unknown_format_is_an_option_error(name: str) -> None:
    with pytest.raises(OptionError, match="expected one of: mp3, opus, aac, flac, wav, pcm"):
        audio_format(name)


def test_without_pyav_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)  # importing it fails
    with pytest.raises(MissingDependencyError, match=r"kazeia\[formats\]"):
        stream_encoder("mp3", RATE)
    assert stream_encoder("wav", RATE).finish()[:4] == b"RIFF"

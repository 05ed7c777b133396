"""The codec decoder: causal, exact for every cut, strict about its codes (spec §5.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from kazeia import Engine, GenerationError, InputError
from kazeia.runtime.codec_decoder import CodecDecoder, DecoderState

SHAPES = pytest.mark.parametrize("shape", ["tiny", "tiny-codec"])
SAMPLES = 1920


@pytest.fixture
def decoder(load_engine: Callable[..., Engine]) -> Callable[[str], CodecDecoder]:
    def decoder(shape: str = "tiny") -> CodecDecoder:
        model = load_engine(shape)._model
        assert model is not None
        return model.decoder

    return decoder


def some_codes(frames: int, seed: int = 0, size: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, (frames, 16))


@SHAPES
def test_any_cut_into_calls_gives_the_whole(decoder: Callable[[str], CodecDecoder], shape: str) -> None:
    d = decoder(shape)
    codes = some_codes(41)
    whole = d.decode(codes)
    assert whole.shape == (41 * SAMPLES,)
    assert whole.dtype == np.float32
    assert 0.01 < np.abs(whole).max() <= 1
    draw = np.random.default_rng(1)
    for _ in range(3):
        state, start, pieces = d.new_state(), 0, []
        while start < len(codes):
            size = int(draw.choice([0, 1, 1, 2, 3, 7, 8, 9, 17]))
            pieces.append(d.decode(codes[start : start + size], state))
            assert len(pieces[-1]) == len(codes[start : start + size]) * SAMPLES
            start += size
        assert state.frames == len(codes)
        assert np.array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize(
    ("shape", "frame"), [("tiny", 9), ("tiny-codec", 0), ("tiny-codec", 1), ("tiny-codec", 8), ("tiny", 14)]
)
def test_a_frame_never_changes_what_was_heard_before_it(
    decoder: Callable[[str], CodecDecoder], shape: str, frame: int
) -> None:
    d = decoder(shape)
    codes = some_codes(16)
    whole = d.decode(codes)
    for book in (0, 1, 15):
        changed = codes.copy()
        changed[frame, book] = (changed[frame, book] + 1) % 128
        other = d.decode(changed)
        assert np.array_equal(other[: frame * SAMPLES], whole[: frame * SAMPLES])
        assert not np.array_equal(
            other[frame * SAMPLES : (frame + 1) * SAMPLES], whole[frame * SAMPLES : (frame + 1) * SAMPLES]
        )


def test_what_is_longer_than_the_window_forgets_and_goes_on(decoder: Callable[[str], CodecDecoder]) -> None:
    # tiny-codec: a window of 5 in each of 3 layers, 2 frames before them and 10 after.
    d = decoder("tiny-codec")
    reach = 3 * 4 + 2 + 10
    codes = some_codes(60)
    whole = d.decode(codes)
    for frame in (0, 20):
        changed = codes.copy()
        changed[frame] = (changed[frame] + 1) % 256
        other = d.decode(changed)
        differs = [
            not np.array_equal(other[t * SAMPLES : (t + 1) * SAMPLES], whole[t * SAMPLES : (t + 1) * SAMPLES])
            for t in range(60)
        ]
        assert differs[frame]
        assert not any(differs[:frame])
        assert not any(differs[frame + reach + 1 :])


def test_long_speech_crosses_every_table_without_a_seam(decoder: Callable[[str], CodecDecoder]) -> None:
    d = decoder("tiny")
    codes = some_codes(20)

    def starting_at(frame: int) -> DecoderState:
        state = d.new_state()
        state.frames = frame
        return state

    elsewhere = d.decode(codes, starting_at(100))
    for edge in (512, 1024):  # the angles are made in blocks of 512
        state = starting_at(edge - 9)
        whole = d.decode(codes, state.copy())
        singly = np.concatenate([d.decode(codes[t : t + 1], state) for t in range(20)])
        assert np.array_equal(singly, whole)
        # Attention knows only distances: the place itself cannot be heard.
        assert np.abs(elsewhere - whole).max() < 1e-3
    assert np.abs(elsewhere - d.decode(codes)).max() > 1e-2


def test_a_copied_state_goes_on_by_itself(decoder: Callable[[str], CodecDecoder]) -> None:
    d = decoder("tiny")
    codes, other = some_codes(20), some_codes(20, seed=9)
    whole = d.decode(codes)
    state = d.new_state()
    head = d.decode(codes[:11], state)
    twin = state.copy()
    d.decode(other, twin)
    second = state.copy()
    assert np.array_equal(np.concatenate([head, d.decode(codes[11:], state)]), whole)
    assert np.array_equal(d.decode(codes[11:], second), whole[11 * SAMPLES :])
    assert (state.frames, twin.frames, second.frames) == (20, 31, 20)
    fresh = d.new_state()
    before = [array.copy() for array in fresh.current.values()]
    d.decode(codes[:3], fresh.copy())
    assert all(np.array_equal(a, b) for a, b in zip(before, fresh.current.values(), strict=True))
    assert not any(array.any() for array in before)  # the state before the first frame is zero


def test_no_frames_are_no_samples_and_change_nothing(decoder: Callable[[str], CodecDecoder]) -> None:
    d = decoder("tiny")
    empty = np.empty((0, 16), np.int64)
    assert d.decode(empty).shape == (0,)
    state = d.new_state()
    head = d.decode(some_codes(3), state)
    digest = hashlib.sha256(b"".join(a.tobytes() for a in state.current.values())).digest()
    assert d.decode(empty, state).shape == (0,)
    assert state.frames == 3
    assert hashlib.sha256(b"".join(a.tobytes() for a in state.current.values())).digest() == digest
    assert np.array_equal(head, d.decode(some_codes(3)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, ">i4"])
def test_codes_of_any_integer_type_and_layout_are_taken(
    decoder: Callable[[str], CodecDecoder], dtype: str
) -> None:
    d = decoder("tiny")
    codes = some_codes(4)
    whole = d.decode(codes)
    assert np.array_equal(d.decode(codes.astype(dtype)), whole)
    assert np.array_equal(d.decode(np.asfortranarray(codes.astype(dtype))), whole)
    assert np.array_equal(d.decode(np.repeat(codes, 2, axis=0)[::2]), whole)


@pytest.mark.parametrize("bad", [-1, 128, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("book", [0, 15])
def test_codes_that_no_codebook_has_are_refused(
    decoder: Callable[[str], CodecDecoder], bad: int, book: int
) -> None:
    d = decoder("tiny")
    codes = some_codes(12)
    codes[9, book] = bad
    state = d.new_state()
    with pytest.raises(InputError, match=f"{bad}.*expected 0 to 127"):
        d.decode(codes, state)
    assert state.frames == 0  # refused before any work


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((16,), np.int64),
        np.zeros((3, 15), np.int64),
        np.zeros((16, 3), np.int64),
        np.zeros((1, 3, 16), np.int64),
        np.zeros((), np.int64),
        np.zeros((0,), np.int64),
    ],
    ids=lambda codes: str(codes.shape),
)
def test_codes_of_a_wrong_shape_are_refused(
    decoder: Callable[[str], CodecDecoder], codes: np.ndarray
) -> None:
    with pytest.raises(InputError, match=r"shape.*\(frames, 16\)"):
        decoder("tiny").decode(codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, "U1", object])
def test_codes_that_are_not_integers_are_refused(decoder: Callable[[str], CodecDecoder], dtype: str) -> None:
    with pytest.raises(InputError, match="integers"):
        decoder("tiny").decode(np.zeros((2, 16)).astype(dtype))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_state_gone_wrong_is_found_in_the_samples(
    decoder: Callable[[str], CodecDecoder], bad: float
) -> None:
    d = decoder("tiny")
    state = d.new_state()
    d.decode(some_codes(2), state)
    # The last layer's own past: infinity there reaches the samples and nothing else.
    name = "decoder.6"
    assert name in state.current
    state.current[name][...] = bad
    with pytest.raises(GenerationError, match=r"\d+ samples of 3840 that are NaN or infinite"):
        d.decode(some_codes(2), state)

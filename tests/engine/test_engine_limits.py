"""When speech ends: the text's limit, the caller's, the model's own end (S04, S05)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edits
import kazeia
from kazeia import ConfigError, Engine, FrameBudget, OptionError, Request, Speech, TextError
from kazeia.testing import SHAPES, make_checkpoint

TEXT = "Hello there."


def streamed(engine: Engine, text: str, **options: object) -> Speech:
    *_, last = engine.stream(text, **options)  # type: ignore[arg-type]
    assert last.speech is not None
    return last.speech


@pytest.fixture(scope="module")
def frugal(checkpoint: Callable[[str], Path]) -> Engine:
    """An engine whose texts have a small limit: 2 frames, and half a frame per letter."""
    return kazeia.load(checkpoint("tiny"), quant="f32", threads=1, budget=FrameBudget(2, 0.5))


def test_a_model_that_never_ends_stops_at_the_texts_limit(tiny: Engine) -> None:
    limit = FrameBudget().limit("Hi.")
    for speech in (tiny.synthesize("Hi.", seed=1), streamed(tiny, "Hi.", seed=1)):
        assert len(speech.codes) == limit
        assert len(speech.pcm) == limit * 1920
        assert speech.finish_reason == "limit"


@pytest.mark.parametrize("text", ["a", "Twenty letters, more.", "数字と漢字", "1234567890", "x" * 100])
def test_the_limit_follows_the_text_and_the_budget_given_to_load(frugal: Engine, text: str) -> None:
    speech = frugal.synthesize(text, seed=1)
    assert len(speech.codes) == FrameBudget(2, 0.5).limit(text)
    assert speech.finish_reason == "limit"


def test_each_piece_of_a_long_text_has_its_own_limit(frugal: Engine) -> None:
    text = "One two three. Four five six. Seven eight."
    speech = frugal.synthesize(text, seed=1, segment_chars=15)
    pieces = ("One two three.", "Four five six.", "Seven eight.")
    assert len(speech.codes) == sum(FrameBudget(2, 0.5).limit(piece) for piece in pieces)
    assert speech.finish_reason == "limit"


@pytest.mark.parametrize("frames", [1, 2, 3, 17])
def test_the_callers_limit_is_exact(tiny: Engine, frames: int) -> None:
    seen: list[int] = []
    speech = tiny.synthesize(TEXT, seed=1, max_frames=frames, on_frame=seen.append)
    assert speech.codes.shape == (frames, 16)
    assert speech.pcm.shape == (frames * 1920,)
    assert speech.finish_reason == "limit"
    assert seen == list(range(1, frames + 1))
    assert speech.duration == pytest.approx(frames * 0.08)
    assert speech.timings.frames == frames


def test_the_callers_limit_goes_beyond_the_texts(frugal: Engine) -> None:
    assert FrameBudget(2, 0.5).limit(TEXT) < 40
    assert len(frugal.synthesize(TEXT, seed=1, max_frames=40).codes) == 40


def test_a_model_that_ends_says_so(ending: Engine) -> None:
    speech = ending.synthesize(TEXT, seed=1)
    assert speech.finish_reason == "stop"
    assert 2 <= len(speech.codes) < FrameBudget().limit(TEXT)
    frames = len(speech.codes)
    cut = ending.synthesize(TEXT, seed=1, max_frames=frames - 1)
    assert cut.finish_reason == "limit"
    assert np.array_equal(cut.codes, speech.codes[:-1])
    roomy = ending.synthesize(TEXT, seed=1, max_frames=frames + 1)
    assert roomy.finish_reason == "stop"
    assert np.array_equal(roomy.codes, speech.codes)


def test_a_limit_reached_is_a_limit_in_every_way_of_speaking(ending: Engine) -> None:
    # The limit may fall on the very end of the text or of one of its pieces.
    texts = [" ".join(["This is a sentence. Here is another!"] * n) for n in (1, 2, 3)]
    wholes = [ending.synthesize(text, seed=5, segment_chars=40) for text in texts]
    ends = [len(w.codes) for w in wholes]
    text, whole = texts[-1], wholes[-1]
    assert whole.finish_reason == "stop"
    assert ends == sorted(set(ends))
    for frames in (1, ends[0], *(end + off for end in ends[1:] for off in (-1, 0, 1))):
        options = {"seed": 5, "segment_chars": 40, "max_frames": frames}
        counts: list[int] = []
        speech = ending.synthesize(text, on_frame=counts.append, **options)  # type: ignore[arg-type]
        stream = streamed(ending, text, **options)
        assert np.array_equal(speech.codes, whole.codes[:frames])
        assert np.array_equal(speech.pcm, stream.pcm)
        assert speech.finish_reason == stream.finish_reason
        assert speech.finish_reason == ("limit" if frames <= len(whole.codes) else "stop")
        assert counts == sorted(set(counts))
        assert counts[-1] == len(speech.codes)


def with_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from kazeia import generation

    draw = generation.sample

    def end_wins(logits, history, sampling, rng, suppress=None, what="logits"):  # type: ignore[no-untyped-def]
        if what == "talker logits":
            logits = logits.copy()
            logits[128 + 102] = 1e6
        return draw(logits, history, sampling, rng, suppress, what)

    monkeypatch.setattr(generation, "sample", end_wins)


@pytest.mark.parametrize("sampling", [None, "official", kazeia.Sampling(temperature=0)])
def test_the_end_as_the_very_first_samples_still_gives_two_frames(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, sampling: object
) -> None:
    with_end(tiny, monkeypatch)
    speech = tiny.synthesize(TEXT, seed=1, sampling=sampling)  # type: ignore[arg-type]
    assert len(speech.codes) == 2
    assert len(speech.pcm) == 2 * 1920
    assert speech.finish_reason == "stop"
    stream = streamed(tiny, TEXT, seed=1, sampling=sampling)
    assert np.array_equal(stream.pcm, speech.pcm)
    assert stream.finish_reason == "stop"


def test_a_checkpoint_that_always_ends_gives_two_frames(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(SHAPES["tiny"], end_gain=1e5))
    # One row of the head, large in either direction: turn it so that it wins at the third sample.
    for sign in (1, -1):
        target = edits.copy(folder, tmp_path / f"sign{sign}")

        def turned(head: np.ndarray, sign: int = sign) -> np.ndarray:
            head[128 + 102] *= sign
            return head

        edits.change_tensor(target, "talker.codec_head.weight", turned)
        with kazeia.load(target, quant="f32", threads=1) as engine:
            for seed in range(4):
                speech = engine.synthesize(TEXT, seed=seed, max_frames=30)
                assert len(speech.codes) >= 2
                if len(speech.codes) == 2:
                    assert speech.finish_reason == "stop"
                    return
    pytest.fail("the end never won")


def test_a_batch_of_those_that_end_at_once(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = tiny.synthesize(TEXT, seed=1, max_frames=2)
    with_end(tiny, monkeypatch)
    speeches = tiny.batch([Request(TEXT, seed=1, max_frames=n) for n in (1, 2, 3, 9) * 3])
    assert [len(s.codes) for s in speeches] == [1, 2, 2, 2] * 3
    assert [s.finish_reason for s in speeches] == ["limit", "limit", "stop", "stop"] * 3
    assert np.array_equal(speeches[3].pcm, alone.pcm)


def test_the_checkpoints_own_limit_caps_the_texts_but_not_the_callers(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = edits.copy(checkpoint("tiny"), tmp_path / "short")
    edits.change_json(folder / "generation_config.json", lambda c: c.update(max_new_tokens=7))
    with kazeia.load(folder, quant="f32", threads=1) as engine:
        speech = engine.synthesize(TEXT, seed=1)
        assert (len(speech.codes), speech.finish_reason) == (7, "limit")
        assert len(engine.synthesize(TEXT, seed=1, max_frames=9).codes) == 9


@pytest.mark.parametrize("limit", [0, -1, 1.5, "many", True])
def test_a_checkpoints_impossible_limit_is_refused_when_it_is_opened(
    checkpoint: Callable[[str], Path], tmp_path: Path, limit: object
) -> None:
    folder = edits.copy(checkpoint("tiny"), tmp_path / "short")
    edits.change_json(folder / "generation_config.json", lambda c: c.update(max_new_tokens=limit))
    with pytest.raises(ConfigError, match=r"generation_config.json: max_new_tokens"):
        kazeia.load(folder, quant="f32", threads=1)


def test_no_speech_goes_past_the_models_positions(
    checkpoint: Callable[[str], Path], tmp_path: Path, tiny: Engine
) -> None:
    folder = edits.copy(checkpoint("tiny"), tmp_path / "narrow")
    edits.change_json(
        folder / "config.json", lambda c: c["talker_config"].update(max_position_embeddings=100)
    )
    with kazeia.load(folder, quant="f32", threads=1) as engine:
        speech = engine.synthesize(TEXT, seed=1)
        room = len(speech.codes)
        assert 50 < room < 100
        assert speech.finish_reason == "limit"
        # The last positions of the tables are as good as the first.
        assert np.array_equal(speech.pcm, tiny.synthesize(TEXT, seed=1, max_frames=room).pcm)
        assert len(engine.synthesize(TEXT, seed=1, max_frames=room).codes) == room
        with pytest.raises(OptionError, match=f"max_frames is {room + 1}.*room for {room}"):
            engine.synthesize(TEXT, max_frames=room + 1)
        with pytest.raises(TextError, match=r"positions.*100.*segment_chars"):
            engine.synthesize("x" * 120, segment_chars=None)
        assert engine.synthesize("x" * 120, seed=1, segment_chars=40, max_frames=3).codes.shape == (3, 16)


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("", 0),
        ("abc", 3),
        ("a b", 3),
        ("…!?", 3),
        ("7", 4),
        ("42", 8),
        ("Ⅷ", 4),
        ("½", 4),
        ("٣", 4),
        ("語", 3),
        ("한", 3),
        ("か", 3),
        ("カ", 3),
        ("𠀋", 3),
        ("é", 1),
        ("ж", 1),
        ("。", 1),
        ("３", 4),
    ],
)
def test_weights_of_characters(text: str, weight: int) -> None:
    assert FrameBudget(base=1, per_unit=1.0).limit(text) == 1 + weight
    assert FrameBudget(base=10, per_unit=2.5).limit(text) == int(10 + 2.5 * weight)


def test_longer_texts_have_more_room() -> None:
    budget = FrameBudget()
    limits = [budget.limit("word " * n) for n in range(20)]
    assert limits == sorted(set(limits))
    assert limits[0] == 50


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("base", v) for v in (0, -1, True, "9", None, float("nan"), float("inf"))),
        *(("per_unit", v) for v in (-0.1, True, "1", None, float("nan"), 1e6)),
    ],
)
def test_impossible_budgets_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(OptionError, match=field):
        FrameBudget(**{field: value})  # type: ignore[arg-type]

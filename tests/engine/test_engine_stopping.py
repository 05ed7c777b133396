"""Stopping in the middle: dropped streams, cancelled calls, closed engines (F03)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import Engine, EngineClosedError, Request
from kazeia.generation import FrameLoop
from kazeia.runtime.codec_decoder import CodecDecoder
from patience import wait_until

TEXT = "Four and twenty blackbirds."
LONGER = [" ".join(["This is a sentence. Here is another!"] * n) for n in (1, 2, 3)]
LONG = LONGER[-1]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every step of any frame loop."""
    counted: list[int] = []
    step = FrameLoop.step

    def count(self: FrameLoop, held: Any) -> Any:
        counted.append(1)
        return step(self, held)

    monkeypatch.setattr(FrameLoop, "step", count)
    return counted


@pytest.fixture
def own(checkpoint: Callable[[str], Path]) -> Engine:
    """An engine that a test may close."""
    return kazeia.load(checkpoint("tiny"), quant="f32", threads=1)


def cancel_at(frames: int) -> tuple[threading.Event, Callable[[int], None], list[int]]:
    """An event that another thread sets once so many frames are there; and the counts seen."""
    cancel, seen = threading.Event(), list[int]()

    def on_frame(count: int) -> None:
        seen.append(count)
        if count == frames:
            helper = threading.Thread(target=cancel.set)
            helper.start()
            helper.join()

    return cancel, on_frame, seen


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
@pytest.mark.parametrize("chunk", [1, 3, None])
def test_a_dropped_stream_stops_everything(
    tiny: Engine, steps: list[int], taken: int, chunk: int | None
) -> None:
    threads = threading.active_count()
    frames: list[int] = []
    stream = tiny.stream(TEXT, seed=1, chunk_frames=chunk, max_frames=200, on_frame=frames.append)
    heard = sum(len(next(stream).pcm) // 1920 for _ in range(taken))
    stream.close()  # type: ignore[attr-defined]
    del stream
    gc.collect()
    before = len(steps)
    # Whatever might still be running has this long to betray itself.
    tiny.synthesize(TEXT, seed=1, max_frames=5)
    assert threading.active_count() == threads
    assert len(frames) <= heard + (chunk or 1) + 8  # a chunk, and a piece, ahead
    assert len(steps) == before + 5
    if not taken:
        assert frames == []


def test_generation_waits_for_its_listener(tiny: Engine) -> None:
    # Chunks that nobody takes are not made far ahead.
    frames: list[int] = []
    stream = tiny.stream(TEXT, seed=1, chunk_frames=2, max_frames=200, on_frame=frames.append)
    for number in range(1, 6):
        next(stream)
        assert frames[-1] <= 2 * number + 4


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_a_cancelled_call_ends_within_two_frames(tiny: Engine, frames: int) -> None:
    whole = tiny.synthesize(TEXT, seed=1, max_frames=frames + 5)
    cancel, on_frame, seen = cancel_at(frames)
    speech = tiny.synthesize(TEXT, seed=1, cancel=cancel, on_frame=on_frame)
    assert speech.finish_reason == "cancelled"
    assert frames <= len(speech.codes) <= frames + 2
    assert seen[-1] <= frames + 2
    assert np.array_equal(speech.pcm, whole.pcm[: len(speech.pcm)])
    assert len(speech.pcm) == 1920 * len(speech.codes)


@pytest.mark.parametrize("chunk", [1, 4, 100, None])
def test_a_cancelled_stream_ends_within_two_frames_and_loses_none(tiny: Engine, chunk: int | None) -> None:
    whole = tiny.synthesize(TEXT, seed=1, max_frames=12)
    cancel, on_frame, seen = cancel_at(6)
    chunks = list(tiny.stream(TEXT, seed=1, chunk_frames=chunk, cancel=cancel, on_frame=on_frame))
    pcm = np.concatenate([c.pcm for c in chunks])
    assert 6 * 1920 <= len(pcm) <= 8 * 1920
    assert len(pcm) == seen[-1] * 1920  # what was generated was given out
    assert np.array_equal(pcm, whole.pcm[: len(pcm)])
    last = chunks[-1]
    assert last.is_last
    assert last.speech is not None
    assert last.speech.finish_reason == "cancelled"
    assert np.array_equal(last.speech.pcm, pcm)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cancel_that_raises_ends_the_call_and_nothing_more_is_decoded(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, steps: list[int], threads: int
) -> None:
    class Abandoned(threading.Event):
        def is_set(self) -> bool:
            if super().is_set():
                raise InterruptedError("nobody listens")
            return False

    engine = load_engine("tiny", threads=threads)
    cancel, decode, decoded = Abandoned(), CodecDecoder.decode, list[int]()

    def stop_in_it(self: CodecDecoder, codes: Any, state: Any) -> Any:
        decoded.append(len(codes))
        if engine.threads.side_by_side:
            # All of its rows are as far ahead of the decoder as they may be.
            wait_until(lambda: len(steps) >= 16)
        steps.clear()
        cancel.set()
        return decode(self, codes, state)

    monkeypatch.setattr(CodecDecoder, "decode", stop_in_it)
    with pytest.raises(InterruptedError, match="nobody listens"):
        engine.synthesize(LONG, seed=1, segment_chars=40, cancel=cancel)
    assert decoded == [8]  # the piece that was at the decoder
    assert len(steps) <= 1
    monkeypatch.undo()
    with pytest.raises(InterruptedError):
        next(engine.stream(LONG, seed=1, cancel=cancel))
    cancel.clear()
    assert engine.synthesize(TEXT, seed=1, cancel=cancel, max_frames=3).finish_reason == "limit"


def test_a_call_cancelled_before_it_begins_says_nothing(tiny: Engine, steps: list[int]) -> None:
    cancel = threading.Event()
    cancel.set()
    for text in (TEXT, LONG):
        speech = tiny.synthesize(text, seed=1, cancel=cancel, segment_chars=40)
        assert speech.finish_reason == "cancelled"
        assert speech.codes.shape == (0, 16)
        assert speech.pcm.shape == (0,)
        assert speech.duration == 0
        assert speech.timings.summary()
        (only,) = tiny.stream(text, seed=1, cancel=cancel, segment_chars=40)
        assert only.speech is not None
        assert only.speech.finish_reason == "cancelled"
        assert only.is_last
        assert len(only.pcm) == 0
    assert len(steps) <= 10


def test_what_a_cancelled_long_text_leaves_is_its_beginning(tiny: Engine) -> None:
    # Its pieces are spoken side by side; a piece after a cut one is no continuation.
    whole = tiny.synthesize(LONG, seed=1, segment_chars=40, max_frames=60)
    for frames in (3, 12, 30):
        cancel, on_frame, _ = cancel_at(frames)
        speech = tiny.synthesize(LONG, seed=1, segment_chars=40, cancel=cancel, on_frame=on_frame)
        assert speech.finish_reason == "cancelled"
        assert 0 < len(speech.codes) <= frames + 2
        assert np.array_equal(speech.pcm, whole.pcm[: len(speech.pcm)])


def test_pieces_that_were_finished_before_the_cut_are_kept(ending: Engine) -> None:
    def pieces(seed: int) -> list[int]:
        ends = [len(ending.synthesize(text, seed=seed, segment_chars=40).codes) for text in LONGER]
        return np.diff([0, *ends]).tolist()

    seed = next(seed for seed in range(20) if (p := pieces(seed))[0] < max(p[1:]))
    whole = ending.synthesize(LONG, seed=seed, segment_chars=40)
    cancel, on_frame, _ = cancel_at(len(whole.codes) - 1)
    speech = ending.synthesize(LONG, seed=seed, segment_chars=40, cancel=cancel, on_frame=on_frame)
    assert speech.finish_reason == "cancelled"
    assert pieces(seed)[0] < len(speech.codes) < len(whole.codes)
    assert np.array_equal(speech.pcm, whole.pcm[: len(speech.pcm)])


@pytest.mark.parametrize("place", [0, 1, 3])
def test_one_cancelled_row_leaves_the_others_as_they_are(
    load_engine: Callable[..., Engine], place: int
) -> None:
    engine = load_engine("tiny", "q8", 1)
    requests = [Request(TEXT, seed=n, max_frames=10 + n) for n in range(3)]
    alone = engine.batch(requests)
    cancel, on_frame, _ = cancel_at(4)
    requests.insert(place, Request(TEXT, seed=9, cancel=cancel, on_frame=on_frame))
    speeches = engine.batch(requests)
    cancelled = speeches.pop(place)
    assert cancelled.finish_reason == "cancelled"
    assert 4 <= len(cancelled.codes) <= 6
    for speech, other in zip(speeches, alone, strict=True):
        assert np.array_equal(speech.pcm, other.pcm)
        assert speech.finish_reason == "limit"


def test_a_waiting_row_that_is_cancelled_never_begins(tiny: Engine) -> None:
    cancel = threading.Event()
    cancel.set()
    requests = [Request(TEXT, seed=n, max_frames=3) for n in range(9)]
    requests[8] = Request(TEXT, seed=8, cancel=cancel)  # beyond those that may run at once
    speeches = tiny.batch(requests)
    assert len(speeches[8].codes) == 0
    assert speeches[8].finish_reason == "cancelled"
    assert all(len(s.codes) == 3 for s in speeches[:8])


def test_an_error_of_the_callers_own_comes_through_and_harms_nothing(tiny: Engine) -> None:
    class Mine(Exception):
        pass

    def on_frame(count: int) -> None:
        if count == 3:
            raise Mine

    reference = tiny.synthesize(TEXT, seed=1, max_frames=6)
    with pytest.raises(Mine):
        tiny.synthesize(TEXT, seed=1, on_frame=on_frame)
    with pytest.raises(Mine):
        list(tiny.stream(TEXT, seed=1, on_frame=on_frame))
    with pytest.raises(Mine):
        tiny.batch([Request(TEXT), Request(TEXT, on_frame=on_frame)])
    assert np.array_equal(tiny.synthesize(TEXT, seed=1, max_frames=6).pcm, reference.pcm)


def test_a_call_from_within_a_call_is_a_call_of_its_own(tiny: Engine) -> None:
    reference = tiny.synthesize(TEXT, seed=1, max_frames=5)
    inner: list[np.ndarray] = []

    def on_frame(count: int) -> None:
        inner.append(tiny.synthesize(TEXT, seed=1, max_frames=5).pcm)

    outer = tiny.synthesize(TEXT, seed=1, max_frames=5, on_frame=on_frame)
    assert all(np.array_equal(pcm, reference.pcm) for pcm in (*inner, outer.pcm))
    assert len(inner) == 5


def test_closing_the_engine_ends_the_calls_that_run(own: Engine) -> None:
    def close(count: int) -> None:
        if count == 3:
            own.close()

    with pytest.raises(EngineClosedError):
        own.synthesize(TEXT, seed=1, on_frame=close)


def test_closing_the_engine_ends_its_streams_and_batches(checkpoint: Callable[[str], Path]) -> None:
    engine = kazeia.load(checkpoint("tiny"), quant="f32", threads=1)
    stream = engine.stream(TEXT, seed=1, chunk_frames=1)
    assert next(stream).index == 0
    seen: list[int] = []
    failed: list[BaseException] = []
    running = threading.Event()

    def speak() -> None:
        def on_frame(count: int) -> None:
            seen.append(count)
            running.set()

        try:
            engine.batch([Request(TEXT, on_frame=on_frame), Request(TEXT)])
        except EngineClosedError as error:
            failed.append(error)

    thread = threading.Thread(target=speak)
    thread.start()
    assert running.wait(10)
    engine.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(failed) == 1
    with pytest.raises(EngineClosedError, match=r"closed.*kazeia\.load"):
        next(stream)


def test_after_close_every_call_is_refused_by_name_and_close_may_come_twice(own: Engine) -> None:
    own.close()
    own.close()
    calls: list[Callable[[], object]] = [
        lambda: own.synthesize(TEXT),
        lambda: own.stream(TEXT),
        lambda: own.batch([Request(TEXT)]),
        lambda: own.batch([]),
        lambda: own.talker_sampling(),
        lambda: own.predictor_sampling(),
        lambda: own.synthesize(""),
    ]
    for call in calls:
        with pytest.raises(EngineClosedError, match=r"closed.*kazeia\.load"):
            call()
    assert own.voices  # what it knew of the model is still told
    with pytest.raises(EngineClosedError), own:
        pass


def test_the_context_manager_closes_also_after_an_error(own: Engine) -> None:
    with pytest.raises(ZeroDivisionError), own:
        1 / 0  # noqa: B018
    with pytest.raises(EngineClosedError):
        own.synthesize(TEXT)

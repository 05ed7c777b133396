"""Generator and decoder side by side: the same bits, bounded, stoppable, honest about errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import Chunk, Engine, EngineClosedError, GenerationError, OptionError, Request, Threads
from kazeia.generation import FrameLoop
from kazeia.runtime.codec_decoder import CodecDecoder
from kazeia.schedule import VARIABLE
from kazeia.speech import AUDIBLE, PlaybackClock
from kazeia.workers import Workers
from patience import no_thread_left, wait_until  # noqa: F401  a fixture

pytestmark = pytest.mark.usefixtures("no_thread_left")
TEXT = "Four and twenty blackbirds, baked in a pie."
FRAMES = 23
PLANS = (
    Threads(1, side_by_side=False),
    Threads(1, side_by_side=True),
    Threads(3, side_by_side=False),
    Threads(2, side_by_side=True),
)
SCHEDULES = (1, 2, 5, 100, [1, 2, 4], [3, 1], [7, 7, 1, 2], None)


class Mine(Exception):
    pass


def pcm_of(chunks: list[Chunk]) -> np.ndarray:
    return np.concatenate([chunk.pcm for chunk in chunks])


# ---- law 2 ----


@pytest.mark.parametrize("quant", ["f32", "q8", "q4"])
def test_no_plan_and_no_schedule_changes_a_bit(load_engine: Callable[..., Engine], quant: str) -> None:
    reference = load_engine("tiny", quant, PLANS[0]).synthesize(TEXT, seed=1, max_frames=FRAMES)
    for plan in PLANS:
        engine = load_engine("tiny", quant, plan)
        assert engine.threads == plan
        whole = engine.synthesize(TEXT, seed=1, max_frames=FRAMES)
        assert np.array_equal(whole.pcm, reference.pcm)
        assert np.array_equal(whole.codes, reference.codes)
        for schedule in SCHEDULES:
            chunks = list(engine.stream(TEXT, seed=1, max_frames=FRAMES, chunk_frames=schedule))
            assert np.array_equal(pcm_of(chunks), reference.pcm)
            last = chunks[-1].speech
            assert last is not None
            assert np.array_equal(last.codes, reference.codes)
            assert last.finish_reason == reference.finish_reason == "limit"


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_batch_in_every_plan_is_each_alone(load_engine: Callable[..., Engine], plan: Threads) -> None:
    engine = load_engine("ending", "q8", plan)
    text = "This is a sentence. Here is another one! " * 3
    requests = [Request(text, seed=seed, segment_chars=40) for seed in range(4)]
    requests += [Request(TEXT, seed=seed, max_frames=3 + seed) for seed in range(7)]
    for request, speech in zip(requests, engine.batch(requests), strict=True):
        alone = load_engine("ending", "q8", PLANS[0]).batch([request])[0]
        assert np.array_equal(speech.pcm, alone.pcm)
        assert speech.finish_reason == alone.finish_reason


def test_chunks_have_the_sizes_that_were_asked_for(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(choice: Any = None) -> list[int]:
        chunks = list(tiny.stream(TEXT, seed=1, max_frames=20, chunk_frames=choice))
        return [len(chunk.pcm) // 1920 for chunk in chunks]

    assert sizes(7) == [7, 7, 6, 0]
    assert sizes([1, 2, 4]) == [1, 2, 4, 4, 4, 4, 1, 0]
    assert sizes() == [1] * 5 + [2] * 5 + [4, 1, 0]
    monkeypatch.setenv(VARIABLE, "6")
    assert sizes() == [6, 6, 6, 2, 0]
    assert sizes(10) == [10, 10, 0]
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(OptionError, match=f"{VARIABLE} is 'fast'"):
        tiny.stream(TEXT)  # before anything is asked for


def test_many_threads_speak_and_stream_at_once(load_engine: Callable[..., Engine]) -> None:
    engine = load_engine("tiny", "q8", PLANS[1])
    wanted = {n: engine.synthesize(TEXT, seed=n, max_frames=9 + n).pcm for n in range(8)}
    got: dict[int, np.ndarray] = {}

    def speak(n: int) -> None:
        if n == 3:
            next(engine.stream(TEXT, seed=99))  # and one that is dropped in their midst
        if n % 2:
            got[n] = pcm_of(list(engine.stream(TEXT, seed=n, max_frames=9 + n, chunk_frames=[1, n])))
        else:
            got[n] = engine.synthesize(TEXT, seed=n, max_frames=9 + n).pcm

    threads = [threading.Thread(target=speak, args=(n,)) for n in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[n], wanted[n]) for n in wanted)


# ---- side by side, and in turn ----


@pytest.mark.parametrize("streamed", [True, False])
def test_the_generator_goes_on_while_the_decoder_works(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    frames: list[int] = []
    decode = CodecDecoder.decode
    calls: list[int] = []

    def slow(self: CodecDecoder, codes: Any, state: Any = None) -> Any:
        calls.append(len(codes))
        if len(calls) == 1:  # works until the generator has gone on
            wait_until(lambda: frames[-1] >= sum(calls) + 2)
        return decode(self, codes, state)

    monkeypatch.setattr(CodecDecoder, "decode", slow)
    options: dict[str, Any] = {"seed": 1, "max_frames": 20, "on_frame": frames.append}
    if streamed:
        list(tiny.stream(TEXT, chunk_frames=2, **options))
    else:
        tiny.synthesize(TEXT, **options)
    assert sum(calls) == 20


def test_with_one_core_everything_runs_in_the_callers_thread(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load_engine("tiny", "f32", 1)

    def start(self: threading.Thread) -> None:
        raise AssertionError("a thread is started")

    monkeypatch.setattr(threading.Thread, "start", start)
    whole = engine.synthesize(TEXT, seed=1, max_frames=9)
    made: list[int] = []
    stream = engine.stream(TEXT, seed=1, max_frames=9, chunk_frames=2, on_frame=made.append)
    assert made == []
    chunks = [next(stream)]
    assert made == [1, 2]  # not a frame ahead
    assert np.array_equal(pcm_of(chunks + list(stream)), whole.pcm)


@pytest.mark.parametrize(
    ("asked", "plan"),
    [
        (1, Threads(1, False)),
        (2, Threads(1, True, decoders=2)),
        (3, Threads(2, True, decoders=3)),
        (64, Threads(63, True, decoders=8)),
        (Threads(5, False), Threads(5, False)),
    ],
)
def test_a_number_of_threads_is_the_sum(asked: Any, plan: Threads) -> None:
    from kazeia.runtime.threads import plan_threads

    assert plan_threads(asked) == plan


@pytest.mark.parametrize("cores", [1, 2, 5, 9])
def test_without_a_number_the_usable_cores_are_shared_out(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kazeia.runtime import threads

    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    assert threads.plan_threads(None) == threads.plan_threads(cores)
    monkeypatch.setattr(threads, "usable_cores", lambda: 64)
    assert threads.plan_threads(None) == Threads(8, True, decoders=8)


@pytest.mark.parametrize(
    "options",
    [
        *({part: n} for part in ("generator", "decoders") for n in (0, -1, 1.5, True, 257)),
        {"side_by_side": 1},
    ],
)
def test_impossible_plans_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="threads"):
        Threads(**options)


# ---- stopping ----


def end_by_closing(stream: Any) -> None:
    stream.close()


def end_by_dropping(stream: Any) -> None:
    del stream


def end_by_throwing(stream: Any) -> None:
    with pytest.raises(Mine):
        stream.throw(Mine)


def test_a_hundred_aborted_streams_leave_no_thread(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    step = FrameLoop.step
    monkeypatch.setattr(FrameLoop, "step", lambda self, held: (steps.append(1), step(self, held))[1])
    at_stop: list[int] = []
    stop = Workers.stop

    def stopping(self: Workers, error: Any) -> None:
        stop(self, error)
        at_stop.append(len(steps))

    monkeypatch.setattr(Workers, "stop", stopping)
    ways = (end_by_closing, end_by_dropping, end_by_throwing)
    before = threading.active_count()
    for number in range(100):
        stream = tiny.stream(TEXT, seed=number, chunk_frames=1 + number % 5)
        for _ in range(number % 4):
            next(stream)
        ways[number % 3](stream)
        del stream
        assert threading.active_count() == before
        if number % 4:
            assert len(steps) <= at_stop[-1] + 1  # the frame that it was at, or about to begin
    assert len(at_stop) == 75
    made = len(steps)
    threading.Event().wait(0.05)
    assert len(steps) == made


def test_a_consumer_that_fails_leaves_no_thread(tiny: Engine) -> None:
    before = threading.active_count()

    def consume() -> None:
        for chunk in tiny.stream(TEXT, seed=1):
            if chunk.index == 2:
                raise Mine

    with pytest.raises(Mine):
        consume()
    assert threading.active_count() == before


@pytest.mark.parametrize("schedule", [1, 2, 4, 8, 30, None])
def test_a_slow_consumer_stops_the_generator(tiny: Engine, schedule: int | None) -> None:
    frames: list[int] = []
    stream = tiny.stream(TEXT, seed=1, chunk_frames=schedule, max_frames=200, on_frame=frames.append)
    largest = schedule or 8
    taken = 0
    for _ in range(4):
        taken += len(next(stream).pcm) // 1920
        # One chunk decoded ahead, and at most a piece of eight waiting for the decoder.
        bound = taken + (schedule or 1) + max(2, min(8, largest))
        still, last = 0, -1
        while still < 20:  # until it has come to rest
            threading.Event().wait(0.002)
            still, last = (still + 1 if frames[-1] == last else 0), frames[-1]
        assert frames[-1] <= bound
    stream.close()  # type: ignore[attr-defined]


def test_closing_the_engine_ends_the_threads_of_a_stream_that_nobody_takes(
    checkpoint: Callable[[str], Path],
) -> None:
    engine = kazeia.load(checkpoint("tiny"), quant="f32", threads=2)
    before = threading.active_count()
    streams = [engine.stream(TEXT, seed=n) for n in range(3)]
    for stream in streams:
        next(stream)
    assert threading.active_count() == before + 4  # a decoder each, and the one generator
    engine.close()
    assert threading.active_count() == before
    for stream in streams:
        with pytest.raises(EngineClosedError):
            next(stream)
        assert list(stream) == []


def test_the_program_may_end_in_the_middle_of_a_stream(checkpoint: Callable[[str], Path]) -> None:
    program = (
        "import sys, kazeia\n"
        "engine = kazeia.load(sys.argv[1], threads=2)\n"
        "stream = engine.stream(sys.argv[2], seed=1)\n"
        "print(next(stream).index)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(checkpoint("tiny")), TEXT],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


# ---- errors ----


@pytest.mark.parametrize("where", [FrameLoop, CodecDecoder])
@pytest.mark.parametrize("kind", [Mine, GenerationError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("plan", PLANS[:2], ids=str)
def test_an_error_of_either_thread_is_the_callers(
    load_engine: Callable[..., Engine],
    monkeypatch: pytest.MonkeyPatch,
    where: type,
    kind: type[BaseException],
    plan: Threads,
) -> None:
    engine = load_engine("tiny", "f32", plan)
    reference = engine.synthesize(TEXT, seed=1, max_frames=9).pcm
    name = "step" if where is FrameLoop else "decode"
    work, error, calls = getattr(where, name), kind("the very one"), [0]

    def fail(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise error
        return work(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, fail)
        heard: list[Chunk] = []
        with pytest.raises(kind) as caught:
            heard.extend(engine.stream(TEXT, seed=1, max_frames=9, chunk_frames=1))
        assert caught.value is error
        # What was whole before the error has been given out.
        assert np.array_equal(pcm_of(heard), reference[: 2 * 1920])
        calls[0] = 0
        with pytest.raises(kind) as caught:
            engine.synthesize(TEXT, seed=1, max_frames=40)
        assert caught.value is error
    assert np.array_equal(engine.synthesize(TEXT, seed=1, max_frames=9).pcm, reference)


# ---- timings ----


@pytest.mark.parametrize("plan", PLANS[:2], ids=str)
def test_timings_tell_of_every_part(load_engine: Callable[..., Engine], plan: Threads) -> None:
    engine = load_engine("tiny", "f32", plan)
    whole = engine.synthesize(TEXT, seed=1, max_frames=12)
    *_, last = engine.stream(TEXT, seed=1, max_frames=12)
    assert last.speech is not None
    for speech in (whole, last.speech):
        t = speech.timings
        assert t.frames == 12
        assert t.audio_s == pytest.approx(12 * 0.08)
        assert all(part > 0 for part in (t.prefill_s, t.talker_s, t.predictor_s, t.decoder_s))
        assert t.prefill_s + t.talker_s + t.predictor_s <= t.total_s  # one thread's work
        assert t.decoder_s <= t.total_s
        assert t.prefill_s <= t.first_audio_s <= t.total_s
        loud = np.abs(speech.pcm) > AUDIBLE
        assert loud.any()
        assert t.first_audible_s is not None
        silence = int(loud.argmax()) / 24000
        assert t.first_audible_s >= t.first_audio_s + silence - 1e-9
    assert last.speech.timings.first_audio_s < last.speech.timings.total_s
    # A file is heard when it is whole.
    assert whole.timings.first_audio_s + silence == pytest.approx(whole.timings.first_audible_s or 0)


def test_the_first_audible_sample_is_heard_after_the_silence_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [10.0]
    monkeypatch.setattr("kazeia.speech.time.perf_counter", lambda: now[0])
    clock = PlaybackClock(1000)
    quiet, loud = np.full(500, AUDIBLE, np.float32), np.array([0, 0, -2 * AUDIBLE, 0.5], np.float32)
    now[0] = 10.25
    clock.hear(quiet)  # plays from 0.25 to 0.75
    assert (clock.first_audio_s, clock.first_audible_s) == (0.25, None)
    now[0] = 10.5
    clock.hear(np.zeros(100, np.float32))  # comes in time: plays to 0.85
    now[0] = 11.0
    clock.hear(loud)  # comes late: plays from 1.0
    assert clock.first_audible_s == pytest.approx(1.002)
    clock.hear(loud)
    assert (clock.first_audio_s, clock.first_audible_s) == (0.25, pytest.approx(1.002))


def test_silence_has_no_audible_sample(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = CodecDecoder.decode
    monkeypatch.setattr(CodecDecoder, "decode", lambda *a: np.zeros_like(decode(*a)))
    assert tiny.synthesize(TEXT, seed=1, max_frames=3).timings.first_audible_s is None

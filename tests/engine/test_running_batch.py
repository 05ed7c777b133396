"""The running batch: all calls of an engine in one frame loop, and each as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import (
    Chunk,
    Engine,
    GenerationError,
    OptionError,
    Request,
    RunawayGuard,
    Sampling,
    Threads,
    generation,
    scheduler,
)
from kazeia.generation import FrameLoop
from kazeia.running_batch import RunningBatch
from patience import no_thread_left, wait_until  # noqa: F401  a fixture

pytestmark = pytest.mark.usefixtures("no_thread_left")
PLANS = (Threads(1, side_by_side=True), Threads(1, side_by_side=False))
QUANTS = ("f32", "q8", "q4")
TEXT = "Four and twenty blackbirds."
LONG = "This is a sentence. Here is another one! " * 4


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each step of any frame loop had."""
    seen: list[int] = []
    step = FrameLoop.step

    def count(self: FrameLoop, held: Any) -> Any:
        took_part = step(self, held)
        seen.append(len(took_part))
        return took_part

    monkeypatch.setattr(FrameLoop, "step", count)
    return seen


@pytest.fixture
def few(checkpoint: Callable[[str], Path]) -> Iterator[Callable[..., Engine]]:
    """A tiny engine of its own, with so many places."""
    engines: list[Engine] = []

    def load(max_batch: int, plan: Threads = PLANS[0], **options: Any) -> Engine:
        options = {"quant": "f32", "guard": None} | options
        engine = kazeia.load(checkpoint("tiny"), threads=plan, max_batch=max_batch, **options)
        engines.append(engine)
        return engine

    yield load
    for engine in engines:
        engine.close()


def pcm_of(chunks: list[Chunk]) -> np.ndarray:
    return np.concatenate([chunk.pcm for chunk in chunks])


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each gives or raises, in threads of their own that all join the batch before its first step."""
    results: list[Any] = [None] * len(works)
    entered = threading.Semaphore(0)
    step, enter = FrameLoop.step, RunningBatch.enter
    first = threading.Lock()
    waited: list[bool] = []

    def entering(self: RunningBatch, *args: Any, **options: Any) -> Any:
        call = enter(self, *args, **options)
        entered.release()
        return call

    def stepping(self: FrameLoop, held: Any) -> Any:
        with first:
            if not waited:
                waited.append(all(entered.acquire(timeout=30) for _ in works))
        return step(self, held)

    def run(number: int) -> None:
        try:
            results[number] = works[number]()
        except BaseException as error:
            results[number] = error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningBatch, "enter", entering)
        patch.setattr(FrameLoop, "step", stepping)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert waited == [True]
    return results


# ---- law 2 ----


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("quant", QUANTS)
def test_calls_of_all_kinds_from_many_threads_are_rows_of_one_batch(
    load_engine: Callable[..., Engine], rows: list[int], quant: str, plan: Threads
) -> None:
    engine = load_engine("ending", quant, plan)
    alone = [engine.synthesize(TEXT, seed=n).pcm for n in range(7)]
    long = engine.synthesize(LONG, seed=9, segment_chars=60).pcm
    rows.clear()
    together = at_once(
        lambda: engine.synthesize(TEXT, seed=0).pcm,
        lambda: pcm_of(list(engine.stream(TEXT, seed=1, chunk_frames=1))),
        lambda: [s.pcm for s in engine.batch([Request(TEXT, seed=n) for n in (2, 3, 4)])],
        lambda: pcm_of(list(engine.stream(TEXT, seed=5))),
        lambda: engine.synthesize(TEXT, seed=6).pcm,
        lambda: pcm_of(list(engine.stream(LONG, seed=9, segment_chars=60, chunk_frames=3))),
    )
    assert np.array_equal(together.pop(5), long)
    got = [together[0], together[1], *together[2], together[3], together[4]]
    assert all(np.array_equal(pcm, wanted) for pcm, wanted in zip(got, alone, strict=True))
    assert 4 <= max(rows) <= scheduler.MAX_BATCH  # some end before the last ones begin


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_calls_that_come_and_go_between_frames(
    load_engine: Callable[..., Engine], rows: list[int], plan: Threads
) -> None:
    engine = load_engine("tiny", "q4", plan)
    alone = {n: engine.synthesize(TEXT, seed=n, max_frames=4 + n).pcm for n in range(1, 8)}
    wanted = engine.synthesize(TEXT, seed=0, max_frames=30).pcm
    rows.clear()
    got: dict[int, np.ndarray] = {}
    threads: list[threading.Thread] = []

    def speak(n: int) -> None:
        got[n] = engine.synthesize(TEXT, seed=n, max_frames=4 + n).pcm

    def on_frame(count: int) -> None:
        if count % 3 == 1 and len(threads) < len(alone):
            threads.append(threading.Thread(target=speak, args=(1 + len(threads),)))
            threads[-1].start()

    pcm = engine.synthesize(TEXT, seed=0, max_frames=30, on_frame=on_frame).pcm
    for thread in threads:
        thread.join()
    assert np.array_equal(pcm, wanted)
    assert got.keys() == alone.keys()
    assert all(np.array_equal(got[n], alone[n]) for n in alone)
    assert max(rows) > 1


@pytest.mark.parametrize("quant", QUANTS)
def test_rows_that_are_held_and_parked_at_random_are_each_alone(
    load_engine: Callable[..., Engine], quant: str
) -> None:
    engine = load_engine("tiny", quant, 2)
    model = engine._model
    assert model is not None

    def utterances() -> list[generation.Utterance]:
        return [
            generation.Utterance(
                model.prompts.build(TEXT[: 3 + 5 * n], engine.voices[0], None),
                engine.talker_sampling(),
                engine.predictor_sampling(),
                kazeia.random.derive_streams(n),
                9 + 5 * n,
            )
            for n in range(5)
        ]

    def loop() -> FrameLoop:
        return FrameLoop(model.talker, model.predictor, model.bundle.config.talker, model.prefixes)

    alone = utterances()
    for u in alone:
        one = loop()
        one.join(u)
        while len(one):
            one.step()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        together, company = loop(), utterances()
        out, inside = list(company), list[generation.Utterance]()
        while out or inside:
            for u in list(inside):
                if rng.random() < 0.25:
                    together.park(u)
                    inside.remove(u)
                    out.append(u)
            for u in list(out):
                if rng.random() < 0.4:
                    together.join(u)
                    out.remove(u)
                    inside.append(u)
            held = [u for u in inside if rng.random() < 0.3]
            before = [len(u.codes) for u in held]
            took_part = together.step(held)
            assert set(map(id, took_part)) == set(map(id, inside)) - set(map(id, held))
            assert [len(u.codes) for u in held] == before
            inside = [u for u in inside if not u.ended]
        for u, one in zip(company, alone, strict=True):
            assert np.array_equal(u.codes, one.codes)


# ---- listeners that do not listen ----


@pytest.mark.parametrize("max_batch", [1, 2, 8])
def test_a_listener_who_pauses_holds_nobody_up(
    few: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, max_batch: int
) -> None:
    engine = few(max_batch)
    wanted = [engine.synthesize(TEXT, seed=n, max_frames=60).pcm for n in range(3)]
    parked: list[object] = []
    park = FrameLoop.park
    monkeypatch.setattr(FrameLoop, "park", lambda self, u: (parked.append(u), park(self, u)))
    made: list[int] = []
    slow = engine.stream(TEXT, seed=0, max_frames=60, chunk_frames=2, on_frame=made.append)
    heard = [next(slow)]
    for n in (1, 2):
        other = engine.stream(TEXT, seed=n, max_frames=60, chunk_frames=4)
        assert np.array_equal(pcm_of(list(other)), wanted[n])
        # A chunk that was taken, one that is ready, one that is being made, and what may wait.
        assert made[-1] <= 2 * len(heard) + 2 + 2 + 2
        heard.append(next(slow))
    assert parked  # its place was free for others
    heard += list(slow)
    assert np.array_equal(pcm_of(heard), wanted[0])


def test_a_row_that_waits_alone_is_not_moved(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: FrameLoop, u: object) -> None:
        raise AssertionError("it was copied")

    monkeypatch.setattr(FrameLoop, "park", never)
    stream = tiny.stream(TEXT, seed=1, max_frames=30, chunk_frames=2)
    heard = []
    for chunk in stream:
        heard.append(chunk)
        threading.Event().wait(0.005)
    assert len(pcm_of(heard)) == 30 * 1920


# ---- segments of a stream ----


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("max_batch", [1, 2, 8])
def test_segments_ahead_of_their_time_are_heard_in_order(
    few: Callable[..., Engine],
    monkeypatch: pytest.MonkeyPatch,
    rows: list[int],
    plan: Threads,
    max_batch: int,
) -> None:
    monkeypatch.setattr(scheduler, "_START_AHEAD", 3)
    monkeypatch.setattr(scheduler, "AHEAD_FRAMES", 10)
    engine = few(max_batch, plan, budget=kazeia.FrameBudget(10, 0.2))
    whole = engine.synthesize(LONG, seed=3, segment_chars=45)
    rows.clear()
    chunks = list(engine.stream(LONG, seed=3, segment_chars=45, chunk_frames=3))
    assert np.array_equal(pcm_of(chunks), whole.pcm)
    assert max(rows) == min(max_batch, 1 + scheduler.AHEAD_SEGMENTS)
    for frames in (30, 47):  # the limit of all falls into the first segment, and into the second one
        chunks = list(engine.stream(LONG, seed=3, segment_chars=45, chunk_frames=3, max_frames=frames))
        file = engine.synthesize(LONG, seed=3, segment_chars=45, max_frames=frames)
        assert np.array_equal(file.pcm, pcm_of(chunks))
        assert len(file.codes) == frames
        assert chunks[-1].speech is not None
        assert chunks[-1].speech.finish_reason == file.finish_reason == "limit"


def test_a_stream_goes_ahead_within_its_bounds(
    few: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, rows: list[int]
) -> None:
    monkeypatch.setattr(scheduler, "_START_AHEAD", 3)
    monkeypatch.setattr(scheduler, "AHEAD_FRAMES", 10)
    engine = few(8)
    wanted = engine.synthesize(LONG, seed=3, segment_chars=45, max_frames=90).pcm
    rows.clear()
    made: list[int] = []
    stream = engine.stream(
        LONG, seed=3, segment_chars=45, chunk_frames=2, max_frames=90, on_frame=made.append
    )
    heard = [next(stream), next(stream), next(stream)]
    still, last = 0, -1
    while still < 50:  # until it has come to rest
        threading.Event().wait(0.002)
        still, last = (still + 1 if made[-1] == last else 0), made[-1]
    assert 20 < made[-1] <= 6 + 2 + 2 + 2 + scheduler.AHEAD_SEGMENTS * 10
    assert max(rows) == 1 + scheduler.AHEAD_SEGMENTS
    heard += list(stream)
    assert np.array_equal(pcm_of(heard), wanted)


def test_the_first_sound_waits_for_one_prompt_only(few: Callable[..., Engine], rows: list[int]) -> None:
    engine = few(8)
    stream = engine.stream(LONG, seed=3, segment_chars=45, max_frames=40)
    next(stream)
    assert rows[0] == 1
    stream.close()  # type: ignore[attr-defined]


# ---- places ----


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_more_calls_than_places_take_turns(
    few: Callable[..., Engine], rows: list[int], plan: Threads
) -> None:
    engine = few(2, plan)
    frames = 3 * scheduler._TURN
    wanted = [engine.synthesize(TEXT, seed=n, max_frames=frames).pcm for n in range(5)]
    rows.clear()
    log: list[int] = []

    def work(n: int) -> Callable[[], Any]:
        return lambda: (
            engine.synthesize(TEXT, seed=n, max_frames=frames, on_frame=lambda count: log.append(n)).pcm
        )

    got = at_once(*map(work, range(5)))
    assert all(np.array_equal(pcm, one) for pcm, one in zip(got, wanted, strict=True))
    assert max(rows) == 2
    for n in range(5):  # nobody is done before all have begun, and nobody waits for more than two rounds
        before = log[: log.index(n)]
        assert all(before.count(other) <= 2 * scheduler._TURN for other in range(5))


def test_a_call_does_not_wait_for_a_large_batch(few: Callable[..., Engine], rows: list[int]) -> None:
    engine = few(3)
    requests = [Request(TEXT, seed=n, max_frames=30) for n in range(8)]
    alone = [engine.batch([request])[0].pcm for request in requests]
    wanted = engine.synthesize("Hello.", seed=1, max_frames=5).pcm
    frames: list[int] = []
    done: list[int] = []

    def small() -> None:
        assert np.array_equal(engine.synthesize("Hello.", seed=1, max_frames=5).pcm, wanted)
        done.append(len(frames))

    thread = threading.Thread(target=small)

    def on_frame(count: int) -> None:
        frames.append(count)
        if count == 2:
            thread.start()

    requests[0] = Request(TEXT, seed=0, max_frames=30, on_frame=on_frame)
    speeches = engine.batch(requests)
    thread.join()
    assert all(np.array_equal(s.pcm, pcm) for s, pcm in zip(speeches, alone, strict=True))
    assert done
    assert done[0] < 30  # before even the first of them was done
    assert max(rows) == 3


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2", None])
def test_impossible_numbers_of_places_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(OptionError, match="max_batch"):
        kazeia.load(tmp_path / "nowhere", max_batch=value)


# ---- one row's trouble ----


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("what", ["talker logits", "code predictor logits"])
@pytest.mark.parametrize("kind", [GenerationError, MemoryError])
def test_an_error_of_one_row_is_its_own(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, plan: Threads, what: str, kind: type
) -> None:
    engine = load_engine("tiny", "q8", plan)
    wanted = [engine.synthesize(TEXT, seed=n, max_frames=12).pcm for n in range(3)]
    mark, error, draws = Sampling(temperature=0.123), kind("the very one"), [0]
    draw = generation.sample

    def sample(logits: Any, history: Any, sampling: Sampling, *rest: Any) -> int:
        if sampling == mark and rest[-1] == what:
            draws[0] += 1
            if draws[0] == 40 if what.startswith("code") else draws[0] == 4:
                raise error
        return draw(logits, history, sampling, *rest)

    monkeypatch.setattr(generation, "sample", sample)
    *got, failed = at_once(
        lambda: engine.synthesize(TEXT, seed=0, max_frames=12).pcm,
        lambda: pcm_of(list(engine.stream(TEXT, seed=1, max_frames=12))),
        lambda: engine.batch([Request(TEXT, seed=2, max_frames=12)])[0].pcm,
        lambda: engine.synthesize(TEXT, seed=3, max_frames=12, sampling=mark, predictor_sampling=mark),
    )
    assert failed is error
    assert all(np.array_equal(pcm, one) for pcm, one in zip(got, wanted, strict=True))


class Mine(Exception):
    pass


class BadEvent:
    """A cancel event that fails when it is asked for the third time."""

    def __init__(self) -> None:
        self.asked = 0

    def is_set(self) -> bool:
        self.asked += 1
        if self.asked == 3:
            raise Mine
        return False


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_callbacks_cancels_and_drops_of_one_call_leave_the_others(
    load_engine: Callable[..., Engine], plan: Threads
) -> None:
    engine = load_engine("tiny", "q8", plan)
    wanted = [engine.synthesize(TEXT, seed=n, max_frames=20).pcm for n in range(2)]
    cancel = threading.Event()

    def fail(count: int) -> None:
        if count == 4:
            raise Mine

    def drop() -> int:
        stream = engine.stream(TEXT, seed=5, max_frames=200, chunk_frames=1)
        return next(stream).index

    one, failed, bad, cancelled, dropped, other = at_once(
        lambda: engine.synthesize(TEXT, seed=0, max_frames=20).pcm,
        lambda: engine.synthesize(TEXT, seed=2, on_frame=fail),
        lambda: engine.synthesize(TEXT, seed=3, cancel=BadEvent()),  # type: ignore[arg-type]
        lambda: engine.synthesize(
            TEXT, seed=4, cancel=cancel, on_frame=lambda count: count == 6 and cancel.set()
        ),
        drop,
        lambda: pcm_of(list(engine.stream(TEXT, seed=1, max_frames=20))),
    )
    assert np.array_equal(one, wanted[0])
    assert np.array_equal(other, wanted[1])
    assert isinstance(failed, Mine)
    assert isinstance(bad, Mine)
    assert cancelled.finish_reason == "cancelled"
    assert 6 <= len(cancelled.codes) <= 7
    assert dropped == 0


def test_a_step_that_fails_ends_the_calls_in_it_and_no_later_one(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kazeia.runtime.talker import Talker

    wanted = tiny.synthesize(TEXT, seed=0, max_frames=8).pcm
    step, error = Talker.step, MemoryError("the very one")

    def fail(self: Talker, state: Any, embeds: Any, held: Any = ()) -> Any:
        if len(embeds) == 2:
            raise error
        return step(self, state, embeds, held)

    with monkeypatch.context() as patch:
        patch.setattr(Talker, "step", fail)
        failed = at_once(*[lambda: tiny.synthesize(TEXT, seed=0, max_frames=20)] * 2)
    assert failed == [error, error]
    assert np.array_equal(tiny.synthesize(TEXT, seed=0, max_frames=8).pcm, wanted)


def test_a_limit_decides_the_same_about_runaways_whatever_comes_first(
    few: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half of the attempts get stuck, by their own first code; whether a segment is begun anew must not
    # depend on how far those before it have come.
    draw = generation.sample

    def sample(logits: Any, history: list[int], *rest: Any) -> int:
        code: int = draw(logits, history, *rest)
        stuck = rest[-1] == "talker logits" and len(history) >= 4 and history[0] % 2
        return 7 if stuck else code

    monkeypatch.setattr(generation, "sample", sample)
    guard = RunawayGuard(window=8, distinct=1, period=0, retries=2)
    engines = [
        few(1, PLANS[1], guard=guard, budget=kazeia.FrameBudget(20, 0.1)),
        few(8, PLANS[0], guard=guard, budget=kazeia.FrameBudget(20, 0.1)),
    ]
    found = set()
    for frames in (None, 11, 12, 30, 36):
        request = Request(LONG, seed=5, segment_chars=45, max_frames=frames)
        company = [request, Request(TEXT, seed=6, max_frames=25)]
        first = engines[0].batch([request])[0]
        found.add(first.finish_reason)
        for engine in engines:
            for speech in (engine.batch([request])[0], engine.batch(company)[0]):
                assert np.array_equal(speech.codes, first.codes), frames
                assert speech.finish_reason == first.finish_reason
    assert found == {"runaway", "limit"}


# ---- soak ----


def test_hundreds_of_tiny_calls_leave_nothing_behind(load_engine: Callable[..., Engine]) -> None:
    engine = load_engine("tiny", "q8", PLANS[0])
    wanted = [engine.synthesize("Hi.", seed=n, max_frames=1 + n % 3).pcm for n in range(6)]
    before = threading.active_count()
    most: list[int] = []
    wrong: list[int] = []

    def work(start: int) -> None:
        for number in range(start, start + 60):
            n = number % 6
            if number % 5 == 0:
                next(engine.stream("Hi.", seed=n, max_frames=50))
            elif number % 2:
                pcm = engine.synthesize("Hi.", seed=n, max_frames=1 + n % 3).pcm
                wrong.extend([] if np.array_equal(pcm, wanted[n]) else [number])
            else:
                pcm = pcm_of(list(engine.stream("Hi.", seed=n, max_frames=1 + n % 3)))
                wrong.extend([] if np.array_equal(pcm, wanted[n]) else [number])
            most.append(threading.active_count())

    threads = [threading.Thread(target=work, args=(60 * t,)) for t in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(most) == 300
    # The five of this test, a decoder for each of them, one generator, and one that is just ending.
    assert max(most) <= before + 5 + 5 + 2
    assert threading.active_count() == before

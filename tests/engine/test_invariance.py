"""Law 2: equal requests give equal samples, bit for bit, whatever goes on around them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kazeia import Request
from kazeia.engine import Engine

QUANTS = ("f32", "q8", "q4")
TEXT = "Four and twenty blackbirds, baked in a pie."
FRAMES = 26

# Texts of many lengths, voices and options: the company that a request may have in a batch.
COMPANY = [
    Request("Hi.", seed=3, max_frames=2),
    Request("An odd one out, with its own voice.", voice="ryan", language="french", seed=4, max_frames=9),
    Request("x" * 70, seed=5, max_frames=31),
    Request("Greedy.", sampling="official", seed=6, max_frames=12),
    Request("Eins, zwei, drei.", language="de", layout="streamed", seed=7, max_frames=40),
    Request("One frame only.", seed=8, max_frames=1),
    Request("And a last one to make it eight.", seed=9, max_frames=17),
]


def solo(engine: Engine, text: str = TEXT, seed: int = 1, **options: object) -> np.ndarray:
    return engine.synthesize(text, seed=seed, max_frames=FRAMES, **options).pcm  # type: ignore[arg-type]


@pytest.fixture(params=QUANTS)
def quant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reference(load_engine: Callable[..., Engine], quant: str) -> np.ndarray:
    """The samples of one request, alone, whole, on one thread."""
    pcm = solo(load_engine("tiny", quant, 1))
    assert len(pcm) == FRAMES * 1920
    assert np.abs(pcm).max() > 0.01
    return pcm


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_threads_do_not_change_a_bit(
    load_engine: Callable[..., Engine], quant: str, reference: np.ndarray, threads: int
) -> None:
    assert np.array_equal(solo(load_engine("tiny", quant, threads)), reference)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_long_prompt(
    load_engine: Callable[..., Engine], quant: str, threads: int
) -> None:
    # Odd numbers of rows beyond a kernel's stride, where a last row may be computed by itself.
    for length in (255, 256, 257, 300):
        options = {"text": "a" * length, "seed": 2, "segment_chars": None}
        assert np.array_equal(
            solo(load_engine("tiny", quant, threads), **options),  # type: ignore[arg-type]
            solo(load_engine("tiny", quant, 1), **options),  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 25, 1000, None])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_put_together_are_the_whole(
    load_engine: Callable[..., Engine], quant: str, reference: np.ndarray, threads: int, chunk: int | None
) -> None:
    engine = load_engine("tiny", quant, threads)
    chunks = list(engine.stream(TEXT, seed=1, max_frames=FRAMES, chunk_frames=chunk))
    sizes = [len(c.pcm) for c in chunks[:-1]]
    assert all(size % 1920 == 0 for size in sizes)
    if chunk is not None:
        assert all(size == chunk * 1920 for size in sizes[:-1])
    assert np.array_equal(np.concatenate([c.pcm for c in chunks]), reference)
    last = chunks[-1]
    assert [c.is_last for c in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [c.index for c in chunks] == list(range(len(chunks)))
    assert last.speech is not None
    assert np.array_equal(last.speech.pcm, reference)
    assert last.speech.seed == last.seed == 1


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_company_does_not_change_a_bit(
    load_engine: Callable[..., Engine], quant: str, reference: np.ndarray, threads: int, size: int
) -> None:
    engine = load_engine("tiny", quant, threads)
    for place in {0, size // 2, size - 1}:
        requests = COMPANY[: size - 1]
        requests.insert(place, Request(TEXT, seed=1, max_frames=FRAMES))
        speeches = engine.batch(requests)
        assert np.array_equal(speeches[place].pcm, reference)
        assert [len(s.codes) for s in speeches] == [r.max_frames for r in requests]


def test_each_of_a_ragged_batch_equals_itself_alone(load_engine: Callable[..., Engine], quant: str) -> None:
    engine = load_engine("tiny", quant, 2)
    # More than may run at once, so that some join when others leave.
    requests = [*COMPANY, Request(TEXT, seed=1, max_frames=FRAMES), *COMPANY[::-1]]
    for request, speech in zip(requests, engine.batch(requests), strict=True):
        alone = engine.batch([request])[0]
        assert np.array_equal(speech.pcm, alone.pcm)
        assert speech.finish_reason == alone.finish_reason


def test_batches_whose_rows_end_by_themselves(load_engine: Callable[..., Engine], quant: str) -> None:
    engine = load_engine("ending", quant, 2)
    requests = [Request(TEXT, seed=seed) for seed in range(11)]
    speeches = engine.batch(requests)
    assert {s.finish_reason for s in speeches} == {"stop"}
    assert len({len(s.codes) for s in speeches}) > 3  # they do leave at different frames
    for request, speech in zip(requests, speeches, strict=True):
        assert np.array_equal(speech.pcm, engine.synthesize(TEXT, seed=request.seed).pcm)


def test_long_texts_in_segments_stream_as_they_speak(load_engine: Callable[..., Engine], quant: str) -> None:
    engine = load_engine("ending", quant, 2)
    text = "This is a sentence. Here is another one! " * 6
    whole = engine.synthesize(text, seed=3, segment_chars=60)
    chunks = list(engine.stream(text, seed=3, segment_chars=60, chunk_frames=3))
    assert np.array_equal(np.concatenate([c.pcm for c in chunks]), whole.pcm)
    assert len(whole.codes) > len(engine.synthesize(text, seed=3).codes)  # one segment ends sooner
    limited = engine.synthesize(text, seed=3, segment_chars=60, max_frames=20)
    assert np.array_equal(limited.codes, whole.codes[:20])
    assert limited.finish_reason == "limit"
    stream = list(engine.stream(text, seed=3, segment_chars=60, max_frames=20))
    assert np.array_equal(np.concatenate([c.pcm for c in stream]), limited.pcm)
    assert stream[-1].speech is not None
    assert stream[-1].speech.finish_reason == "limit"


def test_other_requests_before_or_at_the_same_time(
    load_engine: Callable[..., Engine], quant: str, reference: np.ndarray
) -> None:
    engine = load_engine("tiny", quant, 2)
    engine.synthesize("Something else first.", seed=99, max_frames=7)
    results: dict[int, np.ndarray] = {}

    def speak(number: int) -> None:
        if number % 2:
            results[number] = np.concatenate(
                [c.pcm for c in engine.stream(TEXT, seed=1, max_frames=FRAMES, chunk_frames=number)]
            )
        else:
            results[number] = solo(engine)

    threads = [threading.Thread(target=speak, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert all(np.array_equal(pcm, reference) for pcm in results.values())


def test_another_process_says_the_same(
    checkpoint: Callable[[str], Path], load_engine: Callable[..., Engine]
) -> None:
    program = (
        "import sys, hashlib, kazeia\n"
        "speech = kazeia.load(sys.argv[1], quant='q8').synthesize(sys.argv[2], seed=1, max_frames=26)\n"
        "print(hashlib.sha256(speech.pcm.tobytes()).hexdigest())\n"
    )
    command = [sys.executable, "-c", program, str(checkpoint("tiny")), TEXT]
    digests = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    import hashlib

    ours = hashlib.sha256(solo(load_engine("tiny", "q8", 1)).tobytes()).hexdigest()
    assert digests == {f"{ours}\n".encode()}


@pytest.mark.parametrize("which", ["talker", "predictor"])
def test_both_samplers_follow_the_seed(tiny: Engine, which: str) -> None:
    greedy = tiny.talker_sampling().replace(temperature=0.0)
    options = {"sampling": greedy} if which == "predictor" else {"predictor_sampling": greedy}
    first = tiny.synthesize(TEXT, seed=1, max_frames=5, **options)  # type: ignore[arg-type]
    again = tiny.synthesize(TEXT, seed=1, max_frames=5, **options)  # type: ignore[arg-type]
    other = tiny.synthesize(TEXT, seed=2, max_frames=5, **options)  # type: ignore[arg-type]
    assert np.array_equal(first.codes, again.codes)
    assert not np.array_equal(first.codes, other.codes)


def test_a_missing_seed_is_drawn_and_reported(tiny: Engine) -> None:
    first, second = (tiny.synthesize(TEXT, max_frames=4) for _ in range(2))
    assert first.seed != second.seed
    assert np.array_equal(tiny.synthesize(TEXT, seed=first.seed, max_frames=4).pcm, first.pcm)

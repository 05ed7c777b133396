"""Several segments decoded at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kazeia import Engine, GenerationError, Request, Threads
from kazeia.runtime.codec_decoder import CodecDecoder
from kazeia.runtime.session import BoundCall
from kazeia.runtime.turns import Turns
from patience import no_thread_left  # noqa: F401  a fixture

pytestmark = pytest.mark.usefixtures("no_thread_left")
REQUESTS = [Request("Hello. " * n, seed=n, max_frames=9 + 5 * n) for n in (3, 1, 4, 2)]
PATIENCE = 120  # seconds, for a machine that does other things too


@pytest.mark.parametrize("quant", ["f32", "q8", "q4"])
def test_the_number_of_decoders_changes_no_bit(load_engine: Callable[..., Engine], quant: str) -> None:
    wanted = load_engine("tiny", quant, Threads(1)).batch(REQUESTS)
    for plan in (Threads(1, decoders=2), Threads(2, decoders=7), Threads(1, False, decoders=3)):
        for speech, other in zip(load_engine("tiny", quant, plan).batch(REQUESTS), wanted, strict=True):
            assert np.array_equal(speech.pcm, other.pcm)
            assert np.array_equal(speech.codes, other.codes)
            assert speech.timings.decoder_s > 0


@pytest.mark.parametrize(("decoders", "requests"), [(2, 4), (3, 4), (4, 2)])
def test_they_are_at_work_at_the_same_time(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, decoders: int, requests: int
) -> None:
    expected = min(decoders, requests)
    meeting = threading.Barrier(expected)
    met: list[int] = []
    decode = CodecDecoder.decode
    lock, inside, most = threading.Lock(), 0, 0

    def watched(self: CodecDecoder, codes: Any, state: Any = None) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if not met:
            meeting.wait(PATIENCE)  # broken, and so an error, unless as many come
            met.append(1)
        try:
            return decode(self, codes, state)
        finally:
            with lock:
                inside -= 1

    engine = load_engine("tiny", "f32", Threads(1, decoders=decoders))
    monkeypatch.setattr(CodecDecoder, "decode", watched)
    engine.batch(REQUESTS[:requests])
    assert most == expected  # never more


def test_what_goes_wrong_in_one_of_them_is_the_callers(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load_engine("tiny", "f32", Threads(1, decoders=2))
    wanted = engine.batch(REQUESTS)
    decode = CodecDecoder.decode
    with monkeypatch.context() as patch:

        def broken(self: CodecDecoder, codes: Any, state: Any = None) -> Any:
            if threading.current_thread() is threading.main_thread():
                return decode(self, codes, state)
            raise GenerationError("a decoder broke")

        patch.setattr(CodecDecoder, "decode", broken)
        with pytest.raises(GenerationError, match="a decoder broke"):
            engine.batch(REQUESTS)
    for speech, other in zip(engine.batch(REQUESTS), wanted, strict=True):
        assert np.array_equal(speech.pcm, other.pcm)


def test_streams_take_turns_at_the_decoder(
    load_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load_engine("tiny", "f32", Threads(1))
    wanted = [engine.synthesize("Hello.", seed=seed, max_frames=12).pcm for seed in range(6)]
    lock, inside, most = threading.Lock(), 0, 0
    run = BoundCall.run

    def watched(self: BoundCall) -> None:
        nonlocal inside, most
        decoding = "pcm" in self._arrays[1]
        with lock:
            inside += decoding
            most = max(most, inside)
        run(self)
        with lock:
            inside -= decoding

    monkeypatch.setattr(BoundCall, "run", watched)
    decoder = engine._open().decoder
    monkeypatch.setattr(decoder, "_turn", Turns(2))
    found: dict[int, np.ndarray] = {}

    def listen(seed: int) -> None:
        found[seed] = np.concatenate([c.pcm for c in engine.stream("Hello.", seed=seed, max_frames=12)])

    listeners = [threading.Thread(target=listen, args=(seed,)) for seed in range(6)]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join(PATIENCE)
    assert 1 <= most <= 2
    assert all(np.array_equal(found[seed], pcm) for seed, pcm in enumerate(wanted))

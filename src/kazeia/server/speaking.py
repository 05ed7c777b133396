"""From a request to chunks of audio: a slot, a worker thread, and every way to be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kazeia.audio.stretch import TimeStretch
from kazeia.engine import Engine
from kazeia.random import draw_seed
from kazeia.sampling import Sampling
from kazeia.server.admission import Admission
from kazeia.server.errors import ApiError, unavailable
from kazeia.server.metrics import Metrics
from kazeia.speech import Speech
from kazeia.text.pauses import total_pause

_BUFFER = 32  # chunks that a slow reader may lie behind before generation waits for it
_MOST_SAMPLES = 16_384  # of a piece
_POLL_S = 0.05

MOST_PAUSES_S = 300.0
"""Seconds of all pauses in a text: without a limit, one of 4 kB could be five hours of silence."""


@dataclass(frozen=True)
class Order:
    """What to say and how, checked and resolved; the voice is one of the model's."""

    text: str
    voice: str
    language: str | None = "auto"
    instruct: str | None = None
    seed: int = field(default_factory=draw_seed)
    speed: float = 1.0
    sampling: dict[str, Any] = field(default_factory=dict)
    """Changes to the talker's settings."""
    predictor_sampling: dict[str, Any] = field(default_factory=dict)
    """Changes to the code predictor's."""
    max_frames: int | None = None

    def arguments(self, engine: Engine) -> dict[str, Any]:
        """The keyword arguments of `Engine.stream`."""
        return {
            "voice": self.voice,
            "language": self.language,
            "instruct": self.instruct,
            "seed": self.seed,
            "sampling": _changed(engine.talker_sampling(), self.sampling),
            "predictor_sampling": _changed(engine.predictor_sampling(), self.predictor_sampling),
            "max_frames": self.max_frames,
        }


def _changed(settings: Sampling, changes: dict[str, Any]) -> Sampling | None:
    return settings.replace(**changes) if changes else None


@dataclass(frozen=True)
class Piece:
    """Audio as it comes, at the speed asked for; with the last piece the whole speech, as it was before."""

    pcm: NDArray[np.float32]
    speech: Speech | None = None


class Speaker:
    """Speaks orders, some at the same time, the others in turn."""

    def __init__(
        self, engine: Engine, metrics: Metrics, *, slots: int, max_waiting: int, time_limit_s: float
    ) -> None:
        self.engine = engine
        self.metrics = metrics
        self.admission = Admission(slots, max_waiting)
        self.time_limit_s = time_limit_s
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="kazeia-speak")
        self._takes: set[Take] = set()
        metrics.watch(lambda: self.admission.running, lambda: self.admission.waiting)

    def take(self, order: Order, *, whole: bool = False) -> Take:
        """The order's turn; nothing happens before it is entered with `async with`.

        whole: nobody listens before the end, so the audio comes as one piece, and the engine may
        begin a speech anew that went astray.
        """
        return Take(self, order, whole)

    async def close(self) -> None:
        """Stop all that still speaks, and let go of the threads."""
        self.admission.close()
        for take in list(self._takes):
            take.cancel("shutdown")
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)


class Take:
    """One order being spoken. Use `async with`, then iterate over `pieces` once.

    Entering waits for a slot and may raise ApiError; leaving stops what still runs and waits until
    the worker thread has let go, which takes the engine a frame.
    """

    def __init__(self, speaker: Speaker, order: Order, whole: bool) -> None:
        self.order = order
        self.whole = whole
        self.queue_s = 0.0
        """Seconds spent waiting for a slot."""
        self.first_audio_s = 0.0
        """Seconds from the start to the first samples."""
        self.stopped_by: str | None = None
        """Why it was cancelled, if it was."""
        self._speaker = speaker
        self._signal = _Signal()
        self._results: asyncio.Queue[Piece | BaseException] = asyncio.Queue()
        self._room = threading.Semaphore(_BUFFER)
        self._started = time.perf_counter()
        self._entering: asyncio.Task[float] | None = None
        self._working: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._stop = asyncio.Event()

    def cancel(self, reason: str) -> None:
        """Stop it: waiting ends at once, generating within a frame. The first reason is the one kept."""
        if self.stopped_by is not None or self._ended:
            return
        self.stopped_by = reason
        self._signal.stop(reason)
        self._stop.set()
        if self._entering is not None:
            self._entering.cancel()
        self._results.put_nowait(Stopped(reason))

    async def __aenter__(self) -> Take:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._speaker.time_limit_s, self.cancel, "time_limit")
        self._entering = asyncio.ensure_future(self._speaker.admission.enter())
        try:
            self.queue_s = await self._entering
        except asyncio.CancelledError:
            self._timer.cancel()
            if self.stopped_by is None:
                self._entering.cancel()
                raise  # the whole request was cancelled, not this take
            self._speaker.metrics.cancellations.labels(self.stopped_by).inc()
            raise self._refusal() from None
        except BaseException:
            self._timer.cancel()
            raise
        self._entering = None
        self._speaker.metrics.queue_time.observe(self.queue_s)
        self._speaker._takes.add(self)
        self._working = loop.run_in_executor(self._speaker._threads, self._work, loop)
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        assert self._timer is not None
        assert self._working is not None
        self._timer.cancel()
        self.cancel("abandoned")
        try:
            await asyncio.shield(self._working)
        except asyncio.CancelledError:
            self.cancel("shutdown")
            raise
        finally:
            self._speaker._takes.discard(self)
            self._working.add_done_callback(self._leave)

    def _leave(self, _: object) -> None:
        self._speaker.admission.leave(time.perf_counter() - self._started - self.queue_s)
        if self.stopped_by is not None:
            self._speaker.metrics.cancellations.labels(self.stopped_by).inc()

    async def pieces(self) -> AsyncIterator[Piece]:
        """The audio as it is made; the last piece carries the speech.

        Raises the library's errors, and `Stopped` when the take was cancelled.
        """
        first = True
        while True:
            result = await self._results.get()
            if isinstance(result, BaseException):
                self._ended = True
                raise result
            self._room.release()
            if first:
                self.first_audio_s = time.perf_counter() - self._started
                self._speaker.metrics.first_audio.observe(self.first_audio_s)
                first = False
            if result.speech is not None:
                self._ended = True
                self._speaker.metrics.spoken(result.speech.timings, result.speech.finish_reason)
                yield result
                return
            yield result

    async def deliver(self, sending: Awaitable[None]) -> None:
        """Await the sending of a piece; raise `Stopped` when the take is stopped meanwhile.

        A client that takes no more would otherwise keep its slot for ever.
        """
        tasks = [asyncio.ensure_future(sending), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise Stopped(self.stopped_by or "")
            tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()

    def _refusal(self) -> ApiError:
        return Stopped(self.stopped_by or "").refusal(self._speaker.time_limit_s)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a worker thread: ask the engine for chunks and hand them over."""
        engine = self._speaker.engine
        try:
            self._signal.is_set()
            _check_pauses(self.order.text)
            asked = {"cancel": self._signal, **self.order.arguments(engine)}
            stretch = TimeStretch(self.order.speed, engine.sample_rate)
            if self.whole:
                speech = engine.synthesize(self.order.text, **asked)
                parts = [stretch.push(pcm) for pcm in self._cut(speech.pcm)]
                _tell(loop, self._results, Piece(np.concatenate([*parts, stretch.finish()]), speech))
                return
            chunks = engine.stream(self.order.text, **asked)
            with contextlib.closing(chunks):  # type: ignore[type-var]  # a generator, though typed as less
                for chunk in chunks:
                    for pcm in self._cut(chunk.pcm):
                        self._wait_for_room()
                        _tell(loop, self._results, Piece(stretch.push(pcm)))
                    if chunk.speech is not None:
                        _tell(loop, self._results, Piece(stretch.finish(), chunk.speech))
        except BaseException as error:
            _tell(loop, self._results, error)

    def _cut(self, pcm: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """A chunk in pieces of bounded length, for a pause in the text is one chunk. Raises Stopped."""
        for start in range(0, len(pcm), _MOST_SAMPLES):
            self._signal.is_set()
            yield pcm[start : start + _MOST_SAMPLES]

    def _wait_for_room(self) -> None:
        """Wait while the reader lies too far behind. Raises Stopped."""
        while not self._signal.is_set() and not self._room.acquire(timeout=_POLL_S):
            pass


class _Signal(threading.Event):
    """Tells the engine to stop, by raising `Stopped`: what it has made nobody will hear, decoded or not."""

    def __init__(self) -> None:
        super().__init__()
        self._reason = ""

    def stop(self, reason: str) -> None:
        """From now on, raise."""
        self._reason = reason
        self.set()

    def is_set(self) -> bool:
        """False. Raises Stopped after `stop`."""
        if super().is_set():
            raise Stopped(self._reason)
        return False


def _check_pauses(text: str) -> None:
    """Raise TextError or ApiError unless the pauses written in a text are of a bearable length."""
    total = total_pause(text) / 1000
    if total > MOST_PAUSES_S:
        raise ApiError(
            422,
            f"the pauses in the text last {total:g} s in all; at most {MOST_PAUSES_S:g} s are kept at once",
            code="pauses_too_long",
            param="input",
        )


class Stopped(Exception):
    """A take that was cancelled before its end."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped: {reason}")
        self.reason = reason

    def refusal(self, time_limit_s: float) -> ApiError:
        """What the client is told, where it still can be."""
        if self.reason == "time_limit":
            return unavailable(
                f"the request took longer than {time_limit_s:g} seconds and was stopped; "
                "send less text, or try again when the server is less busy",
                "time_limit",
                time_limit_s,
            )
        if self.reason == "shutdown":
            return unavailable("the server is shutting down", "shutting_down", 10)
        return unavailable("the request was stopped", self.reason, 1)


def _tell(loop: asyncio.AbstractEventLoop, results: asyncio.Queue[Any], result: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
        loop.call_soon_threadsafe(results.put_nowait, result)

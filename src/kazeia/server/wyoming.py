"""The Wyoming protocol of Home Assistant, on a port of its own, streaming synthesis included.

Events are lines of JSON, with data and payload behind them; https://github.com/OHF-Voice/wyoming.
A text comes whole (`synthesize`) or while it is written (`synthesize-start`, `-chunk`, `-stop`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import warnings
from dataclasses import dataclass, replace
from typing import Any

from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event
from wyoming.info import Attribution, Info, TtsProgram, TtsVoice
from wyoming.ping import Pong
from wyoming.tts import SynthesizeStopped

from kazeia._version import __version__
from kazeia.audio.wav import pcm_bytes
from kazeia.errors import InputError, KazeiaError
from kazeia.random import draw_seed
from kazeia.server.errors import ApiError, from_library
from kazeia.server.fields import read_json
from kazeia.server.speaking import Order, Stopped, Take
from kazeia.server.state import ServerState
from kazeia.server.voices import choose_voice
from kazeia.server.waiting import Waiting
from kazeia.text.clean import check_encoding, check_text
from kazeia.text.feed import TextFeed
from kazeia.text.languages import language_code, resolve_language

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of audioop, which it does not need here
    from wyoming.audio import AudioChunk, AudioStart, AudioStop

log = logging.getLogger("kazeia.server")

_MAX_SESSIONS = 64
_MAX_ANSWERS = 64  # that a client has asked for and not read
_ATTRIBUTION = Attribution("Kazeia", "")


class WyomingServer:
    """Listens for Wyoming clients; one session for each connection."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._server: asyncio.Server | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._sessions: dict[asyncio.Task[None], WyomingSession] = {}

    async def start(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound already."""
        self._server = await asyncio.start_server(
            self._session, sock=sock, limit=self._state.settings.max_body_bytes
        )
        if self._state.settings.wyoming_announce:
            from kazeia.server.announce import Announcement, announced

            port: int = sock.getsockname()[1]
            announcement = Announcement(self._state.settings.host, port)
            self._announcing = asyncio.ensure_future(announced(announcement))

    async def close(self, grace_s: float) -> None:
        """Let nobody in any more, those who are being heard finish within `grace_s`, and end."""
        if self._server is None:
            return
        self._server.close()
        if self._announcing is not None:
            self._announcing.cancel()
            await asyncio.gather(self._announcing, return_exceptions=True)
        busy = [task for task, session in self._sessions.items() if session.busy]
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        left = list(self._sessions)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        outcome = "done"
        try:
            if len(self._sessions) >= _MAX_SESSIONS:
                raise ApiError(503, f"{_MAX_SESSIONS} clients are connected already", code="busy")
            self._sessions[task] = session = WyomingSession(self._state, reader, writer)
            await session.run()
        except (OSError, asyncio.IncompleteReadError):
            outcome = "cancelled"
        except asyncio.CancelledError:
            outcome = "cancelled"
        except ApiError as refusal:
            outcome = "failed"
            with contextlib.suppress(OSError):
                await async_write_event(Error(refusal.message, refusal.code).event(), writer)
        except Exception:
            outcome = "failed"
            log.exception("a Wyoming session failed")
        finally:
            self._sessions.pop(task, None)
            self._state.metrics.requests.labels("wyoming", outcome).inc()
            writer.close()


@dataclass(frozen=True)
class _Segment:
    order: Order
    streaming: bool  # of a text that is still being written: one audio-start for all its segments


@dataclass(frozen=True)
class _Reply:
    event: Event


class _StreamEnd:
    pass


class WyomingSession:
    """One connection: its events in turn, and what is being spoken for it."""

    def __init__(
        self, state: ServerState, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._queue = Waiting[_Segment | _Reply | _StreamEnd]()
        self._take: Take | None = None
        self._feed: TextFeed | None = None  # while a text is being written
        self._order = Order("", state.engine.voices[0])
        self._audio_started = False
        self._working = False

    @property
    def busy(self) -> bool:
        """Whether something is being spoken or waits for it."""
        return self._working or len(self._queue) > 0

    async def run(self) -> None:
        """Serve until the client leaves, or says nothing for too long."""
        reading = asyncio.ensure_future(self._read())
        speaking = asyncio.ensure_future(self._speak())
        try:
            await asyncio.wait({reading, speaking}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, speaking):
                if task.done():
                    task.result()
        finally:
            for task in (reading, speaking):
                task.cancel()
            if self._take is not None:
                self._take.cancel("disconnect")
            await asyncio.gather(reading, speaking, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            try:
                event = await asyncio.wait_for(
                    read_event(self._reader, self._state.settings.max_body_bytes),
                    self._state.settings.time_limit_s,
                )
            except asyncio.TimeoutError:
                if self.busy and self._reader.exception() is None:  # which may be a timeout of the network's
                    continue
                return
            if event is None:
                return
            if sum(not isinstance(item, _Segment) for item in self._queue) >= _MAX_ANSWERS:
                raise ApiError(429, f"{_MAX_ANSWERS} answers wait to be read", code="too_many_events")
            try:
                await self._act(event)
            except ApiError as refusal:
                self._feed = None
                self._queue.put(_Reply(Error(refusal.message, refusal.code).event()))

    async def _act(self, event: Event) -> None:
        if event.type == "describe":
            self._queue.put(_Reply(describe(self._state).event()))
        elif event.type == "ping":
            self._queue.put(_Reply(Pong(text=event.data.get("text")).event()))
        elif event.type == "synthesize":
            if self._feed is None:  # else it repeats, for older servers, what came in pieces
                text = _text(event)
                order = self._read_order(event)
                try:
                    check_text(text)
                except InputError as error:
                    raise from_library(error) from None
                self._check_room(text)
                self._queue.put(_Segment(replace(order, text=text), streaming=False))
        elif event.type == "synthesize-start":
            self._order, self._feed = self._read_order(event), TextFeed()
        elif event.type == "synthesize-chunk" and self._feed is not None:
            text = _text(event)
            self._check_room(text)
            try:
                pieces = await asyncio.to_thread(self._feed.push, text)
            except InputError as error:
                raise from_library(error) from None
            self._queue.put(*(_Segment(replace(self._order, text=piece), streaming=True) for piece in pieces))
        elif event.type == "synthesize-stop" and self._feed is not None:
            rest = self._feed.flush()
            self._feed = None
            self._queue.put(*(_Segment(replace(self._order, text=piece), streaming=True) for piece in rest))
            self._queue.put(_StreamEnd())

    def _read_order(self, event: Event) -> Order:
        voice = event.data.get("voice") or {}
        if not isinstance(voice, dict):
            raise ApiError(400, "voice is no object", code="invalid_type")
        engine = self._state.engine
        name = voice.get("speaker") or voice.get("name")
        if name is not None and not isinstance(name, str):
            raise ApiError(400, "the voice's name is no string", code="invalid_type")
        try:
            return Order(
                "",
                engine.voices[0] if name is None else choose_voice(name, engine.voices),
                resolve_language(voice.get("language") or "auto", engine.languages),
                seed=draw_seed(),
            )
        except InputError as error:
            raise from_library(error) from None

    def _check_room(self, text: str) -> None:
        waiting = sum(len(s.order.text) for s in self._queue if isinstance(s, _Segment))
        waiting += len(self._feed.pending) if self._feed is not None else 0
        limit = self._state.settings.max_text_chars
        if waiting + len(text) > limit:
            raise ApiError(400, f"more than {limit} characters wait to be spoken", code="text_too_long")

    async def _speak(self) -> None:
        while True:
            item = await self._queue.take()
            self._working = True
            if isinstance(item, _Reply):
                await async_write_event(item.event, self._writer)
            elif isinstance(item, _StreamEnd):
                await self._end_audio()
                await self._write(SynthesizeStopped())
            else:
                try:
                    await self._speak_segment(item.order)
                except (ApiError, Stopped, KazeiaError) as error:
                    refusal = self._refusal(error)
                    await self._write(Error(refusal.message, refusal.code))
                if not item.streaming:
                    await self._end_audio()
            self._working = False

    def _refusal(self, error: Exception) -> ApiError:
        if isinstance(error, Stopped):
            return error.refusal(self._state.settings.time_limit_s)
        return from_library(error)

    async def _speak_segment(self, order: Order) -> None:
        rate = self._state.engine.sample_rate
        take = self._take = self._state.speaker.take(order)
        try:
            async with take:
                async for piece in take.pieces():
                    if not self._audio_started:
                        self._audio_started = True
                        await self._write(AudioStart(rate=rate, width=2, channels=1))
                    if len(piece.pcm):
                        audio = pcm_bytes(piece.pcm)
                        chunk = AudioChunk(rate=rate, width=2, channels=1, audio=audio)
                        await take.deliver(self._write(chunk))
        finally:
            self._take = None

    async def _end_audio(self) -> None:
        if self._audio_started:
            self._audio_started = False
            await self._write(AudioStop())

    async def _write(self, event: Eventable) -> None:
        await async_write_event(event.event(), self._writer)


def describe(state: ServerState) -> Info:
    """What Home Assistant asks first: the voices and their languages (as codes, where they have one)."""
    languages = [language_code(name) or name for name in state.engine.languages]
    common: dict[str, Any] = {"attribution": _ATTRIBUTION, "installed": True, "version": __version__}
    voices = [
        TtsVoice(name=name, description=name, languages=languages, **common) for name in state.engine.voices
    ]
    program = TtsProgram(
        name="kazeia",
        description=f"Kazeia, {state.model_id}",
        voices=voices,
        supports_synthesize_streaming=True,
        **common,
    )
    return Info(tts=[program])


async def read_event(reader: asyncio.StreamReader, limit: int) -> Event | None:
    """The next event, None at the end. Raises ApiError for what is none, or holds more than `limit` bytes.

    The protocol's own reader believes any length that a client names.
    """
    try:
        line = await reader.readline()
    except ValueError:
        raise _too_large(limit) from None
    if not line:
        return None
    head = _object(line)
    lengths = [head.get(name) or 0 for name in ("data_length", "payload_length")]
    if not all(type(length) is int and length >= 0 for length in lengths):
        raise ApiError(400, "an event's length is no number", code="invalid_event")
    if sum(lengths) > limit:
        raise _too_large(limit)
    data = head.get("data")
    data = {} if data is None else data
    if lengths[0]:
        more = _object(await reader.readexactly(lengths[0]))
        data = {**data, **more} if isinstance(data, dict) else more
    if lengths[1]:
        await reader.readexactly(lengths[1])  # no event that is known here has one
    if not isinstance(head.get("type"), str) or not isinstance(data, dict):
        raise ApiError(400, "an event has no type, or data that is no object", code="invalid_event")
    return Event(type=head["type"], data=data)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"an event holds more than {limit} bytes", code="event_too_large")


def _object(text: bytes) -> dict[str, Any]:
    found = read_json(text)
    try:
        check_encoding(json.dumps(found, ensure_ascii=False))  # parts of it are sent back
    except InputError:
        raise ApiError(
            400, "an event holds a lone surrogate, which is no character", code="invalid_event"
        ) from None
    return found


def _text(event: Event) -> str:
    text = event.data.get("text")
    if not isinstance(text, str):
        raise ApiError(400, f"{event.type}: the text is missing, or no string", code="invalid_type")
    return text

"""`/v1/audio/stream`: text goes in while it is written, audio comes out while it is made.

The client sends JSON messages: `start` (once, first), `text`, `flush`, `interrupt`, `end`. The server
answers with JSON events and, between a `segment.start` and its `segment.end`, audio in binary messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from kazeia.audio.encode import FORMATS, stream_encoder
from kazeia.server.errors import ApiError, from_library
from kazeia.server.fields import Field, read_fields, read_json, speech_fields
from kazeia.server.kinds import choice
from kazeia.server.orders import read_order
from kazeia.server.speaking import Order, Stopped, Take
from kazeia.server.state import ServerState
from kazeia.server.waiting import Waiting
from kazeia.text.feed import TextFeed

log = logging.getLogger("kazeia.server")

_LEFT_OUT = ("input", "stream", "stream_format", "response_format")
_OPTIONAL = ("model", "voice")  # a conversation may leave both to the server


def start_fields(state: ServerState) -> tuple[Field, ...]:
    """The fields of a `start` message: those of a request to speak, but for the text and the form."""
    fields = speech_fields(state.settings.max_text_chars)
    return (
        Field("response_format", choice(*FORMATS), "The audio's format.", "pcm"),
        *(
            replace(field, required=False) if field.name in _OPTIONAL else field
            for field in fields
            if field.name not in _LEFT_OUT
        ),
    )


def websocket_routes(state: ServerState) -> list[WebSocketRoute]:
    """The WebSocket's route."""
    return [WebSocketRoute("/v1/audio/stream", partial(_converse, state))]


async def _converse(state: ServerState, socket: WebSocket) -> None:
    await socket.accept()
    outcome = "done"
    try:
        await Conversation(state, socket).run()
    except WebSocketDisconnect:
        outcome = "cancelled"
    except ApiError as refusal:
        outcome = "failed"
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_json({"type": "error"} | refusal.body())
            await socket.close(1008, refusal.code)
    finally:
        state.metrics.requests.labels("websocket", outcome).inc()


@dataclass(frozen=True)
class _Segment:
    text: str


_INTERRUPTED = object()
_END = object()


class Conversation:
    """One client, its text that was not spoken yet, and what is being spoken."""

    def __init__(self, state: ServerState, socket: WebSocket) -> None:
        self._state = state
        self._socket = socket
        self._feed = TextFeed()
        self._queue = Waiting[Any]()  # segments and marks
        self._take: Take | None = None
        self._index = 0
        self._order: Order
        self._format = "pcm"
        self._ended = False

    async def run(self) -> None:
        """Talk until the client ends, leaves, or does not keep to the contract before it has started."""
        await self._start()
        reading = asyncio.ensure_future(self._read())
        speaking = asyncio.ensure_future(self._speak())
        try:
            await asyncio.wait({reading, speaking}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()  # raises: the client has left, or is silent for too long
            await speaking
        finally:
            for task in (reading, speaking):
                task.cancel()
            if self._take is not None:
                self._take.cancel("disconnect")
            await asyncio.gather(reading, speaking, return_exceptions=True)
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.close(1000)

    async def _start(self) -> None:
        message = await self._receive()
        if message.pop("type", None) != "start":
            raise ApiError(400, 'the first message must be {"type": "start", …}', code="not_started")
        values = read_fields(message, start_fields(self._state))
        self._format = values.pop("response_format")
        values["model"] = values["model"] or self._state.model_id
        values["voice"] = values["voice"] or self._state.engine.voices[0]
        self._order = read_order(self._state, values, None)
        await self._send(
            "ready",
            model=self._state.model_id,
            voice=self._order.voice,
            seed=self._order.seed,
            response_format=self._format,
            sample_rate=self._state.engine.sample_rate,
        )

    async def _receive(self) -> dict[str, Any]:
        """The next message. Raises ApiError for what is none, or when nothing comes for too long."""
        limit = self._state.settings.time_limit_s
        try:
            message = await asyncio.wait_for(self._socket.receive(), limit)
        except asyncio.TimeoutError:
            raise ApiError(408, f"no message within {limit:g} s", code="idle") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
        text = message.get("text")
        if text is None:
            raise ApiError(400, "a binary message came; expected JSON in a text message", code="invalid_json")
        return read_json(text.encode("utf-8", "surrogatepass"))

    async def _read(self) -> None:
        """Take messages until all is said; a wrong one is answered with an error and forgotten."""
        while True:
            try:
                await self._act(await self._receive())
            except ApiError as refusal:
                if refusal.code == "idle":
                    if self._take is not None or self._queue:
                        continue  # the client listens
                    raise
                await self._socket.send_json({"type": "error"} | refusal.body())

    async def _act(self, message: dict[str, Any]) -> None:
        kind = message.pop("type", None)
        if self._ended and kind != "interrupt":
            raise ApiError(400, "the end was sent before; only interrupt may follow it", code="ended")
        if kind == "text":
            await self._add_text(message)
        elif kind in ("flush", "interrupt", "end"):
            if message:
                raise ApiError(400, f"{kind} has no other fields", code="unknown_parameter")
            if kind == "interrupt":
                self._interrupt()
            else:
                self._queue.put(*map(_Segment, self._feed.flush()))
                self._ended = kind == "end"
                if self._ended:
                    self._queue.put(_END)
        else:
            raise ApiError(
                400, "the type must be text, flush, interrupt or end", code="invalid_value", param="type"
            )

    async def _add_text(self, message: dict[str, Any]) -> None:
        if set(message) != {"text"} or not isinstance(message["text"], str):
            raise ApiError(
                400, 'expected {"type": "text", "text": a string}', code="invalid_value", param="text"
            )
        waiting = sum(len(s.text) for s in self._queue if isinstance(s, _Segment))
        limit = self._state.settings.max_text_chars
        if waiting + len(self._feed.pending) + len(message["text"]) > limit:
            raise ApiError(
                400,
                f"more than {limit} characters wait to be spoken; this text was not taken",
                code="string_above_max_length",
                param="text",
            )
        try:
            # Aside, for text made to be hard to cut may take a second, and others want to be heard.
            pieces = await asyncio.to_thread(self._feed.push, message["text"])
        except ValueError as error:
            raise from_library(error) from None
        self._queue.put(*map(_Segment, pieces))

    def _interrupt(self) -> None:
        self._feed.clear()
        self._queue.clear()
        if self._take is not None:
            self._take.cancel("interrupted")
        self._queue.put(_INTERRUPTED, *([_END] if self._ended else []))

    async def _speak(self) -> None:
        """Serve the queue: the only one who sends audio, so that nothing of it follows an interruption."""
        while True:
            item = await self._queue.take()
            if item is _END:
                await self._send("done")
                return
            if item is _INTERRUPTED:
                await self._send("interrupted")
            else:
                await self._speak_segment(item)

    async def _speak_segment(self, segment: _Segment) -> None:
        index, self._index = self._index, self._index + 1
        await self._send("segment.start", index=index, text=segment.text)
        # A new generator of random numbers for each: a segment sounds as it would alone.
        take = self._take = self._state.speaker.take(replace(self._order, text=segment.text))
        encoder = stream_encoder(self._format, self._state.engine.sample_rate)
        reason, timings = "stop", {}
        try:
            async with take:
                async for piece in take.pieces():
                    data = encoder.encode(piece.pcm)
                    if piece.speech is not None:
                        data += encoder.finish()
                        reason = piece.speech.finish_reason
                        timings = {
                            "frames": piece.speech.timings.frames,
                            "first_audio_ms": round(1000 * take.first_audio_s),
                            "total_ms": round(1000 * piece.speech.timings.total_s),
                        }
                    if data and take.stopped_by is None:
                        await take.deliver(self._socket.send_bytes(data))
        except Exception as error:
            if isinstance(error, WebSocketDisconnect):
                raise
            interrupted = take.stopped_by == "interrupted"
            reason = "interrupted" if interrupted else "error"
            if not interrupted:
                await self._socket.send_json({"type": "error", "index": index} | self._refusal(error).body())
        finally:
            self._take = None
            encoder.close()
        await self._send("segment.end", index=index, finish_reason=reason, **timings)

    def _refusal(self, error: Exception) -> ApiError:
        if isinstance(error, Stopped):
            return error.refusal(self._state.settings.time_limit_s)
        return from_library(error)

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._socket.send_json(
            {"type": kind} | {name: value for name, value in fields.items() if value is not None}
        )

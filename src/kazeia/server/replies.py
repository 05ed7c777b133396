"""The reply to a request to speak: audio or events while they are made, or one complete file."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kazeia.audio.encode import audio_format, encode_whole, stream_encoder
from kazeia.server.errors import ApiError, from_library
from kazeia.server.speaking import Order, Speaker, Stopped, Take
from kazeia.speech import Speech


@dataclass(frozen=True)
class Delivery:
    """How the audio is to be sent."""

    format: str = "mp3"
    """A name of `kazeia.audio.encode.FORMATS`."""
    events: bool = False
    """Server-sent events instead of bare audio."""
    whole: bool = False
    """One complete file with its length, instead of a stream."""


class SpeechReply(Response):
    """Speaks while it is being sent; stops within a frame when the client goes away."""

    def __init__(self, speaker: Speaker, order: Order, delivery: Delivery) -> None:
        super().__init__()
        self._speaker = speaker
        self._order = order
        self._delivery = delivery
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        take = self._speaker.take(self._order, whole=self._delivery.whole)
        watching = asyncio.ensure_future(_watch(receive, take))
        try:
            async with take:
                deliver = self._send_whole if self._delivery.whole else self._send_stream
                await deliver(take, send)
        except Exception as error:
            refusal = self._refusal(error)
            if take.stopped_by == "disconnect":
                return
            if not self._started:
                await refusal.response()(scope, receive, send)
            elif self._delivery.events:
                await send({"type": "http.response.body", "body": _event("error", refusal.body())})
            # Else the reply is left incomplete: the connection is closed without its end.
        finally:
            watching.cancel()

    def _refusal(self, error: Exception) -> ApiError:
        if isinstance(error, Stopped):
            return error.refusal(self._speaker.time_limit_s)
        return from_library(error)

    async def _send_whole(self, take: Take, send: Send) -> None:
        parts, speech = [], None
        async for piece in take.pieces():
            parts.append(piece.pcm)
            speech = piece.speech
        assert speech is not None  # it comes with the last piece
        pcm, name = np.concatenate(parts), self._delivery.format
        body = await asyncio.to_thread(encode_whole, name, pcm, self._speaker.engine.sample_rate)
        headers = self._reply_headers(take) | {
            "Content-Length": str(len(body)),
            "X-Kazeia-Finish-Reason": speech.finish_reason,
            "X-Kazeia-Frames": str(speech.timings.frames),
            "X-Kazeia-Audio-Ms": str(round(1000 * len(pcm) / self._speaker.engine.sample_rate)),
            "X-Kazeia-Total-Ms": _ms(speech.timings.total_s),
        }
        await self._start(send, headers)
        await send({"type": "http.response.body", "body": body})

    async def _send_stream(self, take: Take, send: Send) -> None:
        async with aclosing(self._events(take) if self._delivery.events else self._audio(take)) as body:
            async for data in body:
                if not self._started:
                    await self._start(send, self._reply_headers(take))
                await take.deliver(send({"type": "http.response.body", "body": data, "more_body": True}))
        if not self._started:  # no audio at all
            await self._start(send, self._reply_headers(take))
        await send({"type": "http.response.body", "body": b""})

    async def _start(self, send: Send, headers: dict[str, str]) -> None:
        self._started = True
        raw = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    def _reply_headers(self, take: Take) -> dict[str, str]:
        media_type = audio_format(self._delivery.format).media_type
        headers = {
            "Content-Type": media_type.format(rate=self._speaker.engine.sample_rate),
            "Cache-Control": "no-store",
            "X-Kazeia-Seed": str(self._order.seed),
            "X-Kazeia-Voice": quote(self._order.voice),
            "X-Kazeia-Sample-Rate": str(self._speaker.engine.sample_rate),
            "X-Kazeia-Queue-Ms": _ms(take.queue_s),
            "X-Kazeia-First-Audio-Ms": _ms(take.first_audio_s),
        }
        if self._delivery.events:
            headers |= {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        return headers

    async def _audio(self, take: Take) -> AsyncGenerator[bytes, None]:
        """The encoded audio; an item may be empty, which tells that sound has begun."""
        encoder = stream_encoder(self._delivery.format, self._speaker.engine.sample_rate)
        try:
            async for piece in take.pieces():
                yield encoder.encode(piece.pcm)
                if piece.speech is not None:
                    yield encoder.finish()
        finally:
            encoder.close()

    async def _events(self, take: Take) -> AsyncGenerator[bytes, None]:
        encoder = stream_encoder(self._delivery.format, self._speaker.engine.sample_rate)
        try:
            async for piece in take.pieces():
                data = encoder.encode(piece.pcm)
                if piece.speech is not None:
                    data += encoder.finish()
                yield _delta(data) if data else b""
                if piece.speech is not None:
                    yield _event("speech.audio.done", self._summary(piece.speech, take))
        finally:
            encoder.close()

    def _summary(self, speech: Speech, take: Take) -> dict[str, Any]:
        characters, frames = len(self._order.text), speech.timings.frames
        return {
            "type": "speech.audio.done",
            "usage": {
                "input_tokens": characters,
                "output_tokens": frames,
                "total_tokens": characters + frames,
            },
            "seed": speech.seed,
            "finish_reason": speech.finish_reason,
            "timings": {
                "queue_ms": round(1000 * take.queue_s),
                "first_audio_ms": round(1000 * take.first_audio_s),
                "total_ms": round(1000 * speech.timings.total_s),
                "audio_ms": round(1000 * speech.timings.audio_s),
            },
        }


def _delta(data: bytes) -> bytes:
    audio = base64.b64encode(data).decode("ascii")
    return _event("speech.audio.delta", {"type": "speech.audio.delta", "audio": audio})


def _event(name: str, document: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()


def _ms(seconds: float) -> str:
    return str(round(1000 * seconds))


async def _watch(receive: Receive, take: Take) -> None:
    """Stop the take as soon as the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    take.cancel("disconnect")

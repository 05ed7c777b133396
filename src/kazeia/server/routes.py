"""The HTTP routes: speaking, what there is to speak with, and how the server does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kazeia.server.errors import ApiError
from kazeia.server.fields import read_fields, read_json, speech_fields
from kazeia.server.openapi import openapi_document
from kazeia.server.orders import check_model, read_order
from kazeia.server.replies import Delivery, SpeechReply
from kazeia.server.state import ServerState
from kazeia.server.voices import OPENAI_MODELS, voice_aliases

_BODY_S = 30.0  # a body that takes longer than this to arrive is not waited for


def http_routes(state: ServerState) -> Sequence[BaseRoute]:
    """The routes over one server's state."""
    return [
        Route("/v1/audio/speech", partial(_speak, state), methods=["POST"]),
        Route("/v1/models", partial(_models, state), methods=["GET"]),
        Route("/v1/models/{model:path}", partial(_model, state), methods=["GET"]),
        Route("/v1/audio/voices", partial(_voices, state), methods=["GET"]),
        Route("/health", partial(_health, state), methods=["GET"]),
        Route("/ready", partial(_ready, state), methods=["GET"]),
        Route("/metrics", partial(_metrics, state), methods=["GET"]),
        Route("/openapi.json", partial(_openapi, state), methods=["GET"]),
    ]


async def _speak(state: ServerState, request: Request) -> Response:
    document = read_json(await _body(state, request))
    values = read_fields(document, speech_fields(state.settings.max_text_chars))
    order = read_order(state, values, values["input"])
    delivery = Delivery(
        format=values["response_format"],
        events=values["stream_format"] == "sse",
        whole=not values["stream"],
    )
    if delivery.whole and delivery.events:
        raise ApiError(
            400,
            'stream is false, but stream_format "sse" is a stream; leave one of them out',
            code="invalid_value",
            param="stream",
        )
    return SpeechReply(state.speaker, order, delivery)


async def _body(state: ServerState, request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # also keeps out forms that web sites may send without asking
        raise ApiError(
            415,
            f"the content type is {kind[:80]!a}; send application/json",
            code="unsupported_media_type",
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(
            415, f"the body's encoding is {coding[:80]!a}; send it as it is", code="unsupported_media_type"
        )
    limit = state.settings.max_body_bytes
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    try:
        return await asyncio.wait_for(_read(request, limit), _BODY_S)
    except asyncio.TimeoutError:
        raise ApiError(408, f"the body did not arrive within {_BODY_S:g} s", code="body_timeout") from None


async def _read(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the body holds more than {limit} bytes", code="body_too_large")


def _model_entry(state: ServerState, name: str) -> dict[str, Any]:
    entry = {"id": name, "object": "model", "created": state.created, "owned_by": "kazeia"}
    if name != state.model_id:
        return entry | {"alias_of": state.model_id}
    engine = state.engine
    return entry | {
        "quant": engine.quant,
        "sample_rate": engine.sample_rate,
        "random": engine.is_random,
        "takes_instructions": engine.takes_instruct,
    }


async def _models(state: ServerState, request: Request) -> Response:
    names = (state.model_id, *OPENAI_MODELS)
    return JSONResponse({"object": "list", "data": [_model_entry(state, name) for name in names]})


async def _model(state: ServerState, request: Request) -> Response:
    name = request.path_params["model"]
    check_model(state, name)
    return JSONResponse(_model_entry(state, name))


async def _voices(state: ServerState, request: Request) -> Response:
    engine = state.engine
    aliases = voice_aliases(engine.voices)
    voices = [
        {
            "id": name,
            "object": "audio.voice",
            "name": name,
            "default": index == 0,
            "aliases": [alias for alias, own in aliases.items() if own == name],
        }
        for index, name in enumerate(engine.voices)
    ]
    return JSONResponse(
        {
            "object": "list",
            "data": voices,
            "voices": [{"id": name, "name": name} for name in engine.voices],
            "aliases": aliases,
            "languages": ["auto", *engine.languages],
        }
    )


async def _health(state: ServerState, request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _ready(state: ServerState, request: Request) -> Response:
    if not state.ready:
        status = "stopping" if state.stopping else "warming up"
        return JSONResponse({"status": status}, 503, {"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


async def _metrics(state: ServerState, request: Request) -> Response:
    return Response(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _openapi(state: ServerState, request: Request) -> Response:
    document = openapi_document(state)
    tag = hashlib.sha256(repr(document).encode()).hexdigest()[:16]
    return JSONResponse(document, headers={"ETag": f'"{tag}"'})

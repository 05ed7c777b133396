"""The application: routes, and what surrounds them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from kazeia.engine import Engine
from kazeia.errors import KazeiaError
from kazeia.server.access import Access
from kazeia.server.conversation import websocket_routes
from kazeia.server.errors import ApiError
from kazeia.server.middleware import Guard
from kazeia.server.page import page_routes
from kazeia.server.routes import http_routes
from kazeia.server.settings import ServerSettings
from kazeia.server.state import ServerState

if TYPE_CHECKING:
    from kazeia.server.wyoming import WyomingServer

log = logging.getLogger("kazeia.server")

_EXPOSED = (
    "Retry-After",
    *(
        f"X-Kazeia-{name}"
        for name in (
            "Seed",
            "Voice",
            "Sample-Rate",
            "Queue-Ms",
            "First-Audio-Ms",
            "Finish-Reason",
            "Frames",
            "Audio-Ms",
            "Total-Ms",
        )
    ),
)


def create_app(
    engine: Engine, settings: ServerSettings | None = None, wyoming: socket.socket | None = None
) -> Starlette:
    """The ASGI application over a loaded engine, which the caller closes afterwards.

    wyoming: a listening socket on which the Wyoming protocol is served as long as the application
    runs. Its state is `app.state.kazeia`, a `ServerState`.
    """
    state = ServerState(engine, settings or ServerSettings())
    middleware = []
    if state.settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(state.settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
                expose_headers=list(_EXPOSED),
                max_age=600,
            )
        )
    middleware.append(Middleware(Guard, access=Access(state.settings), metrics=state.metrics))
    app = Starlette(
        routes=[*http_routes(state), *websocket_routes(state), *page_routes()],
        middleware=middleware,
        lifespan=lambda _: _lifespan(state, wyoming),
        exception_handlers={ApiError: _refuse, HTTPException: _refuse_http},
    )
    app.router.redirect_slashes = False  # to a place that the request itself names
    app.state.kazeia = state
    return app


@contextlib.asynccontextmanager
async def _lifespan(state: ServerState, wyoming: socket.socket | None) -> AsyncIterator[None]:
    server = await _start_wyoming(state, wyoming)
    warming = asyncio.ensure_future(asyncio.to_thread(_warm_up, state))
    try:
        yield
    finally:
        state.stop()
        if server is not None:
            await server.close(state.settings.grace_s)
        await state.speaker.close()
        await warming


async def _start_wyoming(state: ServerState, sock: socket.socket | None) -> WyomingServer | None:
    if sock is None:
        return None
    from kazeia.server.wyoming import WyomingServer

    server = WyomingServer(state)
    await server.start(sock)
    return server


def _warm_up(state: ServerState) -> None:
    try:
        state.warm_up()
    except KazeiaError as error:
        log.error("the warm-up failed, so the server is not ready: %s", error)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path, no such method) in OpenAI's shape."""
    assert isinstance(error, HTTPException)
    messages = {
        404: ("there is nothing at this path", "not_found"),
        405: (f"{request.method} is not possible here", "method_not_allowed"),
    }
    message, code = messages.get(error.status_code, (error.detail, "refused"))
    return ApiError(error.status_code, message, code=code, headers=dict(error.headers or {})).response()

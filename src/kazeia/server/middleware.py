"""What surrounds every request: access, counting, headers for safety, and errors without details."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kazeia.server.access import Access
from kazeia.server.errors import ApiError, from_library
from kazeia.server.metrics import Metrics

SAFETY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; media-src 'self' blob:; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}


class Guard:
    """Lets a request through to `app` if it may pass; counts it either way."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "websocket.accept"
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SAFETY_HEADERS.items():
                    headers.setdefault(name, value)
                self._metrics.requests.labels("http", str(message["status"])).inc()
            await send(message)

        try:
            self._access.check(scope)
            await self._app(scope, receive, sending)
        except ClientDisconnect:  # in the middle of its body
            self._metrics.requests.labels("http", "cancelled").inc()
        except Exception as error:
            refusal = from_library(error)
            if scope["type"] == "websocket":
                await _refuse_websocket(refusal, started, scope, receive, send)
            elif not started:
                await refusal.response()(scope, receive, sending)
            # else: uvicorn closes the connection, so that the reply is seen to be incomplete


async def _refuse_websocket(
    refusal: ApiError, started: bool, scope: Scope, receive: Receive, send: Send
) -> None:
    if started:
        await send({"type": "websocket.close", "code": 1011, "reason": "an error inside the server"})
    elif "websocket.http.response" in scope.get("extensions", {}):
        await refusal.response()(scope, receive, send)  # the handshake is answered as a request would be
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.code})

"""uvicorn's protocols, for clients that mean no good: who is slow, does not read, or sends nonsense."""

from __future__ import annotations

import asyncio
import json
import logging

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from kazeia.server.errors import ApiError

HEAD_S = 30.0
"""Seconds for a request's head to come, from the connection's beginning or the reply before it."""


class HttpProtocol(H11Protocol):
    """HTTP/1.1, but that a head has to come in time, and nonsense is refused in OpenAI's shape."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        super().connection_lost(exc)
        self._stop_watching()

    def data_received(self, data: bytes) -> None:
        """It has sent something, perhaps the last of a head."""
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """The next request may come, on a connection that is kept."""
        super().on_response_complete()
        self._watch_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on, it is a WebSocket's affair."""
        self._stop_watching()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, where that can still be told, and hang up."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            refusal = ApiError(400, "this is no HTTP/1.1 request that can be understood", code="invalid_http")
            body = json.dumps(refusal.body()).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
            ]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch_head(self) -> None:
        if self.transport.get_protocol() is not self:
            return  # it has become a WebSocket
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_watching(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket, but that pings are not answered to a client that does not read the answers.

    They would pile up without bound, for reading goes on: an interruption is among what is read.
    """

    def handle_ping(self) -> None:
        """Answer a ping, unless the client is behind."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # nothing but pongs


def without_traceback(record: logging.LogRecord) -> bool:
    """A filter for uvicorn's log: that a client has sent bytes that are no text is worth one line."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = None
    return True

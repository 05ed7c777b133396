"""Running the application on uvicorn, and stopping it gracefully."""

from __future__ import annotations

import logging
import signal
import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from kazeia.server.protocols import HttpProtocol, WebSocketProtocol, without_traceback
from kazeia.server.state import ServerState

log = logging.getLogger("kazeia.server")


class GracefulServer(uvicorn.Server):
    """uvicorn, but that the application knows at once when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal stops gracefully, another Ctrl-C at once; neither is raised again afterwards."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse those who wait, let those finish who are being heard, then stop."""
        self._state.stop()
        await super().shutdown(sockets)


def make_server(app: Starlette, *, access_log: bool = False) -> GracefulServer:
    """A server for an application of `create_app`, with its settings; `run` starts it."""
    state: ServerState = app.state.kazeia
    settings = state.settings
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=settings.max_body_bytes,
        log_config=None,  # the face decides where log lines go
        access_log=access_log,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.grace_s)),
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=16_384,
    )
    logging.getLogger("uvicorn.error").addFilter(without_traceback)
    return GracefulServer(config, state)

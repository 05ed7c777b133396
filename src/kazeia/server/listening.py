"""Sockets to listen on, made before anything else, so that a failure is told in one line."""

from __future__ import annotations

import contextlib
import socket

from kazeia.errors import OptionError

STALLED_S = 300.0
"""Seconds after which a client that takes nothing of what is sent to it counts as gone."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OptionError when it cannot be had."""
    host = host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio turns off Nagle's delay (40 ms here) only where the protocol is named.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise OptionError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        with contextlib.suppress(OSError, AttributeError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * STALLED_S))
        sock.bind(address)
        sock.listen(256)
    except OSError as error:
        sock.close()
        raise OptionError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another port"
        ) from error
    return sock


def address_of(sock: socket.socket, scheme: str = "http") -> str:
    """Where a listening socket is reached, as a URL."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

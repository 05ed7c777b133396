"""Telling the local network that Wyoming is spoken here, so that Home Assistant offers it by itself.

Multicast DNS, service `_wyoming._tcp.local.`; needs the package zeroconf.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

log = logging.getLogger("kazeia.server")

SERVICE = "_wyoming._tcp.local."
_ANY = ("0.0.0.0", "::")
_ELSEWHERE = ("224.0.0.251", 5353)  # of multicast DNS; nothing is sent to find the way there


class Announcement:
    """Announces a port under this machine's name for as long as it is open."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._network: AsyncZeroconf | None = None

    async def open(self) -> None:
        """Announce it; takes a second or two. A network that does not allow it is logged."""
        try:
            self._network = AsyncZeroconf()
            info = service_info(self._host, self._port)
            await (await self._network.async_register_service(info, allow_name_change=True))
        except OSError as error:
            log.warning("Wyoming is served, but cannot be announced: %s", error.strerror or error)

    async def close(self) -> None:
        """Take it back."""
        if self._network is not None:
            await self._network.async_unregister_all_services()
            await self._network.async_close()
            self._network = None


def service_info(host: str, port: int) -> AsyncServiceInfo:
    """What is announced: this machine's name, address and port. Raises OSError without a network."""
    machine = socket.gethostname().partition(".")[0] or "kazeia"
    return AsyncServiceInfo(
        SERVICE,
        f"Kazeia on {machine}.{SERVICE}",
        addresses=[socket.inet_aton(_address(host))],
        port=port,
        server=f"{machine}.local.",
    )


def _address(host: str) -> str:
    if host not in _ANY:
        return socket.gethostbyname(host)
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(_ELSEWHERE)
        address: str = probe.getsockname()[0]
        return address


async def announced(announcement: Announcement) -> None:
    """Keep it announced until this is cancelled."""
    try:
        await announcement.open()
        await asyncio.Event().wait()
    finally:
        await announcement.close()

"""What can be set about a server; every default is written here, once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from kazeia.errors import OptionError

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class ServerSettings:
    """Limits and access of a server. Raises OptionError for a value that is out of its range."""

    host: str = "127.0.0.1"
    """Where it listens; the loopback is heard on this machine only."""
    port: int = 8000
    """TCP port; 0 takes a free one."""
    wyoming_port: int | None = None
    """TCP port of the Wyoming protocol; 0 takes a free one, None leaves it out."""
    wyoming_announce: bool = False
    """Whether the Wyoming port is announced to the local network (multicast DNS)."""
    api_key: str | None = None
    """When set, every request must bring it, but for the page and the health checks."""
    max_concurrent: int = 8
    """Requests that speak at the same time."""
    max_queue: int = 32
    """Requests that wait for their turn; one more is refused with 503."""
    time_limit_s: float = 300.0
    """Seconds that a request may take in all, waiting included."""
    grace_s: float = 30.0
    """Seconds that a stopping server lets those finish who are being heard."""
    max_body_bytes: int = 65_536
    """Size of a request's body."""
    max_text_chars: int = 4096
    """Length of `input`."""
    rate_limit: int = 0
    """Requests a minute from one client (its key, else its address); 0 is off."""
    cors_origins: tuple[str, ...] = ()
    """Web sites whose pages may call the server; "*" is any."""
    allowed_hosts: tuple[str, ...] | None = None
    """Names under which the server answers (the Host header); None: those of this machine while it
    listens on the loopback, any otherwise. It keeps web sites from reaching a private server by a
    name of their own (DNS rebinding)."""

    def __post_init__(self) -> None:
        whole = {
            "port": (0, 65_535),
            "max_concurrent": (1, 256),
            "max_queue": (0, 100_000),
            "max_body_bytes": (1024, 1 << 30),
            "max_text_chars": (1, 1_000_000),
            "rate_limit": (0, 1_000_000),
        }
        for name, (low, high) in whole.items():
            _check_whole(name, getattr(self, name), low, high)
        if self.wyoming_port is not None:
            _check_whole("wyoming_port", self.wyoming_port, 0, 65_535)
        for name in ("time_limit_s", "grace_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise OptionError(f"{name} is {value!r}; expected a number of seconds")
            if not 0 < value <= 86_400:
                raise OptionError(f"{name} is {value:g}; expected more than 0 and at most 86400 seconds")
        if not isinstance(self.host, str) or not self.host.strip():
            raise OptionError(f"host is {self.host!r}; expected an address such as 127.0.0.1")
        if self.wyoming_announce and (self.wyoming_port is None or self.host in LOOPBACK):
            raise OptionError(
                "only a Wyoming port that others can reach is announced; set wyoming_port, "
                "and a host that is not the loopback (0.0.0.0 is every network)"
            )
        if self.api_key is not None and (
            not isinstance(self.api_key, str) or not self.api_key.isascii() or not self.api_key.strip()
        ):
            raise OptionError("the API key is empty or holds characters beyond ASCII; choose another one")

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """The names it answers to, None for any."""
        if self.allowed_hosts is not None:
            return self.allowed_hosts
        return tuple(sorted(LOOPBACK)) if self.host in LOOPBACK else None

    def replace(self, **changes: object) -> ServerSettings:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name} is {value!r}; expected a whole number from {low} to {high}")

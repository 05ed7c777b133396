"""Who may ask: host names, the API key, and how often."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import Scope

from kazeia.server.errors import ApiError
from kazeia.server.settings import ServerSettings

_MAX_CLIENTS = 10_000  # whose rates are remembered

OPEN_PATHS = ("/", "/health", "/ready", "/static/")
"""What needs no key: the page (which asks for one) and the health checks. A final slash is a folder."""


class Access:
    """The checks that every request passes before anything is done for it."""

    def __init__(self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._hosts = None if settings.hosts is None or "*" in settings.hosts else set(settings.hosts)
        self._origins = set(settings.cors_origins)
        self._key = settings.api_key
        self._rate = RateLimit(settings.rate_limit, clock)

    def check(self, scope: Scope) -> None:
        """Raise ApiError (421, 403, 401 or 429) unless the request may go on."""
        headers = Headers(scope=scope)
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            raise ApiError(
                421,
                f"this server does not answer to the name {host!a}; it knows "
                f"{', '.join(sorted(self._hosts))} (see --allowed-host)",
                code="unknown_host",
            )
        if is_open(scope["path"]):
            return
        if scope["type"] == "websocket":
            self._check_origin(headers, host)
        self._check_key(headers)
        self._rate.take(self._client(scope, headers))

    def _check_origin(self, headers: Headers, host: str) -> None:
        """Browsers let any site open a WebSocket to anywhere, and only tell where they come from."""
        origin = headers.get("origin")
        if origin is None or "*" in self._origins or origin in self._origins:
            return
        if origin.partition("://")[2] != headers.get("host", ""):
            raise ApiError(
                403, f"pages of {origin!a} may not speak here (see --cors-origin)", code="origin_not_allowed"
            )

    def _check_key(self, headers: Headers) -> None:
        if self._key is None:
            return
        given = _given_key(headers)
        if given is None:
            raise _unauthorized("no API key; send the header Authorization: Bearer KEY", "missing_api_key")
        # Digests have one length, so that the comparison tells nothing of the key's either.
        if not hmac.compare_digest(_digest(given), _digest(self._key)):
            raise _unauthorized("this API key is not the server's", "invalid_api_key")

    def _client(self, scope: Scope, headers: Headers) -> str:
        if self._key is not None:  # it has been checked
            return "key"
        client = scope.get("client")
        return client[0] if client else ""


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return any(path == p or (p != "/" and p.endswith("/") and path.startswith(p)) for p in OPEN_PATHS)


class RateLimit:
    """So many requests a minute from each client, a burst of as many at first; 0 is no limit."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (left, when)

    def take(self, client: str) -> None:
        """Count one request. Raises ApiError (429) with the seconds to wait."""
        if not self._per_minute:
            return
        now = self._clock()
        left, when = self._buckets.pop(client, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - when) * self._per_minute / 60)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left, now)
        while len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = math.ceil((1 - left) * 60 / self._per_minute)
            raise ApiError(
                429,
                f"more than {self._per_minute} requests a minute; try again in {wait} s",
                code="rate_limit_exceeded",
                kind="rate_limit_error",
                headers={"Retry-After": str(max(1, wait))},
            )


def _given_key(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None


def _unauthorized(message: str, code: str) -> ApiError:
    return ApiError(
        401, message, code=code, kind="authentication_error", headers={"WWW-Authenticate": "Bearer"}
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _host_name(host: str) -> str:
    """The Host header without its port, in lower case; the brackets of IPv6 go too."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")

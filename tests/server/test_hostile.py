"""Clients that mean no good: nonsense is refused, slowness ends, and nothing of it fills memory or log."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from paced_engine import PacedEngine
from running import Running, request, running, until

from kazeia.audio.wav import pcm_bytes
from kazeia.engine import Engine

BODY = json.dumps(request(max_frames=2, response_format="pcm")).encode()
CHUNKED = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
NO_HTTP = (400, "invalid_http")


@pytest.fixture(autouse=True)
def _no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client does is no error of the server's: its log shows no stack, and nothing unexpected."""
    yield
    assert not [r.getMessage() for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


@contextlib.contextmanager
def connected(url: str, receive_buffer: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as client:
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(15)
        parsed = httpx.URL(url)
        client.connect((parsed.host, parsed.port))
        yield client


def read_all(client: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(65_536):
            found += data
    return found


def head(line: str = "POST /v1/audio/speech HTTP/1.1", *lines: str, length: int | str = len(BODY)) -> bytes:
    """A request's head, the connection to be closed after the reply; later headers replace earlier ones."""
    headers = {
        "Host": "localhost",
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": str(length),
    }
    headers |= dict(one.split(": ", 1) for one in lines)
    return "\r\n".join([line, *(f"{k}: {v}" for k, v in headers.items() if v), "", ""]).encode("latin-1")


RAW: dict[str, tuple[bytes, tuple[int, str]]] = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", NO_HTTP),
    "no host": (head("GET /health HTTP/1.1", "Host: ", length=0), NO_HTTP),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", NO_HTTP),
    "HTTP/1.0 without a host": (head("GET /v1/models HTTP/1.0", "Host: ", length=0), (421, "unknown_host")),
    "a host that is no text": (head("GET /v1/models HTTP/1.1", "Host: \xff\xfe"), (421, "unknown_host")),
    "a host behind an @": (head("GET /v1/models HTTP/1.1", "Host: localhost@evil"), (421, "unknown_host")),
    "negative length": (head(length=-1), NO_HTTP),
    "length of many digits": (head(length="9" * 5000), NO_HTTP),
    "two lengths": (head().replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n"), NO_HTTP),
    "enormous length": (head(length=10**15), (413, "body_too_large")),
    "no chunk": (b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\n" + CHUNKED + b"\r\nZZ\r\n", NO_HTTP),
    "no second chunk": (
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\n" + CHUNKED + b'\r\n2\r\n{"\r\nZZ\r\n',
        NO_HTTP,
    ),
    "unknown transfer coding": (head("POST /v1/audio/speech HTTP/1.1", "Transfer-Encoding: gzip"), NO_HTTP),
    "compressed": (
        head("POST /v1/audio/speech HTTP/1.1", "Content-Encoding: gzip"),
        (415, "unsupported_media_type"),
    ),
    "a content type that is no text": (
        head("POST /v1/audio/speech HTTP/1.1", "Content-Type: \xff"),
        (415, "unsupported_media_type"),
    ),
    "OPTIONS": (head("OPTIONS /v1/audio/speech HTTP/1.1", length=0), (405, "method_not_allowed")),
    "OPTIONS *": (head("OPTIONS * HTTP/1.1", length=0), (404, "not_found")),
    "TRACE": (head("TRACE / HTTP/1.1", length=0), (405, "method_not_allowed")),
    "CONNECT": (head("CONNECT evil.example:443 HTTP/1.1", length=0), (404, "not_found")),
    "another server's address": (head("GET http://evil.example/ HTTP/1.1", length=0), (404, "not_found")),
    "a slash more": (head("POST /v1/audio/speech/ HTTP/1.1"), (404, "not_found")),
    "two slashes": (head("GET //v1/models HTTP/1.1", length=0), (404, "not_found")),
    "NUL in a path": (head("GET /static/%00page.js HTTP/1.1", length=0), (404, "not_found")),
    "line ends in a path": (head("GET /v1/models/%0d%0aSet-Cookie:x HTTP/1.1", length=0), (404, "not_found")),
    "a surrogate in a path": (head("GET /v1/models/%ED%A0%80 HTTP/1.1", length=0), (404, "model_not_found")),
    "a long path": (head(f"GET /{'a' * 10_000} HTTP/1.1", length=0), (404, "not_found")),
}


@pytest.mark.parametrize("name", list(RAW))
def test_what_is_no_request_is_refused_in_the_shape_of_all_refusals(server: Running, name: str) -> None:
    sent, (status, code) = RAW[name]
    with connected(server.url) as client:
        client.sendall(sent + (BODY if b"Content-Length: %d\r\n" % len(BODY) in sent else b""))
        reply = read_all(client)
    top, _, body = reply.partition(b"\r\n\r\n")
    assert top.split(b" ")[1] == str(status).encode()
    assert b"content-type: application/json" in top.lower()
    assert b"set-cookie" not in top.lower()
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/"])
def test_a_head_has_the_length_and_no_body(server: Running, path: str) -> None:
    length = len(server.http.get(path).content)
    with connected(server.url) as client:
        client.sendall(head(f"HEAD {path} HTTP/1.1", length=0))
        top, _, body = read_all(client).partition(b"\r\n\r\n")
    assert f"content-length: {length}".encode() in top.lower()
    assert body == b""


@pytest.mark.parametrize("fields", [{}, {"stream": False}], ids=str)
def test_http_1_0_hears_everything_too(server: Running, tiny: Engine, fields: dict[str, Any]) -> None:
    body = json.dumps(request(max_frames=3, response_format="pcm", **fields)).encode()
    with connected(server.url) as client:
        client.sendall(head("POST /v1/audio/speech HTTP/1.0", length=len(body)) + body)
        top, _, heard = read_all(client).partition(b"\r\n\r\n")
    assert b"chunked" not in top.lower()  # which it does not know
    pcm = tiny.synthesize("Good morning.", voice="ryan", seed=7, max_frames=3).pcm
    assert heard == pcm_bytes(pcm)


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(server: Running) -> None:
    before = server.metric("kazeia_requests_total", face="http", outcome="cancelled")
    for sent in (head(), head() + BODY[:20]):
        with connected(server.url) as client:
            client.sendall(sent)
    until(lambda: server.metric("kazeia_requests_total", face="http", outcome="cancelled") == before + 2)


def test_nonsense_behind_a_refusal_just_ends_the_connection(server: Running) -> None:
    with connected(server.url) as client:
        client.sendall(
            b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        assert client.recv(4096).startswith(b"HTTP/1.1 415")
        client.sendall(b"ZZ\r\n")
        read_all(client)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: local",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",  # then kept open
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP",
        # The rest of a body that was refused:
        b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nxx",
    ],
    ids=["nothing", "half a head", "a request", "half a second head", "half a body"],
)
def test_a_head_that_does_not_come_is_not_waited_for(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("kazeia.server.protocols.HEAD_S", 0.3)
    with running(tiny) as server, connected(server.url) as client:
        client.sendall(sent)
        reply = read_all(client)  # until the server hangs up
        assert reply.startswith(b"HTTP/1.1 ") or not reply


def test_a_reply_may_last_longer_than_a_head(paced: PacedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kazeia.server.protocols.HEAD_S", 0.3)
    expected = paced._engine.synthesize("Good morning.", voice="ryan", seed=7, max_frames=3).pcm
    body = json.dumps(request(max_frames=3, response_format="pcm")).encode()
    with running(paced) as server, connected(server.url) as client:  # type: ignore[arg-type]
        client.sendall(head("POST /v1/audio/speech HTTP/1.0", length=len(body)) + body)
        paced.let(1)
        first = client.recv(100_000)
        client.settimeout(0.8)
        with contextlib.suppress(TimeoutError):
            first += client.recv(100_000)  # the rest of the first piece, then nothing
            first += client.recv(100_000)
        client.settimeout(15)
        paced.let(2)
        heard = (first + read_all(client)).partition(b"\r\n\r\n")[2]
    assert heard == pcm_bytes(expected)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere TCP has no such limit")
def test_a_client_that_reads_nothing_is_gone_at_last(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kazeia.server.listening.STALLED_S", 0.5)
    body = json.dumps(request(max_frames=3000, response_format="pcm")).encode()
    with running(tiny) as server, connected(server.url, 4096) as client:
        client.sendall(head(length=len(body)) + body)
        until(lambda: bool(server.state.speaker._takes))
        until(server.is_idle, 60)
        until(lambda: not server.server.server_state.connections, 60)


# Pauses


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}], ids=str)
def test_hours_of_silence_are_refused(server: Running, fields: dict[str, Any]) -> None:
    response = server.speak(input="A [pause:60s] " * 6, **fields)
    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["param"], error["code"]) == ("input", "pauses_too_long")


@pytest.mark.parametrize("fields", [{}, {"stream": False}], ids=str)
def test_a_long_pause_is_kept_exactly(ending: Engine, fields: dict[str, Any]) -> None:
    text = "A. [pause:50s] B."
    expected = pcm_bytes(ending.synthesize(text, voice="ryan", seed=7).pcm)
    with running(ending) as server:
        heard = server.speak(input=text, max_frames=..., response_format="pcm", **fields).content
    assert len(expected) > 50 * 48_000
    assert heard == expected


# WebSocket frames


def frame(opcode: int, data: bytes, *, fin: int = 1, compressed: int = 0, masked: bool = True) -> bytes:
    mask = 0x80 if masked else 0
    if len(data) < 126:
        size = bytes([mask | len(data)])
    elif len(data) < 65_536:
        size = bytes([mask | 126]) + struct.pack(">H", len(data))
    else:
        size = bytes([mask | 127]) + struct.pack(">Q", len(data))
    return bytes([fin << 7 | compressed << 6 | opcode]) + size + (bytes(4) if masked else b"") + data


@contextlib.contextmanager
def raw_websocket(server: Running, receive_buffer: int = 0) -> Iterator[socket.socket]:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        "GET /v1/audio/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    with connected(server.url, receive_buffer) as client:
        client.sendall(lines.encode())
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += client.recv(1)
        assert reply.startswith(b"HTTP/1.1 101")
        yield client


def bomb() -> bytes:
    """20 MB of text in 20 kB."""
    press = zlib.compressobj(9, wbits=-12)
    text = press.compress(b'{"type": "start", "voice": "' + b"a" * 20_000_000)
    return (text + press.flush(zlib.Z_SYNC_FLUSH))[:-4]


FRAMES: dict[str, tuple[Callable[[], bytes], int]] = {
    "no UTF-8": (lambda: frame(1, b"\xff\xfe"), 1007),
    "no UTF-8 in pieces": (lambda: frame(1, b"\xff", fin=0) + frame(0, b"\xfe"), 1007),
    "without a mask": (lambda: frame(1, b"{}", masked=False), 1002),
    "an unknown kind": (lambda: frame(5, b""), 1002),
    "a long ping": (lambda: frame(9, b"x" * 200), 1002),
    "the second piece first": (lambda: frame(0, b"abc"), 1002),
    "a close without a code": (lambda: frame(8, b"x"), 1002),
    "a close with a bad code": (lambda: frame(8, struct.pack(">H", 5)), 1002),
    "an enormous length": (lambda: b"\x81\xff" + struct.pack(">Q", 2**62) + bytes(4) + b"abc", 1009),
    "a bomb": (lambda: frame(1, bomb(), compressed=1), 1009),
    "pieces without end": (
        lambda: frame(1, b"", fin=0) + frame(0, b"x" * 1000, fin=0) * 65 + frame(0, b"x" * 600),
        1009,
    ),
    "no deflate": (lambda: frame(1, b"\xff\xff\xff\xff", compressed=1), 1002),
}


@pytest.mark.parametrize("name", list(FRAMES))
def test_frames_that_are_none_close_the_websocket(server: Running, name: str) -> None:
    make, code = FRAMES[name]
    with raw_websocket(server) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(make())
        reply = read_all(client)
    assert reply[0] == 0x88  # a close, with its code
    assert struct.unpack(">H", reply[2:4]) == (code,)


def test_pings_whose_answers_nobody_reads_do_not_pile_up(server: Running) -> None:
    with raw_websocket(server, 4096) as client:
        client.sendall(frame(1, b'{"type": "start"}'))
        (protocol,) = (p for p in server.server.server_state.connections if hasattr(p, "handle_ping"))
        client.settimeout(60)
        for _ in range(120):  # 8 MB, more than what lies between client and server
            client.sendall(frame(9, b"x" * 125) * 500)
            assert protocol.transport.get_write_buffer_size() < 1_000_000


# Wyoming


def test_answers_that_nobody_reads_do_not_pile_up(paced: PacedEngine) -> None:
    with running(paced, wyoming_port=0) as server, connected(server.wyoming_url) as client:  # type: ignore[arg-type]
        client.sendall(b'{"type": "synthesize", "data": {"text": "A text."}}\n')
        until(lambda: paced.frames > 0)
        client.sendall(b'{"type": "ping", "data": {"text": "x"}}\n' * 100)  # held up by the speech
        events = read_all(client)  # until the server hangs up
        assert b"too_many_events" in events
        assert b"pong" not in events
        until(server.is_idle)
        assert paced.at_work == 0

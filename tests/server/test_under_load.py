"""Under load: who waits, who is refused, and that work stops when nobody listens any more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from paced_engine import PacedEngine
from running import Running, request, running, until

from kazeia.engine import Engine
from kazeia.server import create_app
from kazeia.server.admission import Admission
from kazeia.server.errors import ApiError
from kazeia.server.listening import address_of, listen
from kazeia.server.metrics import Metrics
from kazeia.server.replies import Delivery, SpeechReply
from kazeia.server.run import make_server
from kazeia.server.speaking import Order, Speaker

LONG = {"max_frames": 400, "response_format": "pcm"}


def started(server: Running, engine: PacedEngine, count: int, **fields: Any) -> list[Any]:
    """So many requests under way, each with its first byte received."""
    streams = []
    for _ in range(count):
        context = server.http.stream("POST", "/v1/audio/speech", json=request(**LONG | fields))
        engine.let(1)
        response = context.__enter__()
        assert response.status_code == 200
        streams.append((context, response))
    return streams


@contextlib.contextmanager
def raw_request(server: Running, **fields: Any) -> Iterator[socket.socket]:
    """A request whose reply the test reads, or does not, byte by byte."""
    url = httpx.URL(server.url)
    body = json.dumps(request(**fields)).encode()
    head = (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 0), timeout=10) as client:
        client.sendall(head.encode() + body)
        yield client


def test_more_requests_than_places_wait_and_are_all_heard(paced: PacedEngine) -> None:
    with running(paced, max_concurrent=2) as server, ThreadPoolExecutor(6) as pool:  # type: ignore[arg-type]
        replies = [pool.submit(server.speak, response_format="pcm") for _ in range(6)]
        until(lambda: server.state.speaker.admission.waiting == 4)
        assert server.metric("kazeia_running") == 2
        assert server.metric("kazeia_queue") == 4
        paced.let(1000)
        contents = [reply.result() for reply in replies]
        assert {r.status_code for r in contents} == {200}
        assert len({r.content for r in contents}) == 1
        until(server.is_idle)


def test_a_full_queue_says_when_to_come_back(paced: PacedEngine) -> None:
    with running(paced, max_concurrent=1, max_queue=1) as server, ThreadPoolExecutor(2) as pool:  # type: ignore[arg-type]
        replies = [pool.submit(server.speak) for _ in range(2)]
        until(lambda: server.state.speaker.admission.waiting == 1)
        refused = server.speak()
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
        paced.let(1000)
        assert [reply.result().status_code for reply in replies] == [200, 200]


@pytest.mark.parametrize("fields", [{}, {"stream_format": "sse"}, {"stream": False}], ids=str)
def test_a_client_that_leaves_stops_its_work_within_two_frames(
    paced: PacedEngine, fields: dict[str, Any]
) -> None:
    with running(paced) as server:  # type: ignore[arg-type]
        with raw_request(server, **LONG | fields) as client:
            paced.let(3)
            until(lambda: paced.frames == 4)
            if "stream" not in fields:
                assert client.recv(100).startswith(b"HTTP/1.1 200")
        until(server.is_idle)
        assert paced.frames <= 4 + 2
        assert paced.at_work == 0
        assert server.metric("kazeia_cancellations_total", reason="disconnect") == 1


def test_a_client_that_leaves_the_queue_is_forgotten(paced: PacedEngine) -> None:
    with running(paced, max_concurrent=1) as server:  # type: ignore[arg-type]
        ((context, _),) = started(server, paced, 1)
        with pytest.raises(httpx.ReadTimeout):
            server.http.post("/v1/audio/speech", json=request(), timeout=0.3)
        until(lambda: server.state.speaker.admission.waiting == 0)
        assert server.state.speaker.admission.running == 1
        context.__exit__(None, None, None)
        until(server.is_idle)


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}], ids=str)
def test_twenty_aborted_streams_leave_no_work_behind(tiny: Engine, fields: dict[str, Any]) -> None:
    with running(tiny) as server:
        threads = threading.active_count()
        for _ in range(20 if not fields else 5):
            with raw_request(server, **LONG | fields) as client:
                if "stream" not in fields:
                    assert client.recv(100).startswith(b"HTTP/1.1 200")
                else:
                    time.sleep(0.02)
        until(server.is_idle)
        frames = server.metric("kazeia_frames_total")
        assert server.speak().status_code == 200
        assert server.metric("kazeia_frames_total") == frames + request()["max_frames"]
        assert threading.active_count() <= threads + 8  # the pool's own, which stay


def test_the_time_limit_really_stops_the_work(paced: PacedEngine) -> None:
    with running(paced, time_limit_s=0.5, max_concurrent=2) as server:  # type: ignore[arg-type]
        for stream in (True, False):  # nothing was heard yet
            response = server.speak(stream=stream)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "time_limit")
        ((_, response),) = started(server, paced, 1)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            response.read()
        until(server.is_idle)
        assert paced.at_work == 0
        assert server.metric("kazeia_cancellations_total", reason="time_limit") == 3


def test_the_time_limit_holds_in_the_queue_too(paced: PacedEngine) -> None:
    with running(paced, time_limit_s=0.4, max_concurrent=1) as server, ThreadPoolExecutor(3) as pool:  # type: ignore[arg-type]
        replies = [pool.submit(server.speak) for _ in range(3)]
        codes = [reply.result().json()["error"]["code"] for reply in replies]
        assert codes == ["time_limit"] * 3
        until(server.is_idle)


def test_a_slow_reader_does_not_fill_the_memory(tiny: Engine) -> None:
    with running(tiny) as server:
        context = server.http.stream("POST", "/v1/audio/speech", json=request(max_frames=3000))
        response = context.__enter__()
        assert response.status_code == 200
        time.sleep(1.0)  # nothing is read meanwhile
        (take,) = server.state.speaker._takes
        assert take._results.qsize() <= 33
        context.__exit__(None, None, None)
        until(server.is_idle)


def test_stopping_finishes_what_is_heard_and_refuses_the_rest(paced: PacedEngine) -> None:
    with running(paced, max_concurrent=1) as server, ThreadPoolExecutor(1) as pool:  # type: ignore[arg-type]
        expected = paced._engine.synthesize("Good morning.", voice="ryan", seed=7, max_frames=9)
        ((context, response),) = started(server, paced, 1, max_frames=9)
        waiting = pool.submit(server.speak)
        until(lambda: server.state.speaker.admission.waiting == 1)
        server.server.should_exit = True
        refused = waiting.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        paced.let(1000)
        assert len(response.read()) == 2 * len(expected.pcm)
        context.__exit__(None, None, None)
        server.thread.join(10)
        assert not server.thread.is_alive()


def test_stopping_does_not_wait_for_ever(paced: PacedEngine) -> None:
    with running(paced, grace_s=1) as server:  # type: ignore[arg-type]
        ((_, response),) = started(server, paced, 1)
        server.server.should_exit = True
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            response.read()
        server.thread.join(10)
        assert not server.thread.is_alive()
        assert paced.at_work == 0


def test_not_ready_before_the_warm_up(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(
        "kazeia.server.state.ServerState.warm_up",
        lambda state: (gate.wait(10), setattr(state, "warm", True)),
    )
    app = create_app(tiny)
    sock = listen("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    with httpx.Client(base_url=address_of(sock)) as http:
        until(lambda: server.started)
        assert http.get("/health").status_code == 200
        assert http.get("/ready").status_code == 503
        gate.set()
        until(lambda: http.get("/ready").status_code == 200)
    server.should_exit = True
    thread.join(10)
    sock.close()


# The queue by itself


def run(main: Any) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def test_the_queue_is_first_come_first_served() -> None:
    async def main() -> None:
        admission, order = Admission(1, 10), []

        async def one(number: int) -> None:
            await admission.enter()
            order.append(number)
            await asyncio.sleep(0)
            admission.leave(0.1)

        await asyncio.gather(*(one(n) for n in range(5)))
        assert order == [0, 1, 2, 3, 4]
        assert (admission.running, admission.waiting) == (0, 0)

    run(main())


def test_a_place_is_never_lost_by_giving_up() -> None:
    async def main() -> None:
        admission = Admission(1, 10)
        await admission.enter()
        waiting = [asyncio.ensure_future(admission.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # gives up while waiting
        admission.leave(None)  # hands the place to the second …
        waiting[1].cancel()  # … which gives up in the same moment
        await waiting[2]
        assert admission.running == 1
        admission.leave(None)
        assert (admission.running, admission.waiting) == (0, 0)

    run(main())


def test_the_queue_refuses_when_full_or_closed() -> None:
    async def main() -> None:
        admission = Admission(1, 1)
        await admission.enter()
        waiting = asyncio.ensure_future(admission.enter())
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="try again"):
            await admission.enter()
        admission.close()
        with pytest.raises(ApiError, match="shutting down"):
            await waiting
        with pytest.raises(ApiError, match="shutting down"):
            await admission.enter()

    run(main())


def test_small_pieces_are_sent_at_once() -> None:
    # Nagle's algorithm would hold back the second piece of every reply for 40 ms.
    sock = listen("127.0.0.1", 0)
    assert sock.proto == socket.IPPROTO_TCP
    sock.close()


@pytest.mark.parametrize("form", ["pcm", "sse"])
def test_a_client_that_takes_no_more_loses_its_place(tiny: Engine, form: str) -> None:
    async def main() -> None:
        speaker = Speaker(tiny, Metrics(), slots=1, max_waiting=0, time_limit_s=300)
        order = Order("A text.", "ryan", seed=1, max_frames=3000)
        reply = SpeechReply(speaker, order, Delivery("pcm", events=form == "sse"))
        sent = []

        async def send(message: Any) -> None:
            sent.append(message["type"])
            if len(sent) == 3:
                await asyncio.Event().wait()  # the client's buffers are full

        async def receive() -> Any:
            return await asyncio.Event().wait()

        serving = asyncio.ensure_future(reply({"type": "http"}, receive, send))
        while len(sent) < 3:
            await asyncio.sleep(0.01)
        (take,) = speaker._takes
        take.cancel("time_limit")
        while speaker.admission.running:
            await asyncio.sleep(0.01)
        serving.cancel()  # with events, the last one, which tells the error, is not taken either
        await asyncio.gather(serving, return_exceptions=True)
        await speaker.close()

    run(main())

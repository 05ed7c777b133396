"""A server that really listens, for one test or many."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from kazeia.engine import Engine
from kazeia.server import ServerSettings, create_app
from kazeia.server.listening import address_of, listen
from kazeia.server.run import GracefulServer, make_server
from kazeia.server.state import ServerState

TEXT = "Good morning."
KEY = "sk-test"


@dataclass
class Running:
    """A server in a thread of this process."""

    url: str
    state: ServerState
    server: GracefulServer
    thread: threading.Thread
    http: httpx.Client
    wyoming_url: str = ""

    def speak(self, **fields: Any) -> httpx.Response:
        return self.http.post("/v1/audio/speech", json=request(**fields))

    def metric(self, name: str, **labels: str) -> float:
        return self.state.metrics.registry.get_sample_value(name, labels) or 0.0

    def is_idle(self) -> bool:
        admission = self.state.speaker.admission
        return not admission.running and not admission.waiting and not self.state.speaker._takes


def request(**fields: Any) -> dict[str, Any]:
    """A short request; fields that are Ellipsis are left out."""
    base = {"model": "tts-1", "input": TEXT, "voice": "ryan", "seed": 7, "max_frames": 6}
    return {name: value for name, value in (base | fields).items() if value is not ...}


@contextlib.contextmanager
def running(engine: Engine, **settings: Any) -> Iterator[Running]:
    chosen = ServerSettings(**({"port": 0} | settings))
    sock = listen(chosen.host, chosen.port)
    wyoming = None if chosen.wyoming_port is None else listen(chosen.host, chosen.wyoming_port)
    app = create_app(engine, chosen, wyoming)
    state: ServerState = app.state.kazeia
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    with httpx.Client(base_url=address_of(sock), timeout=30) as http:
        try:
            until(lambda: server.started and state.warm)
            wyoming_url = "" if wyoming is None else address_of(wyoming, "tcp")
            yield Running(str(http.base_url).rstrip("/"), state, server, thread, http, wyoming_url)
        finally:
            server.should_exit = True
            thread.join(20)
            sock.close()
            if wyoming is not None:
                wyoming.close()
    assert not thread.is_alive()


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait until something holds; fail when it does not come to pass."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def events(body: str) -> list[dict[str, Any]]:
    """The documents of a stream of server-sent events, checked against their names."""
    found = []
    for block in body.strip().split("\n\n"):
        name, data = block.split("\n")
        document = json.loads(data.removeprefix("data: "))
        assert name == f"event: {document.get('type', 'error')}"
        found.append(document)
    return found

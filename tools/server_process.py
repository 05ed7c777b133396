"""A `kazeia serve` of one's own, and requests to it whose bytes are timed; for tools/server_load.py."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

SPEECH = "/v1/audio/speech"
TIMEOUT_S = 120.0


class ServerFailed(Exception):
    """The server did not start, or broke off; with the end of its log."""


@dataclass
class ServerProcess:
    """A server in a process of its own: where it is, and what it takes (Linux: read from /proc)."""

    pid: int
    port: int
    log: Path

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a page."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.get("/metrics")[1].decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))

    def rss(self) -> int:
        """Resident memory in bytes."""
        return self._status("VmRSS") * 1024

    def threads(self) -> int:
        """Threads."""
        return self._status("Threads")

    def files(self) -> int:
        """Open files and sockets."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
        if found is None:
            raise ServerFailed(f"the system does not tell {name} of the server")
        return int(found[1])

    def is_idle(self) -> bool:
        """Whether nothing is spoken and nobody waits."""
        return self.metric("kazeia_running") == 0 and self.metric("kazeia_queue") == 0

    def wait_until_idle(self) -> None:
        """Wait for that. Raises ServerFailed after a minute."""
        deadline = time.monotonic() + 60
        while not self.is_idle():
            if time.monotonic() > deadline:
                raise ServerFailed("work is left, a minute after the last client went away")
            time.sleep(0.05)

    def tracebacks(self) -> int:
        """Errors in the log that nobody expected."""
        return len(re.findall(r"Traceback \(most recent", self.log.read_text(errors="replace")))


@contextlib.contextmanager
def serving(model: str, *options: str) -> Iterator[ServerProcess]:
    """Start a server on a free port and wait until it is warm; stop it at the end. Raises ServerFailed."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "kazeia", "serve", "--model", model, "--port", "0", *options]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            server = ServerProcess(process.pid, _port(process, log), log)
            while server.get("/ready")[0] != 200:
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            process.wait(60)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", text):
            return int(found[1])
        if process.poll() is not None:
            raise ServerFailed(f"kazeia serve ended with {process.returncode}: {text.strip()[-1000:]}")
        time.sleep(0.05)


@dataclass
class Reply:
    """A reply, and when its bytes came."""

    status: int
    sent: float
    """When the request was sent (seconds of `time.perf_counter`)."""
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """When bytes of the body came, and how many."""
    body: bytes = b""

    @property
    def first_byte_s(self) -> float:
        """From the request to the first byte of the body."""
        return self.arrivals[0][0] - self.sent


def ask(server: ServerProcess, body: bytes, *, most: int | None = None, **headers: str) -> Reply:
    """Send a request to speak on a new connection; read its reply, or hang up after `most` bytes of it."""
    with contextlib.closing(server.connect()) as connection:
        connection.connect()
        sent = time.perf_counter()
        connection.request("POST", SPEECH, body, {"Content-Type": "application/json"} | headers)
        response = connection.getresponse()
        reply = Reply(response.status, sent)
        parts = []
        total = 0
        while (most is None or total < most) and (data := response.read1(65_536)):
            reply.arrivals.append((time.perf_counter(), len(data)))
            parts.append(data)
            total += len(data)
        reply.body = b"".join(parts)
        return reply


def speech(text: str, **fields: Any) -> bytes:
    """The body of a request to speak; fields that are None are left out."""
    asked = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"} | fields
    return json.dumps({name: value for name, value in asked.items() if value is not None}).encode()


def write_line(text: str, file: IO[str] = sys.stdout) -> None:
    """Print a line at once."""
    print(text, file=file, flush=True)

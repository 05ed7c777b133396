"""`kazeia serve` as a process: its address, its end, and what it refuses before it begins."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli_result import Run
from fake_kazeia import FakeEngine

COMMAND = [sys.executable, "-m", "kazeia", "serve", "--model", "random:tiny", "--port", "0"]


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The process, its address, and the lines of its standard error so far."""
    with subprocess.Popen(
        [*COMMAND, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        address = None
        while address is None:
            line = process.stderr.readline()
            assert line, lines
            lines.append(line)
            address = re.search(r"at (http://\S+);", line)
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
        reader.start()
        try:
            yield process, address[1], lines
        finally:
            process.kill()
            process.wait(10)
            reader.join(10)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    with serving() as (process, address, lines):
        request = {"model": "tts-1", "input": "Hello.", "voice": "alloy", "max_frames": 60}
        with httpx.stream(
            "POST", f"{address}/v1/audio/speech", json=request | {"response_format": "pcm"}
        ) as reply:
            assert reply.status_code == 200
            process.send_signal(number)  # what is being heard is finished
            assert len(reply.read()) == 60 * 1920 * 2
        assert process.wait(20) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
    errors = "".join(lines)
    assert "Traceback" not in errors
    assert "POST /v1/audio/speech" in errors


def test_an_address_in_use_is_one_line(engine: FakeEngine, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--port", str(taken.getsockname()[1]))
    assert result.code == 1
    assert re.fullmatch(
        r"kazeia: error: cannot listen on 127.0.0.1 port \d+: .*choose another port\n", result.err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--host", ""], "host is ''"),
        (["--port", "70000"], "port is 70000"),
        (["--max-concurrent", "0"], "max_concurrent is 0"),
        (["--time-limit", "nan"], "time_limit_s is nan"),
        (["--wyoming-port", "0", "--wyoming-announce"], "only a Wyoming port that others can reach"),
        (["--api-key", ""], "the API key is empty"),
    ],
)
def test_settings_that_cannot_be_are_one_line(
    engine: FakeEngine, run: Run, options: list[str], message: str
) -> None:
    result = run("serve", *options)
    assert result.code == 1
    assert result.err.startswith(f"kazeia: error: {message}")
    assert result.err.count("\n") == 1


def test_a_model_that_is_not_there_is_one_line(run: Run, tmp_path: Path) -> None:
    result = run("serve", "--model", str(tmp_path / "none"))
    assert result.code == 1
    assert result.err.count("\n") == 1


def test_without_its_packages_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    real = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name, *rest: None if name == "starlette" else real(name, *rest)
    )
    result = run("serve")
    assert result.code == 1
    assert result.err == (
        'kazeia: error: serving needs starlette, which is not installed; run: pip install "kazeia[server]"\n'
    )


def test_every_setting_reaches_the_server(
    engine: FakeEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("kazeia.cli.serve._serve", lambda engine, settings, quiet: seen.append(settings))
    monkeypatch.setenv("KAZEIA_API_KEY", "from-the-environment")
    options = (
        "--host 0.0.0.0 --port 1 --wyoming-port 9 --wyoming-announce --max-concurrent 2 --max-queue 3 "
        "--time-limit 4 --grace 5 --max-text 6 --max-body 7000 --rate-limit 8 --cors-origin https://a "
        "--cors-origin https://b --allowed-host c"
    )
    assert run("serve", *options.split()).code == 0
    (settings,) = seen
    assert (settings.host, settings.port, settings.max_concurrent, settings.max_queue) == ("0.0.0.0", 1, 2, 3)
    assert (settings.time_limit_s, settings.grace_s, settings.max_text_chars) == (4, 5, 6)
    assert (settings.max_body_bytes, settings.rate_limit) == (7000, 8)
    assert (settings.cors_origins, settings.allowed_hosts) == (("https://a", "https://b"), ("c",))
    assert settings.wyoming_port == 9
    assert settings.wyoming_announce
    assert settings.api_key == "from-the-environment"


def test_the_help_tells_the_defaults_that_there_are(run: Run) -> None:
    from kazeia.server.settings import ServerSettings

    shown = " ".join(run("serve", "--help").out.decode().split())
    defaults = ServerSettings()
    for value in (
        defaults.host,
        defaults.port,
        defaults.max_concurrent,
        defaults.max_queue,
        defaults.time_limit_s,
        defaults.grace_s,
        defaults.max_text_chars,
        defaults.max_body_bytes,
    ):
        shown_value = f"{value:g}" if isinstance(value, float) else str(value)
        assert re.search(rf"Default: {re.escape(shown_value)}[.,]", shown), value

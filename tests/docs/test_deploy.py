"""The unit and the Dockerfile ask for what there is: options, paths, and no rights."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

from kazeia.server.access import is_open

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def known_options() -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "kazeia", "serve", "--help"], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))


def test_the_unit_starts_the_server_without_rights() -> None:
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "kazeia.service")
    service = unit["Service"]
    assert re.match(r"\S+/kazeia serve ", service["ExecStart"])
    assert set(re.findall(r"--[a-z-]+", service["ExecStart"])) <= known_options()
    assert service["DynamicUser"] == "yes"
    assert service["CacheDirectory"] in service["Environment"]
    assert int(service["TimeoutStopSec"]) > 30  # longer than the server's own grace


def test_the_image_runs_without_root_and_checks_its_health() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    steps = re.findall(r"^([A-Z]+) ", text, re.MULTILINE)
    assert steps.index("USER") < steps.index("ENTRYPOINT")
    assert re.search(r"^USER (?!root|0)", text, re.MULTILINE)
    entry = re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    assert entry is not None
    command = json.loads(entry[1])
    assert command[:2] == ["kazeia", "serve"]
    assert {option for option in command if option.startswith("--")} <= known_options()
    check = re.search(r"http://127.0.0.1:(\d+)(/\w+)", text)
    assert check is not None
    assert check[1] == command[command.index("--port") + 1]
    assert is_open(check[2])
    assert re.search(r"^VOLUME /models$", text, re.MULTILINE)
    assert "KAZEIA_CACHE=/models/" in text

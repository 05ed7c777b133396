"""Whatever the OpenAPI document allows or forbids, the server answers as the document says."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Running, running

from kazeia.engine import Engine


class BriefEngine:
    """An engine that says two frames of everything: it is the contract that is tested."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, text: str, **asked: Any) -> Any:
        return self._engine.stream(text, **asked | {"max_frames": min(2, asked["max_frames"] or 2)})

    def synthesize(self, text: str, **asked: Any) -> Any:
        return self._engine.synthesize(text, **asked | {"max_frames": min(2, asked["max_frames"] or 2)})


@pytest.fixture(scope="module")
def brief(load_engine: Callable[..., Engine]) -> Iterator[Running]:
    with running(BriefEngine(load_engine("tiny"))) as server:  # type: ignore[arg-type]
        yield server


def test_the_server_keeps_to_its_document(brief: Running, tmp_path: Path) -> None:
    # As a program: its pytest plugin follows pytest's insides. All phases take a minute: --phases
    # examples,coverage,fuzzing --max-examples 60
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), "run", f"{brief.url}/openapi.json", "--checks", "all", "--no-color"]
    command += ["--phases", "fuzzing", "--max-examples", "15", "--seed", "1", "--generation-database", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "No issues found" in done.stdout
    assert "3 passed" in done.stdout


def test_any_request_is_spoken_or_refused(brief: Running) -> None:
    """Values of all kinds in all fields at once, right ones among them."""
    chance = random.Random(5)
    good = {
        "model": ["tts-1"],
        "input": ["Hello.", "日本語", "1 + 1"],
        "voice": ["ryan", {"id": "alloy"}],
        "response_format": ["pcm", "wav", "opus"],
        "speed": [1, 0.5, 4],
        "stream": [True, False],
        "stream_format": ["sse", "audio"],
        "language": ["fr", "auto"],
        "seed": [0, 2**64 - 1],
        "temperature": [0, 1.5],
        "cp_top_k": [1, 50],
    }
    odd = [None, "", " ", "x" * 300, 0, -1, 1e300, 2**70, True, [], {}, [[]], {"id": 1}, "\x00", "../x", "é"]
    statuses = set()
    for _ in range(150):
        body = {
            name: chance.choice(values if chance.random() < 0.9 else odd)
            for name, values in good.items()
            if chance.random() < 0.9
        }
        response = brief.http.post("/v1/audio/speech", json=body)
        statuses.add(response.status_code)
        if response.status_code != 200:
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert statuses <= {200, 400, 404, 413, 422}
    assert {200, 400} <= statuses

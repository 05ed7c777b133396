"""The tool that puts a server under load: what it calls an underrun, and that its requests are fair."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import httpx
import pytest
from running import Running

from kazeia.audio.encode import FORMATS
from kazeia.server.fields import speech_fields
from server_load import BYTES_A_SECOND, fuzz_body, lateness, measure_aborts, measure_first_byte, measure_fuzz
from server_process import ServerProcess


@pytest.fixture
def process(server: Running, tmp_path: Path) -> ServerProcess:
    """The tests' server, which shares their process."""
    log = tmp_path / "log"
    log.touch()
    return ServerProcess(os.getpid(), httpx.URL(server.url).port or 0, log)


@pytest.mark.parametrize(
    ("arrivals", "worst"),
    [
        ([(5.0, 1.0), (5.5, 1.0), (7.0, 1.0)], 0.0),  # the third comes when the second has just ended
        ([(5.0, 1.0), (6.25, 1.0), (6.5, 9.0)], 0.25),
        ([(5.0, 1.0), (5.25, 1.0)], -0.75),
        ([(5.0, 1.0)], float("-inf")),
    ],
)
def test_a_stream_runs_dry_when_its_audio_is_behind_the_clock(
    arrivals: list[tuple[float, float]], worst: float
) -> None:
    assert lateness([(when, round(seconds * BYTES_A_SECOND)) for when, seconds in arrivals]) == worst


def test_the_fuzz_reaches_every_field_and_repeats() -> None:
    bodies = [fuzz_body(random.Random(seed)) for seed in range(300)]
    assert bodies == [fuzz_body(random.Random(seed)) for seed in range(300)]
    fields = set()
    for body in bodies:
        try:
            fields |= set(json.loads(body))
        except ValueError:
            fields.add("no JSON")
    assert fields >= {field.name for field in speech_fields(10)} | {"no JSON"}


def test_whatever_is_asked_is_spoken_or_refused(process: ServerProcess) -> None:
    (bar,) = measure_fuzz(process, 60, seed=3)
    assert bar.met, bar.figures["wrong"]


def test_hung_up_streams_are_cancelled(process: ServerProcess) -> None:
    (bar,) = measure_aborts(process, 6, parallel=2)
    assert bar.figures["cancelled"] == 6


def test_the_first_byte_of_every_format_is_timed(process: ServerProcess) -> None:
    bars = measure_first_byte(process, 1)
    assert [bar.name for bar in bars] == [f"first byte, {name}" for name in FORMATS]
    assert all(bar.figures["median_s"] > 0 for bar in bars)

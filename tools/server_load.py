#!/usr/bin/env python3
"""Put `kazeia serve` under load and hold it to its bars.

    python tools/server_load.py                      # the embedded voice; some twenty minutes on two cores
    python tools/server_load.py --parts first-byte,streams
    python tools/server_load.py --requests 20 --aborts 5 --fuzz 50 --repeats 2 --rounds 1    # a quick look

It starts a server of its own on a free port (so run it with the Python that has Kazeia, on Linux, on a
machine that does nothing else) and measures:

* first-byte: from a streamed request to the first byte of its body, on a new connection, warm, by format.
* streams: so many streams at the same time; each one's audio against the clock of somebody who plays it.
* memory: many requests of every kind; memory, threads and open files after the first 200 and at the end.
* aborts: streams whose clients hang up in the middle; what is left of them.
* fuzz: requests with all kinds of values in all fields; what is neither spoken nor refused in its shape.

Prints one line for each bar and exits with 1 when one is missed; `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kazeia.audio.encode import FORMATS
from kazeia.server.fields import speech_fields
from server_process import ServerProcess, ask, serving, speech, write_line

SENTENCE = "The quick brown fox jumps over the lazy dog while the band plays on."
LONGER = (
    "When the sunlight strikes raindrops in the air, they act as a prism and form a rainbow. "
    "The rainbow is a division of white light into many beautiful colours."
)
BYTES_A_SECOND = 48_000  # of PCM
WARM = 200  # requests after which memory counts as settled
FIRST_BYTE_S = 0.150
GROWTH = 4 * 2**20  # bytes: pages that the allocator keeps here and there
CLOSING = 2  # sockets of the last clients, which the server may not have closed yet

KINDS: tuple[dict[str, Any], ...] = (
    *({"response_format": name} for name in FORMATS),
    *({"response_format": name, "stream": False} for name in FORMATS),
    {"stream_format": "sse"},
    {"speed": 1.5},
)
"""What the requests of `memory` take turns with."""

ODD: tuple[Any, ...] = (
    *(None, "", " ", "\x00", "\ud800", "x" * 5000, "../../etc/passwd", "é", "…", "[pause:9h]", "NaN"),
    *(0, -1, 1, 0.5, 1e300, -0.0, 2**64, 10**400, float("nan"), float("inf"), True, False),
    *([], {}, [[]], {"id": 1}, {"id": "alloy"}, {"x": {}}),
)


@dataclass
class Bar:
    """One thing that was measured, and whether it is as it should be."""

    name: str
    met: bool
    found: str
    figures: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """For people."""
        return f"{'ok  ' if self.met else 'MISS'} {self.name}: {self.found}"


def lateness(arrivals: Sequence[tuple[float, int]], rate: float = BYTES_A_SECOND) -> float:
    """How far a stream's audio was behind the clock of its playback at worst, in seconds; below 0 is never.

    The clock starts with the first bytes; they are (seconds, how many), `rate` of them play in a second.
    """
    begin, received = arrivals[0]
    worst = float("-inf")
    for when, count in arrivals[1:]:
        worst = max(worst, when - begin - received / rate)
        received += count
    return worst


def measure_first_byte(server: ServerProcess, repeats: int) -> list[Bar]:
    """The time to the first byte, for each format."""
    bars = []
    for name in FORMATS:
        body = speech(SENTENCE, response_format=name, max_frames=50)
        ask(server, body)  # warm
        times = sorted(ask(server, body, most=1).first_byte_s for _ in range(repeats))
        server.wait_until_idle()
        median, worst = statistics.median(times), times[-1]
        found = f"median {1000 * median:.0f} ms, worst {1000 * worst:.0f} ms of {repeats}"
        figures = {"median_s": median, "worst_s": worst}
        bars.append(Bar(f"first byte, {name}", median <= FIRST_BYTE_S, found, figures))
    return bars


def measure_streams(server: ServerProcess, streams: int, rounds: int) -> list[Bar]:
    """Parallel streams without an underrun."""
    worst, first = [], []
    with ThreadPoolExecutor(streams) as pool:
        for turn in range(rounds):
            bodies = [speech(LONGER, seed=streams * turn + n) for n in range(streams)]
            for reply in pool.map(lambda body: ask(server, body), bodies):
                worst.append(lateness(reply.arrivals))
                first.append(reply.first_byte_s)
    late = sum(value > 0 for value in worst)
    found = (
        f"{late} of {len(worst)} ran dry; at worst {-1000 * max(worst):.0f} ms ahead of the playback, "
        f"first byte after {1000 * statistics.median(first):.0f} ms (median)"
    )
    figures = {"lateness_s": worst, "first_byte_s": first}
    return [Bar(f"{streams} streams at once", late == 0, found, figures)]


def measure_memory(server: ServerProcess, requests: int, parallel: int) -> list[Bar]:
    """Memory and threads over many requests."""
    warm = min(WARM, requests // 2)

    def one(number: int) -> int:
        text = f"Request number {number}. {SENTENCE}"
        return ask(server, speech(text, seed=number, max_frames=25, **KINDS[number % len(KINDS)])).status

    def state() -> tuple[int, int, int]:
        server.wait_until_idle()
        return server.rss(), server.threads(), server.files()

    with ThreadPoolExecutor(parallel) as pool:
        statuses = list(pool.map(one, range(warm)))
        before = state()
        statuses += pool.map(one, range(warm, requests))
        after = state()
    refused = sum(status != 200 for status in statuses)
    figures = {"before": before, "after": after, "refused": refused}
    spoken = f"{requests} requests, {refused} refused"
    return [
        Bar("requests", refused == 0, spoken, figures),
        *(
            Bar(name, now <= then + room, f"{shown(then)} after {warm}, {shown(now)} at the end")
            for name, then, now, room, shown in (
                ("memory", before[0], after[0], GROWTH, _mib),
                ("threads", before[1], after[1], parallel, str),  # pools fill when they are first full
                ("open files", before[2], after[2], CLOSING, str),
            )
        ),
    ]


def measure_aborts(server: ServerProcess, aborts: int, parallel: int) -> list[Bar]:
    """What clients leave behind that hang up."""

    def one(number: int) -> None:
        kind = {"stream_format": "sse"} if number % 3 == 1 else {}
        most = 1 if number % 2 else 50_000
        ask(server, speech(LONGER * 5, seed=number, **kind), most=most)

    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(one, range(2 * parallel)))  # the first ones make what stays
        server.wait_until_idle()
        before = server.rss(), server.threads(), server.files()
        cancelled = server.metric("kazeia_cancellations_total")
        list(pool.map(one, range(aborts)))
        server.wait_until_idle()
    after = server.rss(), server.threads(), server.files()
    cancelled = server.metric("kazeia_cancellations_total") - cancelled
    found = (
        f"{cancelled:.0f} of {aborts} cancelled; threads {before[1]} and {after[1]}, files {before[2]} and "
        f"{after[2]}, memory {_mib(before[0])} and {_mib(after[0])}"
    )
    met = cancelled == aborts and after[0] <= before[0] + GROWTH
    met = met and after[1] <= before[1] + parallel and after[2] <= before[2] + CLOSING
    return [Bar("aborted streams", met, found, {"before": before, "after": after, "cancelled": cancelled})]


def fuzz_body(chance: random.Random) -> bytes:
    """A request with right, odd and missing values, or what is no request at all."""
    good: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "Hi.", "max_frames": 2}
    good |= {"response_format": chance.choice(list(FORMATS)), "stream": chance.random() < 0.5}
    for known in speech_fields(4096):
        roll = chance.random()
        if roll < 0.1:
            good[known.name] = chance.choice(ODD)
        elif roll < 0.12:
            good.pop(known.name, None)
    if chance.random() < 0.05:
        good[str(chance.choice(ODD))] = chance.choice(ODD)
    body = json.dumps(good).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(body))
        body = body[:at] + bytes([chance.randrange(256)]) + body[at + chance.randrange(3) :]
    return body


def measure_fuzz(server: ServerProcess, requests: int, seed: int) -> list[Bar]:
    """Requests of all kinds: each is spoken or refused, in the shape of all refusals."""
    chance = random.Random(seed)
    counts: dict[int, int] = {}
    wrong = []
    for _ in range(requests):
        body = fuzz_body(chance)
        reply = ask(server, body)
        counts[reply.status] = counts.get(reply.status, 0) + 1
        if not _is_fair(reply.status, reply.body):
            wrong.append(f"{reply.status} for {body!r:.300}")
    counted = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
    found = f"{counted}; {len(wrong)} without a fitting answer, {server.tracebacks()} exceptions in the log"
    met = not wrong and not server.tracebacks() and {200, 400} <= set(counts)
    return [Bar("fuzz", met, found, {"statuses": counts, "wrong": wrong})]


def _is_fair(status: int, body: bytes) -> bool:
    if status == 200:
        return True
    if status not in (400, 404, 413, 422):
        return False
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    return set(error) == {"message", "type", "param", "code"}


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(description="Put kazeia serve under load and hold it to its bars.")
    parser.add_argument("--model", default="embedded", help="as for kazeia serve")
    parser.add_argument("--threads", help="as for kazeia serve")
    parser.add_argument("--parts", default="first-byte,streams,memory,aborts,fuzz", help="what to measure")
    parser.add_argument("--repeats", type=int, default=20, help="requests for each format's first byte")
    parser.add_argument("--streams", type=int, default=8, help="streams at once")
    parser.add_argument("--rounds", type=int, default=3, help="how often those are begun")
    parser.add_argument("--requests", type=int, default=1000, help="requests for memory")
    parser.add_argument("--aborts", type=int, default=100, help="streams that are hung up")
    parser.add_argument("--fuzz", type=int, default=2000, help="requests with odd values")
    parser.add_argument("--parallel", type=int, default=4, help="clients of memory and aborts")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures")
    asked = parser.parse_args(arguments)
    parts: dict[str, Callable[[ServerProcess], list[Bar]]] = {
        "first-byte": lambda server: measure_first_byte(server, asked.repeats),
        "streams": lambda server: measure_streams(server, asked.streams, asked.rounds),
        "memory": lambda server: measure_memory(server, asked.requests, asked.parallel),
        "aborts": lambda server: measure_aborts(server, asked.aborts, asked.parallel),
        "fuzz": lambda server: measure_fuzz(server, asked.fuzz, asked.seed),
    }
    names = asked.parts.split(",")
    if unknown := [name for name in names if name not in parts]:
        parser.error(f"there is no part {', '.join(unknown)}; known: {', '.join(parts)}")
    bars: list[Bar] = []
    options = ["--threads", asked.threads] if asked.threads else []
    with serving(asked.model, *options) as server:
        for name in names:
            for bar in parts[name](server):
                bars.append(bar)
                write_line(bar.line())
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(bar) for bar in bars], indent=2) + "\n")
    return 0 if all(bar.met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())

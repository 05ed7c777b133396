"""The Wyoming protocol, through its own client: whole texts, texts while they are written, and misuse."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from paced_engine import PacedEngine
from running import Running, running, until
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from kazeia.audio.wav import pcm_bytes
from kazeia.engine import Engine

SEED = 7
VOICE = SynthesizeVoice(name="ryan")


@pytest.fixture(autouse=True)
def _seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol knows no seeds; the tests want one."""
    monkeypatch.setattr("kazeia.server.wyoming.draw_seed", lambda: SEED)


@pytest.fixture(scope="module")
def wyoming(load_engine: Callable[..., Engine]) -> Iterator[Running]:
    """A server over the model that ends by itself."""
    with running(load_engine("ending"), wyoming_port=0) as server:
        yield server


def talk(server: Running, script: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with AsyncClient.from_uri(server.wyoming_url) as client:
            return await asyncio.wait_for(script(client), 20)

    return asyncio.run(main())


async def event(client: AsyncClient) -> Event:
    found = await client.read_event()
    assert found is not None, "the server hung up"
    return found


async def audio(client: AsyncClient) -> bytes:
    """Everything between an audio-start and its audio-stop."""
    start = AudioStart.from_event(await event(client))
    assert (start.rate, start.width, start.channels) == (24_000, 2, 1)
    parts = []
    while not AudioStop.is_type((found := await event(client)).type):
        parts.append(AudioChunk.from_event(found).audio)
    return b"".join(parts)


def spoken(engine: Engine, text: str, voice: str = "ryan", **more: Any) -> bytes:
    return pcm_bytes(engine.synthesize(text, voice=voice, seed=SEED, **more).pcm)


def test_home_assistant_learns_what_there_is(wyoming: Running, ending: Engine) -> None:
    async def script(client: AsyncClient) -> Info:
        await client.write_event(Describe().event())
        return Info.from_event(await event(client))

    (program,) = talk(wyoming, script).tts
    assert program.supports_synthesize_streaming
    assert [voice.name for voice in program.voices] == list(ending.voices)
    assert {"en", "fr", "zh"} <= set(program.voices[0].languages)


def test_a_ping_is_answered(wyoming: Running) -> None:
    async def script(client: AsyncClient) -> Pong:
        await client.write_event(Ping(text="hello").event())
        return Pong.from_event(await event(client))

    assert talk(wyoming, script).text == "hello"


@pytest.mark.parametrize(
    ("voice", "expected"),
    [
        (None, {"voice": "serena"}),
        (VOICE, {"voice": "ryan"}),
        (SynthesizeVoice(name="x", speaker="ryan"), {"voice": "ryan"}),
        (SynthesizeVoice(name="alloy"), {"voice": "serena"}),
        (SynthesizeVoice(language="fr_FR"), {"voice": "serena", "language": "fr"}),
    ],
)
def test_a_text_is_spoken(
    wyoming: Running, ending: Engine, voice: SynthesizeVoice | None, expected: dict[str, str]
) -> None:
    async def script(client: AsyncClient) -> bytes:
        await client.write_event(Synthesize("Good evening.", voice).event())
        return await audio(client)

    assert talk(wyoming, script) == spoken(ending, "Good evening.", **expected)


def test_a_text_is_spoken_while_it_is_written(wyoming: Running, ending: Engine) -> None:
    async def script(client: AsyncClient) -> bytes:
        await client.write_event(SynthesizeStart(voice=VOICE).event())
        await client.write_event(SynthesizeChunk("First sentence. Sec").event())
        start = await event(client)  # sound, although the text goes on
        assert AudioStart.is_type(start.type)
        await client.write_event(SynthesizeChunk("ond one").event())
        # For servers that know no streaming, clients repeat the whole text.
        await client.write_event(Synthesize("First sentence. Second one", VOICE).event())
        await client.write_event(SynthesizeStop().event())
        parts = []
        while not AudioStop.is_type((found := await event(client)).type):
            parts.append(AudioChunk.from_event(found).audio)
        assert SynthesizeStopped.is_type((await event(client)).type)
        return b"".join(parts)

    expected = spoken(ending, "First sentence.") + spoken(ending, "Second one")
    assert talk(wyoming, script) == expected


def test_a_stream_without_text_just_stops(wyoming: Running) -> None:
    async def script(client: AsyncClient) -> str:
        await client.write_event(SynthesizeStart().event())
        await client.write_event(SynthesizeStop().event())
        return (await event(client)).type

    assert SynthesizeStopped.is_type(talk(wyoming, script))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (Synthesize("Hello.", SynthesizeVoice(name="nobody")).event(), "voice_not_found"),
        (Synthesize("Hello.", SynthesizeVoice(name="../../etc/passwd")).event(), "voice_not_found"),
        (Synthesize("Hello.", SynthesizeVoice(language="xx")).event(), "language_not_found"),
        (Synthesize("").event(), "unspeakable_text"),
        (Synthesize("…").event(), "unspeakable_text"),
        (Synthesize("x" * 5000).event(), "text_too_long"),
        (Event("synthesize"), "invalid_type"),
        (Event("synthesize", {"text": None}), "invalid_type"),
        (Event("synthesize", {"text": "a", "voice": "ryan"}), "invalid_type"),
        (Event("synthesize", {"text": "a", "voice": {"name": 3}}), "invalid_type"),
        (Event("synthesize", {"text": "a", "voice": {"name": ["ryan"]}}), "invalid_type"),
        (Event("synthesize", {"text": "a", "voice": {"speaker": {"name": "ryan"}}}), "invalid_type"),
        (Event("synthesize", {"text": "a", "voice": {"language": 3}}), "language_not_found"),
        (Event("synthesize", {"text": "a [pause:60s]" * 6}), "pauses_too_long"),
        (Event("synthesize", {"text": "a [pause:61s]"}), "unspeakable_text"),
    ],
    ids=repr,
)
def test_what_cannot_be_spoken_is_an_error_and_the_next_is_spoken(
    wyoming: Running, ending: Engine, wrong: Event, code: str
) -> None:
    async def script(client: AsyncClient) -> bytes:
        await client.write_event(wrong)
        error = Error.from_event(await event(client))
        assert error.code == code
        assert error.text
        await client.write_event(Synthesize("Next.", VOICE).event())
        return await audio(client)

    assert talk(wyoming, script) == spoken(ending, "Next.")


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"type": 3}\n',
        b'{"type": "synthesize", "data": []}\n',
        b'{"type": "synthesize", "data_length": -1}\n',
        b'{"type": "synthesize", "data_length": "x"}\n',
        b'{"type": "synthesize", "data_length": 99999999999}\n',
        b'{"type": "synthesize", "payload_length": 99999999999}\n',
        b'{"type": "synthesize", "data_length": 3}\n{x}',
        b"x" * 70_000 + b"\n",
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
    ],
    ids=lambda line: repr(line[:45]),
)
def test_what_is_no_event_ends_the_connection(wyoming: Running, line: bytes) -> None:
    url = httpx.URL(wyoming.wyoming_url)
    with socket.create_connection((url.host, url.port or 0), timeout=10) as client:
        client.sendall(line)
        head, _, rest = client.makefile("rb").read().partition(b"\n")
        assert json.loads(head)["type"] == "error"
        assert b"Traceback" not in rest
    assert talk(wyoming, lambda client: client.write_event(Ping().event())) is None  # it goes on


def test_unknown_events_are_passed_over(wyoming: Running) -> None:
    async def script(client: AsyncClient) -> str:
        for kind in ("transcribe", "synthesize-chunk", "synthesize-stop", ""):
            await client.write_event(Event(kind, {"text": "a"}))
        await client.write_event(Ping().event())
        return (await event(client)).type

    assert Pong.is_type(talk(wyoming, script))


def test_a_client_that_leaves_stops_its_work(paced: PacedEngine) -> None:
    with running(paced, wyoming_port=0) as server:  # type: ignore[arg-type]

        async def script(client: AsyncClient) -> None:
            await client.write_event(Synthesize("A text. Another text.").event())
            paced.let(3)
            while not AudioChunk.is_type((await event(client)).type):
                pass
            await asyncio.to_thread(until, lambda: paced.frames == 4)

        talk(server, script)
        until(server.is_idle)
        assert paced.frames <= 4 + 2
        assert paced.at_work == 0


def test_stopping_lets_what_is_heard_finish(paced: PacedEngine) -> None:
    with running(paced, wyoming_port=0) as server:  # type: ignore[arg-type]

        async def script(client: AsyncClient) -> bytes:
            await client.write_event(Synthesize("Ab.", VOICE).event())
            paced.let(1)
            start = await event(client)
            assert AudioStart.is_type(start.type)
            server.server.should_exit = True
            await asyncio.sleep(0.5)
            paced.let(10_000)
            parts = []
            while not AudioStop.is_type((found := await event(client)).type):
                parts.append(AudioChunk.from_event(found).audio)
            return b"".join(parts)

        heard = talk(server, script)
    assert heard == spoken(paced._engine, "Ab.")


def test_a_silent_client_is_let_go(tiny: Engine) -> None:
    with running(tiny, wyoming_port=0, time_limit_s=0.3) as server:

        async def script(client: AsyncClient) -> Event | None:
            return await client.read_event()

        assert talk(server, script) is None


def test_many_clients_each_hear_what_they_would_alone(wyoming: Running, ending: Engine) -> None:
    texts = [f"Number {n}." for n in range(6)]

    def one(text: str) -> bytes:
        async def script(client: AsyncClient) -> bytes:
            await client.write_event(Synthesize(text, VOICE).event())
            return await audio(client)

        return bytes(talk(wyoming, script))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, texts)) == [spoken(ending, text) for text in texts]


def test_the_port_is_announced_while_it_is_served(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    class Network:
        async def async_register_service(self, info: Any, allow_name_change: bool) -> Any:
            done.append(info)
            return asyncio.sleep(0)

        async def async_unregister_all_services(self) -> None:
            done.append("unregistered")

        async def async_close(self) -> None:
            done.append("closed")

    monkeypatch.setattr("kazeia.server.announce.AsyncZeroconf", Network)
    with running(tiny, host="0.0.0.0", wyoming_port=0, wyoming_announce=True) as server:
        until(lambda: bool(done))
        (info,) = done
        assert info.type == "_wyoming._tcp.local."
        assert info.name.startswith("Kazeia on ")
        assert info.port == httpx.URL(server.wyoming_url).port
        assert len(info.addresses) == 1
    assert done[1:] == ["unregistered", "closed"]


def test_a_network_that_allows_no_announcement_is_no_failure(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr("kazeia.server.announce.AsyncZeroconf", refuse)
    with running(tiny, host="0.0.0.0", wyoming_port=0, wyoming_announce=True) as server:
        until(lambda: "cannot be announced: No such device" in caplog.text)
        assert server.http.get("/health").status_code == 200

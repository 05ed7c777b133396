"""The WebSocket: text while it is written, audio while it is made, silence when interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from paced_engine import PacedEngine
from running import KEY, Running, running, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from kazeia.audio.encode import FORMATS, encode_stream
from kazeia.audio.wav import pcm_bytes
from kazeia.engine import Engine

START = {"type": "start", "voice": "ryan", "seed": 7, "max_frames": 5}


@dataclass
class Talk:
    """A client's side: sends messages, sorts what comes."""

    socket: ClientConnection
    audio: list[bytes] = field(default_factory=list)

    def say(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind} | fields))

    def until(self, kind: str) -> dict[str, Any]:
        """The next event of a kind; audio and events before it are kept and passed over."""
        while True:
            message = self.socket.recv(timeout=10)
            if isinstance(message, bytes):
                self.audio.append(message)
            elif (event := json.loads(message))["type"] == kind:
                return dict(event)

    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.socket.recv(timeout=10)))


@contextmanager
def talk(server: Running, start: dict[str, Any] | None = START, **options: Any) -> Iterator[Talk]:
    url = server.url.replace("http", "ws") + "/v1/audio/stream"
    with connect(url, max_size=None, **options) as socket:
        found = Talk(socket)
        if start is not None:
            socket.send(json.dumps(start))
            found.until("ready")
        yield found


def expected(engine: Engine, text: str, frames: int = 5) -> bytes:
    return pcm_bytes(engine.synthesize(text, voice="ryan", seed=7, max_frames=frames).pcm)


def test_text_in_pieces_is_spoken_sentence_by_sentence(server: Running, tiny: Engine) -> None:
    with talk(server) as client:
        for piece in ("Good mor", "ning. How", " are you? ", "And so"):
            client.say("text", text=piece)
        client.say("end")
        for index, text in enumerate(["Good morning.", "How are you?", "And so"]):
            client.audio.clear()
            assert client.until("segment.start") == {"type": "segment.start", "index": index, "text": text}
            end = client.until("segment.end")
            assert (end["index"], end["finish_reason"], end["frames"]) == (index, "limit", 5)
            assert b"".join(client.audio) == expected(tiny, text)
        assert client.event() == {"type": "done"}
        with pytest.raises(ConnectionClosed):
            client.socket.recv(timeout=5)
        assert client.socket.close_code == 1000


def test_a_sentence_is_spoken_before_the_text_ends(server: Running) -> None:
    with talk(server) as client:
        client.say("text", text="First. S")
        assert client.until("segment.end")["index"] == 0
        client.say("text", text="econd")
        client.say("flush")
        assert client.until("segment.start")["text"] == "Second"


@pytest.mark.parametrize("name", list(FORMATS))
def test_each_segment_is_a_whole_file_of_its_format(server: Running, tiny: Engine, name: str) -> None:
    pcm = tiny.synthesize("One.", voice="ryan", seed=7, max_frames=5).pcm
    with talk(server, START | {"response_format": name}) as client:
        client.say("text", text="One.")
        client.say("end")
        client.until("done")
    assert b"".join(client.audio) == b"".join(encode_stream(name, iter([pcm]), 24_000))


def test_defaults_are_told(server: Running, tiny: Engine) -> None:
    with talk(server, None) as client:
        client.say("start")
        ready = client.event()
    assert ready.pop("seed") >= 0
    assert ready == {
        "type": "ready",
        "model": server.state.model_id,
        "voice": tiny.voices[0],
        "response_format": "pcm",
        "sample_rate": 24_000,
    }


def test_an_interruption_clears_what_was_not_heard(paced: PacedEngine) -> None:
    with running(paced) as server, talk(server, START | {"max_frames": 40}) as client:  # type: ignore[arg-type]
        client.say("text", text="A first sentence. A second one. And a beginning")
        client.until("segment.start")
        paced.let(3)
        until(lambda: paced.frames == 4)
        client.say("interrupt")
        assert client.until("segment.end")["finish_reason"] == "interrupted"
        assert client.event() == {"type": "interrupted"}
        until(server.is_idle)
        assert paced.frames <= 4 + 2
        client.audio.clear()
        paced.let(1000)
        client.say("text", text="New. ")
        client.say("end")
        assert client.until("segment.start")["text"] == "New."  # neither the second nor the beginning
        client.until("done")
        assert b"".join(client.audio) == expected(paced._engine, "New.", 40)
        assert server.metric("kazeia_cancellations_total", reason="interrupted") == 1


def test_an_interruption_after_the_end_still_ends(paced: PacedEngine) -> None:
    with running(paced) as server, talk(server, START | {"max_frames": 40}) as client:  # type: ignore[arg-type]
        client.say("text", text="A sentence.")
        client.say("end")
        client.until("segment.start")
        client.say("interrupt")
        client.until("interrupted")
        assert client.event() == {"type": "done"}


def test_a_client_that_leaves_stops_its_work(paced: PacedEngine) -> None:
    with running(paced) as server:  # type: ignore[arg-type]
        with talk(server, START | {"max_frames": 40}) as client:
            client.say("text", text="A sentence. Another. ")
            client.say("end")
            client.until("segment.start")
            paced.let(2)
            until(lambda: paced.frames == 3)
        until(server.is_idle)
        assert paced.frames <= 3 + 2
        assert paced.at_work == 0


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "nonsense"}, "invalid_value"),
        ({}, "invalid_value"),
        ({"type": None}, "invalid_value"),
        ({"type": "text"}, "invalid_value"),
        ({"type": "text", "text": None}, "invalid_value"),
        ({"type": "text", "text": 3}, "invalid_value"),
        ({"type": "text", "text": "a", "x": 1}, "invalid_value"),
        ({"type": "text", "text": "a\ud800"}, "unspeakable_text"),
        ({"type": "text", "text": "x" * 5000}, "string_above_max_length"),
        ({"type": "flush", "x": 1}, "unknown_parameter"),
        ({"type": "start"}, "invalid_value"),
        ("[]", "invalid_json"),
        ("{", "invalid_json"),
        ('{"type": NaN}', "invalid_json"),
        ("", "invalid_json"),
        (b"\x00\x01", "invalid_json"),
    ],
)
def test_a_wrong_message_is_answered_and_the_talk_goes_on(server: Running, message: Any, code: str) -> None:
    with talk(server) as client:
        client.socket.send(json.dumps(message) if isinstance(message, dict) else message)
        event = client.event()
        assert (event["type"], event["error"]["code"]) == ("error", code)
        assert set(event["error"]) == {"message", "type", "param", "code"}
        client.say("text", text="Go on.")
        client.say("end")
        client.until("done")
        assert client.audio


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "text", "text": "a"}, "not_started"),
        ({}, "not_started"),
        (START | {"voice": "nobody"}, "voice_not_found"),
        (START | {"voice": None}, "invalid_type"),
        (START | {"model": "gpt-5"}, "model_not_found"),
        (START | {"response_format": "ogg"}, "invalid_value"),
        (START | {"speed": 9}, "invalid_value"),
        (START | {"input": "a"}, "unknown_parameter"),
        (START | {"language": "xx"}, "language_not_found"),
        (START | {"instructions": "Whisper."}, "instructions_not_supported"),
    ],
)
def test_a_wrong_start_ends_the_talk(server: Running, message: dict[str, Any], code: str) -> None:
    with talk(server, None) as client:
        client.socket.send(json.dumps(message))
        assert client.event()["error"]["code"] == code
        with pytest.raises(ConnectionClosed):
            client.socket.recv(timeout=5)
        assert client.socket.close_code == 1008


def test_a_message_that_is_too_large_closes_the_connection(server: Running) -> None:
    with talk(server) as client:
        client.say("text", text="x" * 70_000)
        with pytest.raises(ConnectionClosed):
            client.until("never")
        assert client.socket.close_code == 1009


def test_a_silent_client_is_let_go(tiny: Engine) -> None:
    with running(tiny, time_limit_s=0.3) as server, talk(server) as client:
        assert client.event()["error"]["code"] == "idle"


def test_a_segment_that_takes_too_long_is_stopped(paced: PacedEngine) -> None:
    with running(paced, time_limit_s=0.5) as server, talk(server) as client:  # type: ignore[arg-type]
        client.say("text", text="A sentence. ")
        client.say("flush")
        assert client.until("error")["error"]["code"] == "time_limit"
        assert client.until("segment.end")["finish_reason"] == "error"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "https://evil.example", "Authorization": f"Bearer {KEY}"}, 403),
    ],
)
def test_the_handshake_is_guarded(tiny: Engine, headers: dict[str, str], status: int) -> None:
    with running(tiny, api_key=KEY) as server:
        with pytest.raises(InvalidStatus) as refused, talk(server, additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["error"]["message"]
        with talk(server, additional_headers={"Authorization": f"Bearer {KEY}"}) as client:
            client.say("end")
            client.until("done")


def test_pages_of_the_server_itself_may_talk(server: Running) -> None:
    with talk(server, additional_headers={"Origin": server.url}) as client:
        client.say("end")
        assert client.event() == {"type": "done"}


def test_many_talks_at_once_each_sound_as_alone(server: Running, tiny: Engine) -> None:
    texts = [f"Number {n}." for n in range(6)]

    def one(text: str) -> bytes:
        with talk(server) as client:
            client.say("text", text=text)
            client.say("end")
            client.until("done")
        return b"".join(client.audio)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, texts)) == [expected(tiny, text) for text in texts]
    until(server.is_idle)

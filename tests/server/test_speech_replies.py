"""What is heard over HTTP is what the library speaks, in every format and form."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import openai
import pytest
from running import TEXT, Running, events, request, running, until

from kazeia import Sampling
from kazeia.audio.encode import FORMATS, encode_stream, encode_whole
from kazeia.audio.stretch import TimeStretch
from kazeia.audio.wav import pcm_bytes, wav_bytes
from kazeia.engine import Engine
from kazeia.errors import GenerationError
from kazeia.server.voices import OPENAI_VOICES, choose_voice, model_id, voice_aliases
from stated_lengths import stated_samples

RATE = 24_000
FRAMES = 6


@pytest.fixture(scope="module")
def pcm(load_engine: Callable[..., Engine]) -> np.ndarray:
    """What the library makes of the tests' request."""
    return load_engine("tiny").synthesize(TEXT, voice="ryan", seed=7, max_frames=FRAMES).pcm


@pytest.fixture(scope="module")
def client(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0)


def speech_schema(server: Running) -> dict[str, Any]:
    """What the OpenAPI document says of a request to speak."""
    post = server.http.get("/openapi.json").json()["paths"]["/v1/audio/speech"]["post"]
    return dict(post["requestBody"]["content"]["application/json"]["schema"])


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_stream_is_the_library_s_audio_encoded(server: Running, pcm: np.ndarray, name: str) -> None:
    response = server.speak(response_format=name)
    assert response.status_code == 200
    assert response.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in response.headers
    assert response.headers["content-type"] == FORMATS[name].media_type.format(rate=RATE)
    assert response.content == b"".join(encode_stream(name, iter([pcm]), RATE))
    assert response.headers["x-kazeia-seed"] == "7"
    assert response.headers["x-kazeia-voice"] == "ryan"
    assert int(response.headers["x-kazeia-first-audio-ms"]) >= 0


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_complete_reply_has_exact_sizes_and_tells_all(server: Running, pcm: np.ndarray, name: str) -> None:
    response = server.speak(response_format=name, stream=False)
    assert "transfer-encoding" not in response.headers
    assert int(response.headers["content-length"]) == len(response.content)
    assert response.content == encode_whole(name, pcm, RATE)
    assert response.headers["x-kazeia-finish-reason"] == "limit"
    assert response.headers["x-kazeia-frames"] == str(FRAMES)
    assert response.headers["x-kazeia-audio-ms"] == str(80 * FRAMES)
    if name not in ("aac", "pcm"):  # which have no place for it
        assert stated_samples(name, response.content) == len(pcm)


def test_a_complete_wav_is_read_by_everybody(server: Running, pcm: np.ndarray) -> None:
    with wave.open(io.BytesIO(server.speak(response_format="wav", stream=False).content)) as file:
        assert (file.getnframes(), file.getframerate()) == (len(pcm), RATE)


def test_speech_that_ends_by_itself_says_so(ending: Engine) -> None:
    with running(ending) as server:
        response = server.speak(stream=False, response_format="pcm", max_frames=...)
        assert response.headers["x-kazeia-finish-reason"] == "stop"
        assert response.content == pcm_bytes(ending.synthesize(TEXT, voice="ryan", seed=7).pcm)


@pytest.mark.parametrize("name", list(FORMATS))
def test_events_carry_the_same_bytes(server: Running, pcm: np.ndarray, name: str) -> None:
    response = server.speak(response_format=name, stream_format="sse")
    assert response.headers["content-type"].startswith("text/event-stream")
    *deltas, done = events(response.text)
    assert {d["type"] for d in deltas} == {"speech.audio.delta"}
    audio = b"".join(base64.b64decode(d["audio"]) for d in deltas)
    assert audio == b"".join(encode_stream(name, iter([pcm]), RATE))
    assert done["type"] == "speech.audio.done"
    assert done["usage"] == {
        "input_tokens": len(TEXT),
        "output_tokens": FRAMES,
        "total_tokens": len(TEXT) + FRAMES,
    }
    assert (done["seed"], done["finish_reason"]) == (7, "limit")
    assert done["timings"]["audio_ms"] == 80 * FRAMES


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.75])
def test_speed_stretches_what_the_library_makes(server: Running, pcm: np.ndarray, speed: float) -> None:
    stretch = TimeStretch(speed, RATE)
    expected = np.concatenate([stretch.push(pcm), stretch.finish()])
    for stream in (True, False):
        assert server.speak(response_format="pcm", speed=speed, stream=stream).content == pcm_bytes(expected)


def test_every_option_reaches_the_engine(server: Running, tiny: Engine) -> None:
    options = {
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.9,
        "repetition_penalty": 1.2,
        "repetition_window": 9,
    }
    predictor = {"temperature": 0.5, "top_k": 10, "top_p": 0.8, "repetition_penalty": 1.1}
    expected = tiny.synthesize(
        "Bonjour !",
        voice="serena",
        language="french",
        seed=5,
        max_frames=4,
        sampling=Sampling(**options),  # type: ignore[arg-type]
        predictor_sampling=tiny.predictor_sampling().replace(**predictor),
    )
    response = server.speak(
        input="Bonjour !",
        voice="alloy",
        language="fr",
        seed=5,
        max_frames=4,
        response_format="pcm",
        **options,
        **{f"cp_{name}": value for name, value in predictor.items()},
    )
    assert response.content == pcm_bytes(expected.pcm)


def test_a_seed_that_was_drawn_gives_the_same_again(server: Running) -> None:
    first = server.speak(seed=..., response_format="pcm")
    again = server.speak(seed=int(first.headers["x-kazeia-seed"]), response_format="pcm")
    assert first.content == again.content
    assert server.speak(seed=..., response_format="pcm").content != first.content


def test_instructions_are_followed_where_the_model_can(load_engine: Callable[..., Engine]) -> None:
    engine = load_engine("tiny-1b7")
    expected = engine.synthesize(TEXT, voice="ryan", seed=7, max_frames=FRAMES, instruct="Whisper.")
    with running(engine) as server:
        assert server.http.get("/v1/models").json()["data"][0]["takes_instructions"] is True
        heard = server.speak(instructions="Whisper.", response_format="pcm").content
        assert heard == pcm_bytes(expected.pcm)
        assert server.speak(response_format="pcm").content != heard
        assert "instructions" in speech_schema(server)["properties"]


def test_instructions_are_refused_where_the_model_follows_none(server: Running) -> None:
    assert server.http.get("/v1/models").json()["data"][0]["takes_instructions"] is False
    for fields in ({}, {"stream": False}, {"stream_format": "sse"}):
        response = server.speak(instructions="Whisper.", **fields)
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["param"], error["code"]) == ("instructions", "instructions_not_supported")
        assert "1.7B" in error["message"]
    assert "instructions" not in speech_schema(server)["properties"]


def test_a_long_text_is_spoken_in_pieces(server: Running, tiny: Engine) -> None:
    text = "One sentence after another. " * 30
    response = server.speak(input=text, response_format="pcm", max_frames=12)
    assert response.content == pcm_bytes(tiny.synthesize(text, voice="ryan", seed=7, max_frames=12).pcm)


def test_parallel_requests_equal_their_serial_bytes(server: Running) -> None:
    mixed: list[dict[str, Any]] = [
        {
            "seed": number,
            "response_format": name,
            "speed": speed,
            "stream": stream,
            "input": f"Number {number}.",
        }
        for number, (name, speed, stream) in enumerate(
            [("pcm", 1, True), ("wav", 1, False), ("flac", 1, True), ("flac", 1.5, False)] * 2
            + [("wav", 0.8, True), ("mp3", 1, True), ("opus", 1, True), ("aac", 1, False)]
        )
    ]
    serial = [server.speak(**fields).content for fields in mixed]
    with ThreadPoolExecutor(len(mixed)) as pool:
        parallel = list(pool.map(lambda fields: server.speak(**fields).content, mixed))
    assert parallel == serial


# OpenAI's own client


@pytest.mark.parametrize("name", list(FORMATS))
def test_openai_create(client: openai.OpenAI, server: Running, name: Any) -> None:
    reply = client.audio.speech.create(
        model="gpt-4o-mini-tts",
        voice="verse",  # ryan
        input=TEXT,
        response_format=name,
        extra_body={"seed": 7, "max_frames": FRAMES},
    )
    assert reply.content == server.speak(response_format=name).content


def test_openai_create_as_a_complete_file(client: openai.OpenAI, pcm: np.ndarray) -> None:
    extra = {"seed": 7, "max_frames": FRAMES, "stream": False}
    reply = client.audio.speech.create(
        model="tts-1", voice="verse", input=TEXT, response_format="wav", extra_body=extra
    )
    assert reply.content == wav_bytes(pcm, RATE)


def test_openai_with_streaming_response(client: openai.OpenAI, pcm: np.ndarray) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1",
        voice="verse",
        input=TEXT,
        response_format="pcm",
        stream_format="audio",
        extra_body={"seed": 7, "max_frames": FRAMES},
    ) as response:
        pieces = list(response.iter_bytes())
        assert response.headers["x-kazeia-seed"] == "7"
    assert b"".join(pieces) == pcm_bytes(pcm)
    assert len(pieces) > 1


def test_openai_events(client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="verse", input=TEXT, stream_format="sse", extra_body={"max_frames": 3}
    ) as response:
        found = events("\n".join(response.iter_lines()))
    assert [e["type"] for e in found][-1] == "speech.audio.done"


def test_openai_errors_have_their_classes(client: openai.OpenAI) -> None:
    say = client.audio.speech.create
    with pytest.raises(openai.BadRequestError, match="nobody") as bad:
        say(model="tts-1", voice="nobody", input=TEXT)
    assert (bad.value.param, bad.value.code) == ("voice", "voice_not_found")
    with pytest.raises(openai.NotFoundError, match="gpt-5"):
        say(model="gpt-5", voice="alloy", input=TEXT)
    with pytest.raises(openai.UnprocessableEntityError, match="nothing to say"):
        say(model="tts-1", voice="alloy", input="…")


def test_openai_models(client: openai.OpenAI, server: Running) -> None:
    names = [model.id for model in client.models.list()]
    assert names[0] == server.state.model_id
    assert {"tts-1", "tts-1-hd", "gpt-4o-mini-tts"} < set(names)
    assert client.models.retrieve(names[0]).id == names[0]


# Names


def test_voices_are_listed_with_openai_s_names(server: Running, tiny: Engine) -> None:
    found = server.http.get("/v1/audio/voices").json()
    assert [v["id"] for v in found["data"]] == [v["id"] for v in found["voices"]] == list(tiny.voices)
    assert found["aliases"] == {n: OPENAI_VOICES[n] for n in OPENAI_VOICES}
    assert sum(len(v["aliases"]) for v in found["data"]) == len(OPENAI_VOICES)
    assert found["languages"][0] == "auto"


@pytest.mark.parametrize("voices", [["kazeia"], ["a", "b"], ["alloy", "x"], ["ryan", "serena"], []])
def test_aliases_lead_to_voices_that_there_are(voices: list[str]) -> None:
    aliases = voice_aliases(voices)
    assert set(aliases.values()) <= set(voices)
    assert set(aliases) == (set(OPENAI_VOICES) - set(voices) if voices else set())
    for name, own in aliases.items():
        assert choose_voice(name, voices) == own
    for own in voices:
        assert choose_voice(own, voices) == own


def test_a_model_s_folder_is_not_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret" / "my-model").mkdir(parents=True)
    assert model_id(str(tmp_path / "secret" / "my-model")) == "my-model"
    monkeypatch.chdir(tmp_path)
    assert model_id("secret/my-model") == "my-model"
    assert model_id("Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice") == "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"


# Failures of the model


class BrokenEngine:
    """An engine that fails at a chosen chunk."""

    def __init__(self, engine: Engine, at: int) -> None:
        self._engine, self._at = engine, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, text: str, **asked: Any) -> Any:
        def chunks() -> Any:
            for index, chunk in enumerate(self._engine.stream(text, chunk_frames=1, **asked)):
                if index == self._at:
                    raise GenerationError("talker logits: 3 NaN at /secret/place")
                yield chunk

        return chunks()

    def synthesize(self, text: str, **asked: Any) -> Any:
        if "cancel" in asked:  # not the warm-up
            raise GenerationError("talker logits: 3 NaN at /secret/place")
        return self._engine.synthesize(text, **asked)


def test_a_failure_before_the_first_sound_is_a_refusal(tiny: Engine) -> None:
    with running(BrokenEngine(tiny, 0)) as server:  # type: ignore[arg-type]
        for fields in ({}, {"stream": False}, {"stream_format": "sse"}):
            response = server.speak(**fields)
            assert response.status_code == 500
            assert response.json()["error"]["type"] == "server_error"
            assert "secret" not in response.text


def test_a_failure_later_leaves_the_reply_visibly_incomplete(tiny: Engine) -> None:
    import httpx

    with running(BrokenEngine(tiny, 2)) as server:  # type: ignore[arg-type]
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            server.speak(response_format="pcm")
        *_, last = events(server.speak(stream_format="sse", response_format="pcm").text)
        assert last["error"]["code"] == "generation_failed"
        assert "secret" not in last["error"]["message"]
        assert server.speak(stream=False).status_code == 500
        until(server.is_idle)


def test_the_openapi_document_describes_what_is_served(server: Running) -> None:
    schema = speech_schema(server)
    assert schema["required"] == ["model", "input", "voice"]
    assert set(request()) < set(schema["properties"])
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(request(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(request(speed=5), schema)

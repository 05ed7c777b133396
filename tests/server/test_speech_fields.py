"""Every field of a request to speak: what is wrong is refused by name, with a status that fits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from running import Running, request, until

from kazeia.audio.encode import FORMATS
from kazeia.server.fields import speech_fields

PATHS = ("../../etc/passwd", "/etc/passwd", "..\\..\\x", "%2e%2e%2fx", "a\x00b", "file:///etc/hosts", ".")
NOT_STRINGS: tuple[Any, ...] = (None, 1, 1.5, True, [], ["x"], {}, {"x": 1})
NOT_NUMBERS: tuple[Any, ...] = (None, "", " ", "1", True, [], {}, [1])
SAMPLERS = ("", "cp_")

# The bad values of each field, and the statuses that fit.
BAD: dict[str, tuple[tuple[Any, ...], set[int]]] = {
    "model": ((*NOT_STRINGS, ..., "", "  ", "gpt-5", *PATHS, "x" * 10_000, "random:tiny@7"), {400, 404}),
    "input": ((*NOT_STRINGS, ..., "", " \n\t ", "…", "🙂", "?!", "===", "x" * 4097), {400, 422}),
    "voice": (
        (
            *(v for v in NOT_STRINGS if v != {"x": 1}),
            ...,
            "",
            " ",
            "nobody",
            *PATHS,
            {"x": 1},
            {"id": None},
            {"id": ""},
            {"id": 3},
            {"id": "nobody"},
            {"id": "ryan", "x": 1},
            {"id": {"id": "ryan"}},
            "x" * 10_000,
        ),
        {400},
    ),
    "response_format": ((*NOT_STRINGS, "", " ", "MP3", "ogg", "wav ", "m4a", *PATHS), {400}),
    "speed": ((*NOT_NUMBERS, 0, -1, 0.2499, 4.0001, 1e308, 10**400), {400}),
    "instructions": ((*NOT_STRINGS, "", "  ", "x" * 5000), {400}),
    "stream_format": ((*NOT_STRINGS, "", "SSE", "json", "events"), {400}),
    "stream": ((None, 0, 1, "true", "", [], {}), {400}),
    "language": ((*NOT_STRINGS, "", " ", "klingon", "xx", *PATHS), {400}),
    "seed": ((*NOT_NUMBERS, -1, 2**64, 10**500, 1e19, 1.5), {400}),
    "max_frames": ((*NOT_NUMBERS, 0, -1, 1.5, 10**30, 10_001), {400}),
    **{f"{p}temperature": ((*NOT_NUMBERS, -0.1, 101, 1e300), {400}) for p in SAMPLERS},
    **{f"{p}top_k": ((*NOT_NUMBERS, -1, 1.5, 10**30), {400}) for p in SAMPLERS},
    **{f"{p}top_p": ((*NOT_NUMBERS, 0, -0.1, 1.01), {400}) for p in SAMPLERS},
    **{f"{p}repetition_penalty": ((*NOT_NUMBERS, 0, -1, 1e9), {400}) for p in SAMPLERS},
    **{f"{p}repetition_window": ((*NOT_NUMBERS, -1, 1.5, 10**30), {400}) for p in SAMPLERS},
}
CASES = [
    pytest.param(field, value, statuses, id=f"{field}-{repr(value)[:30]}")
    for field, (values, statuses) in BAD.items()
    for value in values
]


def refused(response: Any) -> dict[str, Any]:
    """The error of a refusal, whose shape is OpenAI's."""
    assert response.headers["content-type"] == "application/json"
    document = response.json()
    assert set(document) == {"error"}
    assert set(document["error"]) == {"message", "type", "param", "code"}
    message = document["error"]["message"]
    assert len(message) < 2000
    assert "Traceback" not in message
    assert 'File "' not in message
    return dict(document["error"])


def test_the_table_covers_every_field() -> None:
    assert set(BAD) == {field.name for field in speech_fields(10)}


@pytest.mark.parametrize(("field", "value", "statuses"), CASES)
def test_a_bad_value_is_refused_by_name(server: Running, field: str, value: Any, statuses: set[int]) -> None:
    response = server.speak(**{field: value})
    assert response.status_code in statuses
    error = refused(response)
    assert error["param"] == field
    assert error["code"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("field", ["speed", "seed", "max_frames", "temperature", "cp_top_p"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_has_not_are_refused(server: Running, field: str, number: str) -> None:
    body = json.dumps(request(**{field: ...}))[:-1] + f', "{field}": {number}}}'
    response = server.http.post(
        "/v1/audio/speech", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400
    assert refused(response)["code"] in ("invalid_json", "invalid_value", "invalid_type")


@pytest.mark.parametrize(
    ("value", "status", "code"),
    [
        ("", 400, "invalid_value"),
        ("…", 422, "unspeakable_text"),
        ("x" * 4097, 400, "string_above_max_length"),
        (None, 400, "invalid_type"),
        (..., 400, "missing_required_parameter"),
    ],
)
def test_a_bad_text_says_in_which_way(server: Running, value: Any, status: int, code: str) -> None:
    response = server.speak(input=value)
    assert (response.status_code, refused(response)["code"]) == (status, code)


def test_an_unknown_model_is_not_found(server: Running) -> None:
    response = server.speak(model="gpt-5")
    assert (response.status_code, refused(response)["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("name", ["emotion", "Input", "", "x" * 500, "schlüssel", "__class__"])
def test_an_unknown_field_is_refused(server: Running, name: str) -> None:
    response = server.speak(**{name: 1})
    assert response.status_code == 400
    assert refused(response)["code"] == "unknown_parameter"


def test_events_cannot_be_complete(server: Running) -> None:
    response = server.speak(stream=False, stream_format="sse")
    assert response.status_code == 400
    assert refused(response)["param"] == "stream"


BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "two documents": b"{}{}",
    "an array": b"[]",
    "a string": b'"hello"',
    "null": b"null",
    "not UTF-8": b'{"input": "\xff\xfe"}',
    "UTF-16": '{"model": "tts-1"}'.encode("utf-16"),
    "a lone surrogate": b'{"model": "tts-1", "voice": "ryan", "input": "a\\ud800b"}',
    "a key twice": b'{"model": "tts-1", "model": "tts-1", "voice": "ryan", "input": "a"}',
    "a key twice inside": b'{"model": "tts-1", "voice": {"id": "ryan", "id": "ryan"}, "input": "a"}',
    "a byte order mark": b'\xef\xbb\xbf{"model": "tts-1", "voice": "ryan", "input": "a"}',
    "a lone surrogate as a key": b'{"\\ud800": 1}',
    "a raw surrogate": b'{"model": "tts-1", "voice": "ryan", "input": "a\xed\xa0\x80b"}',
    "deep": b"[" * 30_000,
    "deep objects": b'{"a":' * 10_000,
    "a number of many digits": b'{"seed": ' + b"9" * 20_000 + b"}",
}


@pytest.mark.parametrize("name", list(BODIES))
def test_a_body_that_is_no_request_is_refused(server: Running, name: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = server.http.post("/v1/audio/speech", content=BODIES[name], headers=headers)
    assert response.status_code == 400
    refused(response)


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_other_content_types_are_refused(server: Running, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    response = server.http.post("/v1/audio/speech", content=json.dumps(request()), headers=headers)
    assert response.status_code == 415
    refused(response)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(server: Running, chunked: bool) -> None:
    body = json.dumps(request(instructions="x" * 70_000)).encode()
    content = iter([body[:1000], body[1000:]]) if chunked else body
    headers = {"Content-Type": "application/json"}
    response = server.http.post("/v1/audio/speech", content=content, headers=headers)
    assert (response.status_code, refused(response)["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/audio/speech", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/models/gpt-5", 404),
        ("GET", "/v1/models/../../etc/passwd", 404),
        ("GET", "/v1/models/%2e%2e%2fetc%2fpasswd", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/.git/config", 404),
    ],
)
def test_other_paths_and_methods_are_refused(server: Running, method: str, path: str, status: int) -> None:
    response = server.http.request(method, path)
    assert response.status_code == status
    refused(response)


GOOD: tuple[dict[str, Any], ...] = (
    {"voice": {"id": "ryan"}},
    {"voice": "RYAN"},
    {"voice": "alloy"},
    {"model": "gpt-4o-mini-tts"},
    {"speed": 1},
    {"seed": 2**64 - 1},
    {"seed": 0},
    {"seed": 7.0, "max_frames": 2.0},
    {"language": "fr-FR"},
    {"language": "auto"},
    {"temperature": 0, "cp_temperature": 0},
    {"top_k": 0, "top_p": 1, "repetition_penalty": 1, "repetition_window": 0},
    {"input": "a"},
    {"input": "日本語。"},
    {"input": "NUL \x00 and \x1b[31mred."},
    {"input": "a" + "\u0301" * 4000},
    *({"response_format": name} for name in FORMATS),
)


@pytest.mark.parametrize("fields", GOOD, ids=lambda fields: repr(fields)[:40])
def test_good_values_are_spoken(server: Running, fields: dict[str, Any]) -> None:
    response = server.speak(**{"max_frames": 2} | fields)
    assert response.status_code == 200
    assert len(response.content) > 100


def test_nothing_above_was_an_error_of_the_server(server: Running) -> None:
    samples = [s for m in server.state.metrics.registry.collect() for s in m.samples]
    outcomes = {s.labels["outcome"] for s in samples if s.name == "kazeia_requests_total"}
    assert outcomes
    assert not [o for o in outcomes if o.startswith("5")]
    until(server.is_idle)

"""Who may ask: keys, host names, origins, rates; and what the server tells about itself."""

from __future__ import annotations

from typing import Any

import pytest
from running import KEY, Running, request, running

from kazeia.engine import Engine
from kazeia.errors import OptionError
from kazeia.server.access import RateLimit, is_open
from kazeia.server.errors import ApiError
from kazeia.server.settings import ServerSettings

SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def guarded(load_engine: Any) -> Any:
    with running(load_engine("tiny"), api_key=KEY, cors_origins=("https://good.example",)) as server:
        yield server


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY}x", "Bearer \xff"],
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/audio/voices", "/metrics", SPEECH, "/nothing"])
def test_without_the_key_nothing_is_told(guarded: Running, header: str | None, path: str) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    response = guarded.http.request("POST" if path == SPEECH else "GET", path, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] in ("missing_api_key", "invalid_api_key")
    assert KEY not in response.text


def test_with_the_key_all_is_open(guarded: Running) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    assert guarded.http.post(SPEECH, json=request(), headers=headers).status_code == 200
    assert guarded.http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_needs_no_key(guarded: Running, path: str) -> None:
    assert guarded.http.get(path).status_code == 200


def test_only_the_page_and_the_health_checks_are_open() -> None:
    assert all(map(is_open, ("/", "/health", "/ready", "/static/page.js")))
    assert not any(map(is_open, ("/v1/models", "/healthy", "//", "/metrics", "/openapi.json", "")))


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""])
def test_other_host_names_are_refused(server: Running, host: str) -> None:
    response = server.http.get("/v1/models", headers={"Host": host})
    assert (response.status_code, response.json()["error"]["code"]) == (421, "unknown_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "localhost."])
def test_the_names_of_this_machine_are_answered(server: Running, host: str) -> None:
    assert server.http.get("/v1/models", headers={"Host": host}).status_code == 200


def test_allowed_hosts() -> None:
    assert ServerSettings().hosts == ("127.0.0.1", "::1", "localhost")
    assert ServerSettings(host="0.0.0.0").hosts is None
    assert ServerSettings(host="0.0.0.0", allowed_hosts=("tts.example",)).hosts == ("tts.example",)


def test_cors_lets_the_named_sites_in_and_no_other(guarded: Running) -> None:
    asked = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
    allowed = guarded.http.options(SPEECH, headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://good.example"
    refused = guarded.http.options(SPEECH, headers=asked | {"Origin": "https://bad.example"})
    assert "access-control-allow-origin" not in refused.headers
    reply = guarded.http.post(
        SPEECH,
        json=request(),
        headers={"Origin": "https://good.example", "Authorization": f"Bearer {KEY}"},
    )
    assert "X-Kazeia-Seed" in reply.headers["access-control-expose-headers"]


def test_without_cors_no_site_is_let_in(server: Running) -> None:
    reply = server.http.get("/v1/models", headers={"Origin": "https://any.example"})
    assert "access-control-allow-origin" not in reply.headers


def test_a_rate_limit_is_kept(tiny: Engine) -> None:
    with running(tiny, rate_limit=3) as server:
        statuses = [server.http.get("/v1/models").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        response = server.speak()
        assert response.status_code == 429
        assert response.json()["error"]["type"] == "rate_limit_error"
        assert 1 <= int(response.headers["retry-after"]) <= 20
        assert server.http.get("/health").status_code == 200


def test_rates_recover_and_are_each_client_s_own() -> None:
    now = [0.0]
    rate = RateLimit(60, lambda: now[0])
    for _ in range(60):
        rate.take("a")
    with pytest.raises(ApiError):
        rate.take("a")
    rate.take("b")
    now[0] = 1.0
    rate.take("a")
    with pytest.raises(ApiError):
        rate.take("a")
    for number in range(20_000):
        rate.take(str(number))
    assert len(rate._buckets) == 10_000


def test_every_reply_carries_the_safety_headers(server: Running) -> None:
    for response in (server.http.get("/health"), server.http.get("/nothing"), server.speak()):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert "server" not in response.headers


def test_metrics_count(server: Running) -> None:
    before = server.metric("kazeia_frames_total")
    server.speak()
    text = server.http.get("/metrics").text
    assert server.metric("kazeia_frames_total") == before + request()["max_frames"]
    for name in (
        "kazeia_requests_total",
        "kazeia_running 0.0",
        "kazeia_queue 0.0",
        "kazeia_first_audio_seconds_bucket",
        "kazeia_rtf_bucket",
        "kazeia_frames_total",
        "# HELP kazeia_cancellations_total",
    ):
        assert name in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", -1),
        ("port", 65_536),
        ("port", True),
        ("max_concurrent", 0),
        ("max_queue", -1),
        ("time_limit_s", 0),
        ("time_limit_s", float("nan")),
        ("grace_s", -1),
        ("max_text_chars", 0),
        ("max_body_bytes", 10),
        ("rate_limit", -1),
        ("api_key", ""),
        ("api_key", "schlüssel"),
        ("host", ""),
        ("wyoming_port", 70_000),
    ],
)
def test_settings_out_of_range_are_option_errors(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name.removesuffix("_s").replace("api_key", "API key")):
        ServerSettings().replace(**{name: value})

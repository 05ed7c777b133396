"""The page: it speaks as it streams, stops, shows errors, and downloads what was heard."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from paced_engine import PacedEngine
from running import KEY, Running, running, until

from kazeia.audio.wav import wav_bytes
from kazeia.engine import Engine

STATIC = Path(__file__).parents[2] / "src" / "kazeia" / "server" / "static"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = bool(os.environ.get("KAZEIA_REQUIRE_CHROMIUM"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/page.js", "text/javascript; charset=utf-8"),
        ("/static/player.js", "text/javascript; charset=utf-8"),
        ("/static/page.css", "text/css; charset=utf-8"),
    ],
)
def test_its_files_are_served_without_a_key(load_engine: Callable[..., Engine], path: str, kind: str) -> None:
    with running(load_engine("tiny"), api_key=KEY) as server:
        first = server.http.get(path)
        assert (first.status_code, first.headers["content-type"]) == (200, kind)
        again = server.http.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("file", sorted(STATIC.iterdir()), ids=lambda file: file.name)
def test_it_needs_nothing_from_elsewhere(file: Path) -> None:
    text = file.read_text("utf-8")
    assert not re.search(r"""https?://|(?:src|href)=["']//|url\(|@import""", text)
    assert not re.search(r"""\son[a-z]+=["']|style=["']|javascript:|eval\(|innerHTML""", text)


def test_everything_in_the_form_has_a_label() -> None:
    html = (STATIC / "index.html").read_text("utf-8")
    fields = re.findall(r"<(?:input|select|textarea)[^>]* id=\"([^\"]+)\"", html)
    assert len(fields) > 10
    assert set(fields) <= set(re.findall(r"<label for=\"([^\"]+)\"", html))
    assert '<html lang="en">' in html
    assert re.search(r'id="error" role="alert"', html)
    assert re.search(r'id="status" role="status"', html)


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium of the system."""
    if CHROMIUM is None:
        if REQUIRED:
            pytest.fail("KAZEIA_REQUIRE_CHROMIUM is set, but no chromium is installed")
        pytest.skip("no chromium on this machine (Debian: apt install chromium)")
    if not REQUIRED:
        pytest.importorskip("playwright", reason="the package playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--mute-audio", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a server's page; anything that goes wrong in it, or leaves the server, fails the test."""
    context = browser.new_context(accept_downloads=True)
    context.grant_permissions([])
    troubles: list[str] = []

    def open_page(server: Running, fragment: str = "") -> Any:
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((server.url, "blob:", "data:"))
                or troubles.append(f"asked for {request.url}")
            ),
        )
        page.goto(f"{server.url}/{fragment}")
        return page

    yield open_page
    context.close()
    assert not troubles


def fill(page: Any, **fields: Any) -> None:
    page.locator("#voice option").first.wait_for(state="attached")
    page.locator("#more").evaluate("more => more.open = true")
    for name, value in fields.items():
        place = page.locator(f"#{name}")
        if place.evaluate("e => e.tagName") == "SELECT":
            place.select_option(str(value))
        else:
            place.fill(str(value))


def test_it_plays_and_downloads_what_the_library_speaks(
    server: Running, tiny: Engine, open_page: Callable[..., Any]
) -> None:
    page = open_page(server)
    fill(page, text="Hello, page.", voice="ryan", language="english", seed="7", max_frames="12")
    assert page.locator("#noise").is_visible() == tiny.is_random
    page.locator("#speak").click()
    page.get_by_text("Done.").wait_for()
    assert page.locator("#error").inner_text() == ""
    assert re.fullmatch(r"\d+ ms", page.locator("#first").inner_text())
    assert re.fullmatch(r"\d+\.\d\d", page.locator("#rtf").inner_text())
    assert page.locator("#length").inner_text() == "0.96 s"
    assert page.locator("#used-seed").inner_text() == "7"
    assert page.locator("#ended").inner_text() == "limit"
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.suggested_filename == "kazeia-7.wav"
    speech = tiny.synthesize("Hello, page.", voice="ryan", language="english", seed=7, max_frames=12)
    assert Path(waiting.value.path()).read_bytes() == wav_bytes(speech.pcm, speech.sample_rate)
    drawn = page.locator("#wave").evaluate(
        "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    )
    assert drawn > 2


def test_the_pieces_join_without_a_gap(server: Running, open_page: Callable[..., Any]) -> None:
    page = open_page(server)
    page.evaluate(
        """() => {
          window.starts = [];
          const start = AudioBufferSourceNode.prototype.start;
          AudioBufferSourceNode.prototype.start = function (when) {
            window.starts.push([when, this.buffer.length, this.buffer.sampleRate]);
            return start.call(this, when);
          };
        }"""
    )
    # Pieces at hand, so that it does not depend on how busy the machine is.
    page.evaluate(
        """async () => {
          const { Player } = await import("/static/player.js");
          const player = new Player(24000);
          for (const size of [1920, 3840, 1, 7680, 777]) player.push(new Int16Array(size));
          player.stop();
          await player.whenDone;
        }"""
    )
    starts = page.evaluate("window.starts")
    assert [length for _, length, _ in starts] == [1920, 3840, 1, 7680, 777]
    assert {rate for _, _, rate in starts} == {24_000}
    for (when, length, rate), (following, _, _) in pairwise(starts):
        assert following == pytest.approx(when + length / rate, abs=1e-9)


def test_it_stops(paced: PacedEngine, open_page: Callable[..., Any]) -> None:
    with running(paced) as server:  # type: ignore[arg-type]
        page = open_page(server)
        fill(page, text="A long one.", max_frames="400")
        page.locator("#speak").click()
        paced.let(4)
        page.get_by_text("Speaking …").wait_for()
        assert page.locator("#speak").is_disabled()
        page.keyboard.press("Escape")
        page.get_by_text("Stopped.").wait_for()
        until(server.is_idle)
        assert page.locator("#error").inner_text() == ""
        assert page.locator("#speak").is_enabled()


def test_it_shows_what_the_server_refuses(server: Running, open_page: Callable[..., Any]) -> None:
    page = open_page(server)
    fill(page, text="…")
    page.locator("#text").press("Control+Enter")
    page.get_by_role("alert").get_by_text("nothing to say").wait_for()
    fill(page, text="Better.", max_frames="2")
    page.locator("#speak").click()
    page.get_by_text("Done.").wait_for()
    assert page.locator("#error").inner_text() == ""


def test_a_link_speaks_the_same_again(server: Running, open_page: Callable[..., Any]) -> None:
    page = open_page(server)
    largest = str(2**64 - 1)  # more than a number of JavaScript's holds exactly
    fill(page, text="Again & again.", voice="serena", seed=largest, temperature="0.7", max_frames="5")
    page.locator("#speak").click()
    page.get_by_text("Done.").wait_for()
    page.locator("#link").click()
    page.wait_for_function("location.hash.length > 10")
    with page.expect_download() as first:
        page.locator("#download").click()
    other = open_page(server, page.evaluate("location.hash"))
    other.locator("#voice option").first.wait_for(state="attached")
    assert other.locator("#seed").input_value() == largest
    assert other.locator("#voice").input_value() == "serena"
    other.locator("#speak").click()
    other.get_by_text("Done.").wait_for()
    with other.expect_download() as second:
        other.locator("#download").click()
    assert Path(first.value.path()).read_bytes() == Path(second.value.path()).read_bytes()


def test_a_key_can_be_given(load_engine: Callable[..., Engine], open_page: Callable[..., Any]) -> None:
    with running(load_engine("tiny"), api_key=KEY) as server:
        page = open_page(server)
        page.get_by_role("alert").get_by_text("no API key").wait_for()
        page.locator("#more").evaluate("more => more.open = true")
        page.locator("#key").fill(KEY)
        page.locator("#key").press("Tab")
        fill(page, text="Let in.", max_frames="2")
        page.locator("#speak").click()
        page.get_by_text("Done.").wait_for()


def test_it_is_used_by_keyboard_alone(server: Running, open_page: Callable[..., Any]) -> None:
    page = open_page(server, "#max_frames=2")
    page.locator("#voice option").first.wait_for(state="attached")
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    wanted = ["text", "voice", "language", "speed", "seed", "SUMMARY", "speak"]
    assert [name for name in reached if name in wanted][: len(wanted)] == wanted
    page.locator("#speak").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Done.").wait_for()

"""Playback complains by name when it cannot play, and only then (L10)."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

from kazeia.audio.playback import Player, play
from kazeia.errors import MissingDependencyError, PlaybackError


class PortAudioError(Exception):
    pass


class Device(types.ModuleType):
    """A stand-in for sounddevice that writes down what happens."""

    PortAudioError = PortAudioError

    def __init__(self, fail_at: str = "") -> None:
        super().__init__("sounddevice")
        self.log: list[str] = []
        self.heard: list[np.ndarray] = []
        self.fail_at = fail_at

    def step(self, name: str) -> None:
        self.log.append(name)
        if name == self.fail_at:
            raise PortAudioError("Error querying device -1")

    def OutputStream(self, **options: Any) -> Device:
        assert options == {"samplerate": 24000, "channels": 1, "dtype": "float32"}
        self.step("open")
        return self

    def start(self) -> None:
        self.step("start")

    def write(self, samples: np.ndarray) -> None:
        assert samples.dtype == np.float32
        assert samples.flags["C_CONTIGUOUS"]
        self.heard.append(samples)
        self.step("write")

    def stop(self) -> None:
        self.step("stop")

    def close(self) -> None:
        self.step("close")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(module: Any) -> Any:
        monkeypatch.setitem(sys.modules, "sounddevice", module)
        return module

    return put


def test_all_chunks_are_played_in_order_and_to_their_end(install: Any) -> None:
    device = install(Device())
    play([np.array([0.5, 2.0]), np.zeros(0, np.float32), np.array([-3.0], np.float32)], 24000)
    assert device.log == ["open", "start", "write", "write", "stop", "close"]
    assert np.concatenate(device.heard).tolist() == [[0.5], [1.0], [-1.0]]


def test_a_missing_package_names_what_to_install(install: Any) -> None:
    install(None)  # what a missing package looks like to an import
    with pytest.raises(MissingDependencyError, match=r'pip install "kazeia\[play\]"'):
        play([], 24000)


@pytest.mark.parametrize("error", [OSError("PortAudio library not found"), PortAudioError("no host API")])
def test_a_missing_portaudio_is_a_playback_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch, install: Any
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == "sounddevice":
                raise error

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(PlaybackError, match=f"{error}.*write a file instead"):
        play([], 24000)


@pytest.mark.parametrize(
    ("step", "closed"), [("open", False), ("start", True), ("write", True), ("stop", True)]
)
def test_no_device_is_a_playback_error_and_nothing_stays_open(step: str, closed: bool, install: Any) -> None:
    device = install(Device(fail_at=step))
    with pytest.raises(PlaybackError, match="Error querying device -1"):
        play([np.zeros(5)], 24000)
    assert (device.log[-1] == "close") == closed
    assert device.log.count("close") == int(closed)


def test_an_error_in_the_middle_silences_at_once(install: Any) -> None:
    device = install(Device())

    def interrupted() -> None:
        with Player(24000) as player:
            player.write(np.zeros(5))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert device.log == ["open", "start", "write", "close"]  # no stop, which would wait


def test_importing_the_module_touches_no_sound_library() -> None:
    code = "import sys, kazeia.audio.playback; assert 'sounddevice' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

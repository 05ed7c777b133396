"""Playing audio as it is made. `sounddevice` is optional and imported only when used."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import MissingDependencyError, PlaybackError


class Player:
    """The default output device, opened for mono float32 at `sample_rate` Hz.

    Raises MissingDependencyError without the package sounddevice, PlaybackError without PortAudio or
    without a device: at once, before any speech has been made.
    """

    def __init__(self, sample_rate: int) -> None:
        device = _sounddevice()
        self._errors: type[Exception] = device.PortAudioError
        self._stream: Any = None
        try:
            self._stream = device.OutputStream(samplerate=sample_rate, channels=1, dtype="float32")
            self._stream.start()
        except self._errors as error:
            self.abort()
            raise PlaybackError(
                f"cannot play at {sample_rate} Hz: {error}; connect an output device, or write a file instead"
            ) from error

    def write(self, pcm: NDArray[Any]) -> None:
        """Play samples (n,), floats of -1 … 1; returns when the device has taken them."""
        if not pcm.size:
            return
        samples = np.ascontiguousarray(np.clip(pcm, -1.0, 1.0), dtype=np.float32)
        try:
            self._stream.write(samples[:, None])  # (n, 1)
        except self._errors as error:
            raise PlaybackError(f"playing stopped: {error}") from error

    def close(self) -> None:
        """Wait until all has been heard, then let go of the device. May be called twice."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        try:
            stream.stop()
        except self._errors as error:
            raise PlaybackError(f"playing stopped: {error}") from error
        finally:
            stream.close()

    def abort(self) -> None:
        """Fall silent at once and let go of the device. May be called twice."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()  # drops what was not heard yet

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def play(chunks: Iterable[NDArray[Any]], sample_rate: int) -> None:
    """Play pieces of audio, each (n,) floats of -1 … 1, one after the other, to their end.

    Raises MissingDependencyError or PlaybackError; see `Player`.
    """
    with Player(sample_rate) as player:
        for pcm in chunks:
            player.write(pcm)


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError as error:
        raise MissingDependencyError(
            'playing needs the package sounddevice, which is not installed; run: pip install "kazeia[play]"'
        ) from error
    except OSError as error:  # the package is there, the C library is not
        raise PlaybackError(
            f"the PortAudio library was not found ({error}); install it "
            "(Debian: apt install libportaudio2), or write a file instead"
        ) from error
    except Exception as error:  # PortAudio is asked to start during the import
        raise PlaybackError(f"PortAudio did not start ({error}); write a file instead") from error
    return sounddevice

"""What a server's faces share."""

from __future__ import annotations

import contextlib
import time

from kazeia.audio.encode import encode_whole
from kazeia.engine import Engine
from kazeia.errors import MissingDependencyError
from kazeia.server.metrics import Metrics
from kazeia.server.settings import ServerSettings
from kazeia.server.speaking import Speaker
from kazeia.server.voices import model_id

_WARM_UP_TEXT = "Warm up."
_WARM_UP_FRAMES = 2


class ServerState:
    """The engine, its settings, and what is known about the server while it runs."""

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.metrics = Metrics()
        self.speaker = Speaker(
            engine,
            self.metrics,
            slots=settings.max_concurrent,
            max_waiting=settings.max_queue,
            time_limit_s=settings.time_limit_s,
        )
        self.model_id = model_id(engine.name)
        self.created = int(time.time())
        self.warm = False
        self.stopping = False

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return self.warm and not self.stopping

    def warm_up(self) -> None:
        """Speak a little into the void, so that the first request finds everything in place."""
        speech = self.engine.synthesize(_WARM_UP_TEXT, seed=0, max_frames=_WARM_UP_FRAMES)
        with contextlib.suppress(MissingDependencyError):  # then wav and pcm are all there is
            encode_whole("mp3", speech.pcm, speech.sample_rate)
        self.warm = True

    def stop(self) -> None:
        """Let nobody in any more; those who are being heard go on."""
        self.stopping = True
        self.speaker.admission.close()

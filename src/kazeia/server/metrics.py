"""What the server tells Prometheus about itself."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kazeia.speech import Timings

_SECONDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)


class Metrics:
    """The server's figures, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "kazeia_requests",
            "Requests by face and outcome: the HTTP status, or done, cancelled, failed.",
            ("face", "outcome"),
            registry=self.registry,
        )
        self.cancellations = Counter(
            "kazeia_cancellations",
            "Speeches that were stopped, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.frames = Counter("kazeia_frames", "Frames of 80 ms that were made.", registry=self.registry)
        self.audio = Counter("kazeia_audio_seconds", "Seconds of audio made.", registry=self.registry)
        self.finished = Counter(
            "kazeia_finish_reasons", "How speeches ended.", ("reason",), registry=self.registry
        )
        self.first_audio = Histogram(
            "kazeia_first_audio_seconds",
            "From a request's arrival to its first samples, waiting included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.queue_time = Histogram(
            "kazeia_queue_seconds", "Time in the queue.", buckets=(0.0, *_SECONDS), registry=self.registry
        )
        self.rtf = Histogram(
            "kazeia_rtf", "Seconds of work per second of audio.", buckets=_RATIOS, registry=self.registry
        )

    def watch(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Read the gauges from these functions, whenever somebody looks."""
        Gauge("kazeia_running", "Speeches in the making.", registry=self.registry).set_function(running)
        Gauge("kazeia_queue", "Requests that wait.", registry=self.registry).set_function(waiting)

    def spoken(self, timings: Timings, reason: str) -> None:
        """Count a finished speech."""
        self.finished.labels(reason).inc()
        self.frames.inc(timings.frames)
        self.audio.inc(timings.audio_s)
        if timings.audio_s:
            self.rtf.observe(timings.rtf)

    def text(self) -> bytes:
        """The figures in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

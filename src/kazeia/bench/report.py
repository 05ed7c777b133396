"""What a benchmark found: as data, and as tables in Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kazeia.bench.machine import Machine
from kazeia.bench.plan import LONG_SENTENCES, BenchPlan
from kazeia.bench.weights import WeightBytes

SPEED_COLUMNS = (
    "format",
    "threads",
    "streams",
    "load cold / warm",
    "prefill",
    "talker / frame",
    "predictor / frame",
    "decoder / frame",
    "RTF",
    "× real time",
    "first audio",
    "first audible",
    "stream / file",
    "peak RSS",
)
ROOFLINE_COLUMNS = (
    "format",
    "threads",
    "talker step",
    "weights",
    "GB/s",
    "of the DRAM",
    "predictor frame",
    "weights",
    "GB/s",
    "of the DRAM",
)
NONE = "–"


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]
    """In the order they were made; at least one."""

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest."""
        return max(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Median, low, high and all values."""
        return {"median": self.median, "low": self.low, "high": self.high, "values": list(self.values)}


def spread(values: Iterable[float]) -> Spread | None:
    """A Spread, or None of nothing."""
    found = tuple(values)
    return Spread(found) if found else None


@dataclass(frozen=True)
class Run:
    """One configuration: format × threads × streams. Figures of several streams are means over them."""

    quant: str
    threads: int
    """In all."""
    generator_threads: int
    side_by_side: bool
    """Whether the decoder has a thread of its own."""
    streams: int
    import_s: Spread
    """Importing the engine, which `kazeia.load` does not count."""
    load_cold_s: Spread | None
    """`kazeia.load` in a fresh process whose bundle's files had to come from the disk. None where the
    system could not be made to forget them."""
    load_warm_s: Spread
    """`kazeia.load` in a fresh process."""
    frames: Spread
    """Frames of 80 ms that were made."""
    prefill_ms: Spread
    talker_ms: Spread
    """Per frame."""
    predictor_ms: Spread
    """Per frame, sampling included."""
    decoder_ms: Spread
    """Per frame."""
    rtf: Spread
    """Seconds from call to end per second of audio, of a stream."""
    speed: Spread
    """Seconds of audio of all streams together per second."""
    first_audio_ms: Spread
    """From the call to a stream's first chunk."""
    first_audible_ms: Spread | None
    """Until a listener hears the first audible sample; None when there is none."""
    file_rtf: Spread | None
    """As `rtf`, for a file. One stream only, as all that follow."""
    stream_over_file: Spread | None
    long_rtf: Spread | None
    """Of a text of eight such sentences, as a file."""
    talker_step_ms: Spread | None
    """Of a talker step; the first frame needs none."""
    peak_rss: int | None
    """Bytes, of the process that did all this."""
    weights: WeightBytes

    @property
    def talker_gb_per_s(self) -> float | None:
        """Weights that the talker reads per second, in GB (1e9 bytes), when it reads them for one."""
        return _rate(self.weights.talker, self.talker_step_ms)

    @property
    def predictor_gb_per_s(self) -> float | None:
        """Weights that the code predictor reads per second, in GB, when it reads them for one."""
        return _rate(self.weights.predictor, self.predictor_ms) if self.talker_step_ms else None

    def shares(self, roof: float, cache: int | None) -> tuple[float | None, float | None]:
        """Talker's and predictor's shares of the roof, in GB/s; None where a `cache` (bytes) holds them."""
        held = self.weights.predictor_resident
        return (
            roofline(self.talker_gb_per_s, roof, self.weights.talker, cache),
            roofline(self.predictor_gb_per_s, roof, held, cache),
        )

    def to_dict(self, roof: float, cache: int | None) -> dict[str, Any]:
        """The fields; `roof` in GB/s and `cache` in bytes give the shares of the roofline."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            found[name] = value.to_dict() if isinstance(value, Spread) else value
        found["weights"] = vars(self.weights)
        found["talker_gb_per_s"] = self.talker_gb_per_s
        found["predictor_gb_per_s"] = self.predictor_gb_per_s
        found["talker_roofline"], found["predictor_roofline"] = self.shares(roof, cache)
        return found


@dataclass(frozen=True)
class OfficialRun:
    """The official package with so many threads."""

    dtype: str
    threads: int
    load_s: float
    rtf: Spread
    """Of a file: the package does not stream."""
    peak_rss: int | None
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return vars(self) | {"rtf": self.rtf.to_dict()}


@dataclass(frozen=True)
class BenchReport:
    """All runs of one benchmark."""

    model: str
    is_random: bool
    version: str
    """Kazeia's."""
    machine: Machine
    plan: BenchPlan
    voice: str
    bandwidth: dict[int, Spread]
    """GB/s read from main memory, by the number of threads that read."""
    runs: tuple[Run, ...]
    official: tuple[OfficialRun, ...] = ()

    @property
    def roof(self) -> float:
        """The DRAM roofline in GB/s: the best pass of any number of threads."""
        return max(found.high for found in self.bandwidth.values())

    def faster_than_official(self, run: Run) -> float | None:
        """How many times less time `run`'s stream took than the official package with as many threads."""
        for other in self.official:
            if other.threads == run.threads and run.streams == 1:
                return other.rtf.median / run.rtf.median
        return None

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        plan = self.plan
        return {
            "model": self.model,
            "random": self.is_random,
            "kazeia": self.version,
            "machine": self.machine.to_dict(),
            "text": plan.text,
            "voice": self.voice,
            "language": plan.language,
            "frames": plan.frames,
            "repeats": plan.repeats,
            "busy": plan.busy,
            "bandwidth_gb_per_s": {str(n): found.to_dict() for n, found in self.bandwidth.items()},
            "roof_gb_per_s": self.roof,
            "runs": [
                run.to_dict(self.roof, self.machine.l3_bytes)
                | {"faster_than_official": self.faster_than_official(run)}
                for run in self.runs
            ],
            "official": [run.to_dict() for run in self.official],
        }

    def markdown(self) -> str:
        """Two tables, and what one must know to read them."""
        rows = [_speed_row(run) for run in self.runs] + [_official_row(run) for run in self.official]
        blocks = [self._heading(), table(SPEED_COLUMNS, rows)]
        single = [run for run in self.runs if run.talker_step_ms is not None]
        if single:
            blocks.append(table(ROOFLINE_COLUMNS, [self._roofline_row(run) for run in single]))
        notes = self._notes()
        return "\n\n".join([*blocks, "\n".join(notes)] if notes else blocks)

    def _heading(self) -> str:
        m, plan = self.machine, self.plan
        read = ", ".join(
            f"{found.median:.1f} GB/s ({_threads(n)}; {found.low:.1f}–{found.high:.1f})"
            for n, found in sorted(self.bandwidth.items())
        )
        noise = " (random weights: noise)" if self.is_random else ""
        busy = ", one core kept busy by another process" if plan.busy else ""
        return (
            f"{self.model}{noise}, voice {self.voice}. {m.cpu}, {m.cores} cores{busy}; L3 {_mb(m.l3_bytes)}, "
            f"DRAM read {read}; Kazeia {self.version}, ONNX Runtime {m.onnxruntime}, Python {m.python}, "
            f"{m.system}.\n"
            f"Medians of {plan.repeats} (least–most) of streams of at most {plan.frames} frames "
            f"({plan.frames * 0.08:.1f} s): “{plan.text}”"
        )

    def _roofline_row(self, run: Run) -> list[str]:
        shares = run.shares(self.roof, self.machine.l3_bytes)
        row = [run.quant, str(run.threads)]
        for time, size, rate, share in (
            (run.talker_step_ms, run.weights.talker, run.talker_gb_per_s, shares[0]),
            (run.predictor_ms, run.weights.predictor, run.predictor_gb_per_s, shares[1]),
        ):
            row += [
                _ms(time),
                f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.2f} MB",
                NONE if rate is None else f"{rate:.1f}",
                NONE if share is None else f"{share:.0%}",
            ]
        return row

    def _notes(self) -> list[str]:
        notes = []
        for run in self.runs:
            name = f"{run.quant}, {_threads(run.threads)}"
            if run.long_rtf is not None:
                notes.append(f"* {name}: a text of {LONG_SENTENCES} sentences, RTF {_spread(run.long_rtf)}.")
            times = self.faster_than_official(run)
            if times is not None:
                notes.append(f"* {name}: {times:.1f} times as fast as the official package.")
        if any(run.streams > 1 for run in self.runs):
            notes.append("* RTF and first audio of several streams: means over them; × real time: their sum.")
        return notes


def roofline(rate: float | None, roof: float, size: int, cache: int | None) -> float | None:
    """The share of the memory's bandwidth (GB/s) that a rate is; None for weights that fit the cache."""
    fits = cache is not None and size <= cache
    return None if rate is None or fits else rate / roof


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return (
        "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        .replace("| --- ", "|---")
        .replace("|--- |", "|---|")
    )


def _speed_row(run: Run) -> list[str]:
    cold = NONE if run.load_cold_s is None else f"{run.load_cold_s.median:.2f}"
    return [
        run.quant,
        str(run.threads),
        str(run.streams),
        f"{cold} / {run.load_warm_s.median:.2f} s",
        _ms(run.prefill_ms, 0),
        _ms(run.talker_ms),
        _ms(run.predictor_ms),
        _ms(run.decoder_ms),
        _spread(run.rtf),
        f"{run.speed.median:.2f}",
        _ms(run.first_audio_ms, 0),
        _ms(run.first_audible_ms, 0),
        NONE if run.stream_over_file is None else f"{run.stream_over_file.median:.2f}",
        _gb(run.peak_rss),
    ]


def _official_row(run: OfficialRun) -> list[str]:
    cells = [f"official {run.dtype}", str(run.threads), "1", f"{run.load_s:.2f} s", *[NONE] * 4]
    speed = 1 / run.rtf.median
    return [*cells, _spread(run.rtf), f"{speed:.2f}", *[NONE] * 3, _gb(run.peak_rss)]


def _rate(size: int, time_ms: Spread | None) -> float | None:
    if time_ms is None or not time_ms.median > 0 or not math.isfinite(time_ms.median):
        return None
    return size / (time_ms.median / 1000) / 1e9


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _spread(found: Spread) -> str:
    return f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def _ms(found: Spread | None, digits: int = 1) -> str:
    return NONE if found is None else f"{found.median:.{digits}f} ms"


def _gb(size: int | None) -> str:
    return NONE if size is None else f"{size / 1e9:.2f} GB"


def _mb(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):.0f} MB"

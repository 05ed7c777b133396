"""Runs a benchmark: one child process after another, one configuration each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazeia._version import __version__
from kazeia.bench.bandwidth import measure_bandwidth
from kazeia.bench.children import busy_core, run_child
from kazeia.bench.machine import evict, this_machine
from kazeia.bench.official import DTYPE, check_installed, measure_official
from kazeia.bench.plan import BenchPlan
from kazeia.bench.report import BenchReport, OfficialRun, Run, Spread, spread
from kazeia.bench.weights import WeightBytes, weight_bytes
from kazeia.bundle import is_bundle, open_bundle
from kazeia.bundle_build import Progress
from kazeia.errors import OptionError
from kazeia.models import ModelInfo, cache_folder, inspect, model_name, open_model
from kazeia.quant import QUANT_PRESETS
from kazeia.runtime.threads import plan_threads, usable_cores
from kazeia.text.languages import resolve_language, resolve_voice

_ALL = ("q8", "q4", "f32")
assert set(_ALL) <= set(QUANT_PRESETS)


def run_bench(
    model: str | os.PathLike[str] | None = None,
    plan: BenchPlan | None = None,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Measure a model as the plan says; see `kazeia.load` for `model` and `cache_dir`.

    progress: told (what is being measured, share of the whole that is done).

    Bundles are built first, where they are missing. Settings in the environment (KZTTS_…) hold. Raises
    what `kazeia.load` and `Engine.synthesize` raise, OptionError for a plan that the model cannot
    follow, MissingDependencyError without the official package that the plan asks for, BenchmarkError.
    """
    plan, tell = plan or BenchPlan(), progress or (lambda what, share: None)
    name, cache = model_name(model), cache_folder(None if cache_dir is None else os.fspath(cache_dir))
    if plan.against == "official":
        check_installed()
    info = inspect(name, cache_dir=cache)
    voice = resolve_voice(plan.voice, info.voices)
    resolve_language(plan.language, info.languages)
    quants = _quants(info, plan)
    if plan.against == "official" and is_bundle(info.path):
        raise OptionError(
            f"{name}: this is a bundle, which the official package cannot read; give the checkpoint"
        )
    bundles = {quant: open_model(name, quant, cache, progress).bundle.path for quant in quants}
    work = [(quant, threads) for quant in quants for threads in plan.threads]
    steps = len(work) * len(plan.streams) + 1 + (len(plan.threads) if plan.against else 0)
    done = 0
    runs: list[Run] = []
    official: list[OfficialRun] = []
    with busy_core(plan.busy):
        tell("memory bandwidth", 0.0)
        bandwidth = {n: Spread(tuple(measure_bandwidth(n))) for n in sorted({1, usable_cores()})}
        for quant, threads in work:
            loads: Mapping[str, Any] | None = None
            for streams in plan.streams:
                done += 1
                tell(f"{quant}, {_threads(threads)}, {streams} streams", done / steps)
                order = _order(name, quant, threads, streams, cache, plan) | {"voice": voice}
                loads = loads or _loads(order, bundles[quant], plan.repeats)
                found = run_child("kazeia.bench.worker", order, f"{quant} with {streams} streams")
                runs.append(_run(quant, streams, loads, found, weight_bytes(bundles[quant])))
        for threads in plan.threads if plan.against else ():
            done += 1
            tell(f"the official package, {_threads(threads)}", done / steps)
            official.append(_official(info, plan, voice, threads))
    return BenchReport(
        model=name,
        is_random=info.is_random,
        version=__version__,
        machine=this_machine(),
        plan=plan,
        voice=voice,
        bandwidth=bandwidth,
        runs=tuple(runs),
        official=tuple(official),
    )


def _quants(info: ModelInfo, plan: BenchPlan) -> tuple[str, ...]:
    if not is_bundle(info.path):
        return plan.quants or _ALL
    own = open_bundle(info.path).quant
    if plan.quants not in (None, (own,)):
        raise OptionError(
            f"{info.name}: this bundle holds {own} only; leave out the formats, or give its checkpoint"
        )
    return (own,)


def _order(
    name: str, quant: str, threads: int | None, streams: int, cache: Path, plan: BenchPlan
) -> dict[str, Any]:
    return {
        "model": name,
        "quant": quant,
        "threads": threads,
        "streams": streams,
        "cache_dir": str(cache),
        "text": plan.text,
        "long_text": plan.long_text if plan.long and streams == 1 else None,
        "language": plan.language,
        "frames": plan.frames,
        "repeats": plan.repeats,
    }


def _loads(order: dict[str, Any], bundle: Path, repeats: int) -> dict[str, list[float]]:
    """Load in fresh processes: after the files were forgotten, then with them in memory."""
    only_load = order | {"repeats": 0}
    files = [path for path in bundle.rglob("*") if path.is_file()]
    matrices = weight_bytes(bundle)
    least = (matrices.talker + matrices.decoder) // 2
    cold, warm, imports = [], [], []
    for _ in range(repeats):
        if evict(files):
            found = run_child("kazeia.bench.worker", only_load, "a cold load")
            # Only what really came from the disk was cold: other processes may hold the files.
            if (found["disk_bytes"] or 0) >= least:
                cold.append(found["load_s"])
        found = run_child("kazeia.bench.worker", only_load, "a warm load")
        warm.append(found["load_s"])
        imports.append(found["import_s"])
    return {"cold": cold, "warm": warm, "import": imports}


def _run(
    quant: str, streams: int, loads: Mapping[str, Any], found: Mapping[str, Any], weights: WeightBytes
) -> Run:
    def of(name: str) -> Spread:
        return Spread(tuple(found[name]))

    def perhaps(name: str) -> Spread | None:
        return spread(found.get(name, ()))

    return Run(
        quant=quant,
        threads=found["generator_threads"] + found["side_by_side"],
        generator_threads=found["generator_threads"],
        side_by_side=found["side_by_side"],
        streams=streams,
        import_s=Spread(tuple(loads["import"])),
        load_cold_s=spread(loads["cold"]),
        load_warm_s=Spread((*loads["warm"], found["load_s"])),
        frames=of("frames"),
        prefill_ms=of("prefill_ms"),
        talker_ms=of("talker_ms"),
        predictor_ms=of("predictor_ms"),
        decoder_ms=of("decoder_ms"),
        rtf=of("rtf"),
        speed=of("speed"),
        first_audio_ms=of("first_audio_ms"),
        first_audible_ms=perhaps("first_audible_ms"),
        file_rtf=perhaps("file_rtf"),
        stream_over_file=perhaps("stream_over_file"),
        long_rtf=perhaps("long_rtf"),
        talker_step_ms=perhaps("talker_step_ms"),
        peak_rss=found["peak_rss"],
        weights=weights,
    )


def _official(info: ModelInfo, plan: BenchPlan, voice: str, asked: int | None) -> OfficialRun:
    kazeia = plan_threads(asked)
    threads = kazeia.generator + kazeia.side_by_side
    language = resolve_language(plan.language, info.languages) or "Auto"
    found = measure_official(
        info.path,
        text=plan.text,
        voice=voice,
        language=language,
        frames=plan.frames,
        repeats=plan.repeats,
        threads=threads,
    )
    return OfficialRun(
        dtype=DTYPE,
        threads=threads,
        load_s=found["load_s"],
        rtf=Spread(tuple(found["rtf"])),
        peak_rss=found["peak_rss"],
        versions=found["versions"],
    )


def _threads(count: int | None) -> str:
    return "default threads" if count is None else f"{count} threads"

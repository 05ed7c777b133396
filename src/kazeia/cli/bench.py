"""`kazeia bench` and `kazeia quality`: how fast a model is here, and what its formats cost it."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any, Optional

import typer

from kazeia.cli.guard import guarded
from kazeia.cli.lists import names, numbers
from kazeia.cli.options import CacheDir, Debug, Model, Quiet
from kazeia.cli.progress import Display

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Voice = Annotated[
    Optional[str],  # noqa: UP045  typer reads these types at run time
    typer.Option("--voice", "-v", metavar="NAME", help="One of `kazeia voices`. Default: the first."),
]


def bench(
    model: Model = None,
    quant: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--quant", metavar="F,F", help="Formats. Default: q8,q4,f32, or a bundle's own."),
    ] = None,
    threads: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--threads", metavar="N,N", help="CPU threads in all. Default: what the machine allows."
        ),
    ] = None,
    streams: Annotated[
        str, typer.Option("--streams", metavar="N,N", help="Streams that speak at the same time.")
    ] = "1",
    repeats: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--repeats", metavar="N", help="Runs to take medians of. Default: 3."),
    ] = None,
    frames: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--frames", metavar="N", help="Stop a run after N frames of 80 ms. Default: 40."),
    ] = None,
    text: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--text", metavar="TEXT", help="What to say. Default: an English sentence of 12 words."),
    ] = None,
    voice: Voice = None,
    language: Annotated[
        str, typer.Option("--language", "-l", metavar="NAME", help='A name, a code such as "de", or "auto".')
    ] = "auto",
    long: Annotated[bool, typer.Option("--long", help="Measure a text of eight sentences, too.")] = False,
    busy: Annotated[
        bool, typer.Option("--busy", help="Keep one core busy by another process meanwhile.")
    ] = False,
    against: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--against", metavar="official", help="Run the official package in between, too."),
    ] = None,
    cache_dir: CacheDir = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure a model on this machine: loading, speed, first sound, memory, and what bounds them."""
    with guarded(debug):
        from kazeia.bench import BenchPlan, run_bench

        wanted = {
            "quants": names("--quant", quant),
            "threads": numbers("--threads", threads),
            "streams": numbers("--streams", streams),
            "repeats": repeats,
            "frames": frames,
            "text": text,
            "against": against,
        }
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        plan = BenchPlan(**given, voice=voice, language=language, long=long, busy=busy)
        with Display(quiet) as display:
            report = run_bench(model, plan, cache_dir=cache_dir, progress=display.loading)
        _print(report, json)


def _print(report: Any, json: bool) -> None:
    if json:
        print(json_module.dumps(report.to_dict(), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        print(report.markdown())

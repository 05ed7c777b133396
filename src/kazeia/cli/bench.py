"""`kazeia bench` and `kazeia quality`: how fast a model is here, and what its formats cost it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from kazeia.cli.facts import print_json
from kazeia.cli.guard import guarded
from kazeia.cli.lists import names, numbers
from kazeia.cli.options import CacheDir, Debug, Json, Language, Model, Quiet, Threads, Voice
from kazeia.cli.progress import Display


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
    language: Language = "auto",
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


def quality(
    model: Annotated[str, typer.Argument(help="Checkpoint: folder or hub id.", show_default=False)],
    quant: Annotated[
        str, typer.Option("--quant", metavar="F,F", help="Formats to compare with f32.")
    ] = "q8,q4",
    rollouts: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--rollouts", metavar="N", help="Utterances, with seeds 0, 1, 2 … Default: 8."),
    ] = None,
    frames: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--frames", metavar="N", help="Stop each after N frames of 80 ms. Default: 100."),
    ] = None,
    texts: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--texts", metavar="FILE", help="One text a line, UTF-8. Default: Kazeia's own."),
    ] = None,
    voice: Voice = None,
    language: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--language", "-l", metavar="NAME", help="Of the texts."),
    ] = None,
    judge: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--judge", metavar="DIR", help="Whisper model (CTranslate2) for word error rates."),
    ] = None,
    threads: Threads = None,
    cache_dir: CacheDir = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare a checkpoint's formats with f32: codes, chances, lengths, and what a judge hears."""
    with guarded(debug):
        from kazeia.quality import QualityPlan, assess_quality, open_judge

        wanted = {"rollouts": rollouts, "frames": frames, "texts": None if texts is None else _read(texts)}
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        quants = names("--quant", quant) or ()
        plan = QualityPlan(quants=quants, voice=voice, language=language, threads=threads, **given)
        ears = None if judge is None else open_judge(judge)
        with Display(quiet) as display:
            report = assess_quality(model, plan, judge=ears, cache_dir=cache_dir, progress=display.loading)
        _print(report, json)


def _read(file: Path) -> tuple[str, ...]:
    """The lines of a text file that are not empty."""
    from kazeia.errors import TextError
    from kazeia.text.clean import decode_text

    try:
        data = file.read_bytes()
    except OSError as error:
        raise TextError(f"cannot read the texts from {file}: {error.strerror or error}") from error
    return tuple(line.strip() for line in decode_text(data, str(file)).splitlines() if line.strip())


def _print(report: Any, json: bool) -> None:
    if json:
        print_json(report.to_dict())
    else:
        print(report.markdown())

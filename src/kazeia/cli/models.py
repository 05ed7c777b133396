"""`kazeia voices`, `convert` and `validate`: what a model holds, and whether it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from kazeia.cli.facts import print_json
from kazeia.cli.guard import ERROR, guarded, note
from kazeia.cli.options import CacheDir, Debug, Json, Model, Quant, Quiet, Threads
from kazeia.cli.progress import Display


def voices(
    model: Model = None,
    cache_dir: CacheDir = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List a model's voices and languages."""
    with guarded(debug):
        import kazeia

        info = kazeia.inspect(model, cache_dir=cache_dir)
        found: dict[str, Any] = {
            "model": info.name,
            "random": info.is_random,
            "sample_rate": info.sample_rate,
            "voices": list(info.voices),
            "languages": ["auto", *info.languages],
        }
        if json:
            print_json(found)
            return
        for kind in ("voices", "languages"):
            print(f"{kind}:")
            print("".join(f"  {name}\n" for name in found[kind]), end="")


def convert(
    model: Annotated[str, typer.Argument(help="Checkpoint: folder or hub id.", show_default=False)],
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="DIR", help="Where the bundle goes. Default: the cache."),
    ] = None,
    quant: Quant = "q8",
    cache_dir: CacheDir = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Build a model's bundle once, so that later starts are quick; prints its folder."""
    with guarded(debug):
        import kazeia

        with Display(quiet) as display:
            path = kazeia.build_bundle(
                model, quant=quant, out=output, cache_dir=cache_dir, progress=display.loading
            )
        if not quiet:
            note(f"ready: {path}")
        if json:
            print_json({"model": model, "quant": quant, "path": str(path)})
        else:
            print(path)


def validate(
    dump: Annotated[
        Path,
        typer.Option("--dump", metavar="DIR", help="A recording of the official package."),
    ],
    model: Model = None,
    quant: Quant = "f32",
    threads: Threads = None,
    cache_dir: CacheDir = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare a model with a recording of the official package, stage by stage; exit 1 if it differs."""
    with guarded(debug):
        import kazeia
        from kazeia.models import model_name

        report = kazeia.validate(model_name(model), dump, quant=quant, threads=threads, cache_dir=cache_dir)
        if json:
            print_json(report.to_dict())
        else:
            print("\n".join(report.lines()))
        if not report.ok:
            raise typer.Exit(ERROR)

"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

Model = Annotated[
    Optional[str],  # noqa: UP045  typer reads these types at run time
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="Folder, bundle, hub id or random:PRESET. Default: KAZEIA_MODEL, else the embedded voice.",
    ),
]
Quant = Annotated[
    str,
    typer.Option(
        "--quant", metavar="f32|q8|q4", help="Format of the weights; parts may differ, as in q4+predictor=q4."
    ),
]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--threads", metavar="N", help="CPU threads in all. Default: what the machine allows."),
]
CacheDir = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--cache-dir",
        metavar="DIR",
        help="Where prepared models are kept. Default: KAZEIA_CACHE.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no summary; warnings and errors still show.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

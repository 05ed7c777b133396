"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kazeia.cli import completion

_Text = Optional[str]  # noqa: UP045  typer reads these types at run time
_Count = Optional[int]  # noqa: UP045
_Number = Optional[float]  # noqa: UP045

Model = Annotated[
    _Text,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="Folder, bundle, hub id or random:PRESET. Default: KAZEIA_MODEL, else the embedded voice.",
        autocompletion=completion.models,
    ),
]
Quant = Annotated[
    str,
    typer.Option(
        "--quant",
        metavar="f32|q8|q4",
        help="Format of the weights; parts may differ, as in q4+predictor=q4.",
        autocompletion=completion.quants,
    ),
]
Threads = Annotated[
    _Count,
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Voice = Annotated[
    _Text,
    typer.Option(
        "--voice",
        "-v",
        metavar="NAME",
        help="One of `kazeia voices`. Default: the first.",
        autocompletion=completion.voices,
    ),
]
Language = Annotated[
    str,
    typer.Option(
        "--language",
        "-l",
        metavar="NAME",
        help='A name, a code such as "de", or "auto".',
        autocompletion=completion.languages,
    ),
]
Instruct = Annotated[_Text, typer.Option("--instruct", metavar="TEXT", help="How to say it (1.7B models).")]
Seed = Annotated[
    _Count,
    typer.Option("--seed", metavar="N", help="The same seed gives the same audio. Default: a fresh one."),
]
Format = Annotated[
    _Text,
    typer.Option(
        "--format",
        metavar="NAME",
        help="wav, mp3, opus, flac, m4a, aac or pcm. Default: by the file's name, else wav.",
        autocompletion=completion.formats,
    ),
]
Layout = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="whole|streamed",
        help="How the text is fed to the model.",
        autocompletion=completion.layouts,
    ),
]
NoMarkup = Annotated[bool, typer.Option("--no-markup", help="Speak [pause:400ms] instead of making a pause.")]

Temperature = Annotated[
    _Number, typer.Option("--temperature", metavar="T", help="Talker: 0 is greedy. Default: the model's.")
]
TopK = Annotated[_Count, typer.Option("--top-k", metavar="K", help="Talker: keep the K best; 0 is off.")]
TopP = Annotated[
    _Number, typer.Option("--top-p", metavar="P", help="Talker: keep the best up to this mass; 1 is off.")
]
RepetitionPenalty = Annotated[
    _Number, typer.Option("--repetition-penalty", metavar="R", help="Talker: 1 is off.")
]
RepetitionWindow = Annotated[
    _Count,
    typer.Option("--repetition-window", metavar="N", help="Talker: how many frames the penalty sees."),
]
CpTemperature = Annotated[
    _Number, typer.Option("--cp-temperature", metavar="T", help="Code predictor: as --temperature.")
]
CpTopK = Annotated[_Count, typer.Option("--cp-top-k", metavar="K", help="Code predictor: as --top-k.")]
CpTopP = Annotated[_Number, typer.Option("--cp-top-p", metavar="P", help="Code predictor: as --top-p.")]
CpRepetitionPenalty = Annotated[
    _Number,
    typer.Option("--cp-repetition-penalty", metavar="R", help="Code predictor: as --repetition-penalty."),
]
OfficialSampling = Annotated[
    bool, typer.Option("--official-sampling", help="Penalties as in the official package.")
]

"""What a shell offers for the values of options. Nothing is built, loaded or fetched for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer


def voices(context: typer.Context) -> list[str]:
    """The voices of the model that the line names so far."""
    return list(_described(context, "voices"))


def languages(context: typer.Context) -> list[str]:
    """The languages of the model that the line names so far."""
    return ["auto", *_described(context, "languages")]


def models() -> list[str]:
    """The names that are no folders; the shell knows those."""
    from kazeia.testing.shapes import SHAPES

    return ["embedded", *(f"random:{name}" for name in SHAPES)]


def quants() -> list[str]:
    """The formats of weights."""
    return ["f32", "q8", "q4"]


def layouts() -> list[str]:
    """How texts are fed."""
    return ["whole", "streamed"]


def formats() -> list[str]:
    """The formats of audio files."""
    from kazeia.audio.output import FILE_FORMATS

    return list(FILE_FORMATS)


def subtitles() -> list[str]:
    """The formats of subtitles, and both."""
    return ["srt", "vtt", "srt,vtt"]


def _described(context: typer.Context, what: str) -> tuple[str, ...]:
    """What a model says of itself; nothing of one that is not at hand."""
    name: Any = context.params.get("model") or os.environ.get("KAZEIA_MODEL") or "embedded"
    from kazeia.errors import KazeiaError
    from kazeia.models import EMBEDDED, inspect, is_random_name

    if is_random_name(name):
        from kazeia.testing.shapes import LANGUAGES, SPEAKERS

        return tuple(entry[0] for entry in (SPEAKERS if what == "voices" else LANGUAGES))
    if name != EMBEDDED and not Path(name).expanduser().is_dir():
        return ()
    try:
        return tuple(getattr(inspect(name, cache_dir=context.params.get("cache_dir")), what))
    except KazeiaError:
        return ()  # the command itself will say what is wrong

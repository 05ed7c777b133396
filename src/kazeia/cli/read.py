"""`kazeia read`: a book into one audio file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from kazeia.cli import completion
from kazeia.cli import options as opt
from kazeia.cli.deliver import checked_file, refuse_the_source
from kazeia.cli.facts import print_json, reading_facts
from kazeia.cli.guard import LIMIT, guarded, note
from kazeia.cli.lists import names
from kazeia.cli.order import STDIO, Order, checked_pause, make_order
from kazeia.cli.progress import Display, remaining

if TYPE_CHECKING:
    from kazeia.reading import Book, Reading


def read(
    book: Annotated[
        str,
        typer.Argument(help='Text or Markdown (.md) in UTF-8; "-" is standard input.', show_default=False),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write: .m4a, .m4b, .mp3, .opus, .ogg, .flac, .wav, .aac.",
            show_default=False,
        ),
    ],
    format: opt.Format = None,
    subtitles: Annotated[
        Optional[str],  # noqa: UP045  typer reads these types at run time
        typer.Option(
            "--subtitles",
            metavar="srt,vtt",
            help="Subtitles to write beside it.",
            autocompletion=completion.subtitles,
        ),
    ] = None,
    no_chapters: Annotated[
        bool, typer.Option("--no-chapters", help="Take headings for paragraphs, and set no marks.")
    ] = False,
    title: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--title", metavar="TEXT", help="Of the book. Default: its own, else the file's name."),
    ] = None,
    author: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--author", metavar="TEXT", help="Of the book."),
    ] = None,
    model: opt.Model = None,
    voice: opt.Voice = None,
    language: opt.Language = "auto",
    instruct: opt.Instruct = None,
    seed: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--seed",
            metavar="N",
            help="The same seed gives the same audio. Default: that of the reading that goes on, else a "
            "fresh one.",
        ),
    ] = None,
    quant: opt.Quant = "q8",
    threads: opt.Threads = None,
    cache_dir: opt.CacheDir = None,
    max_frames: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--max-frames", metavar="N", help="Stop each piece after N frames of 80 ms. Default: by its text."
        ),
    ] = None,
    layout: opt.Layout = "whole",
    segment_chars: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--segment-chars",
            metavar="N",
            help="Cut paragraphs into pieces of about N characters, each a subtitle. Default: 300.",
        ),
    ] = None,
    segment_pause: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--segment-pause", metavar="MS", help="Silence between the pieces of a paragraph. Default: 0."
        ),
    ] = None,
    paragraph_pause: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--paragraph-pause", metavar="MS", help="Silence between paragraphs. Default: 400."),
    ] = None,
    chapter_pause: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--chapter-pause", metavar="MS", help="Silence before a chapter. Default: 1200."),
    ] = None,
    no_markup: opt.NoMarkup = False,
    temperature: opt.Temperature = None,
    top_k: opt.TopK = None,
    top_p: opt.TopP = None,
    repetition_penalty: opt.RepetitionPenalty = None,
    repetition_window: opt.RepetitionWindow = None,
    cp_temperature: opt.CpTemperature = None,
    cp_top_k: opt.CpTopK = None,
    cp_top_p: opt.CpTopP = None,
    cp_repetition_penalty: opt.CpRepetitionPenalty = None,
    official_sampling: opt.OfficialSampling = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Read a long text into one audio file, with chapters and subtitles.

    Pieces that are finished are kept in the folder FILE.kazeia until the book is whole: interrupted or
    killed, the same command goes on from there, and the audio is the same. Up to eight are at work at a time.
    """
    with guarded(debug):
        if output == STDIO:
            raise typer.BadParameter("a book is read into a file; give -o FILE")
        from kazeia.reading.read import subtitle_paths
        from kazeia.reading.subtitles import check_subtitles

        checked_file(output, format)
        kinds = check_subtitles(names("--subtitles", subtitles) or ())
        pauses = {
            "segment_pause": segment_pause,
            "paragraph_pause": paragraph_pause,
            "chapter_pause": chapter_pause,
        }
        given = {
            name: checked_pause(f"--{name.replace('_', '-')}", ms)
            for name, ms in pauses.items()
            if ms is not None
        }
        order = make_order(
            talker={
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "repetition_penalty": repetition_penalty,
                "repetition_window": repetition_window,
            },
            predictor={
                "temperature": cp_temperature,
                "top_k": cp_top_k,
                "top_p": cp_top_p,
                "repetition_penalty": cp_repetition_penalty,
            },
            official=official_sampling,
            seed=seed,
            voice=voice,
            language=language,
            instruct=instruct,
            max_frames=max_frames,
            layout=layout,
            markup=not no_markup,
            **given,
            **({} if segment_chars is None else {"segment_chars": segment_chars}),
        )
        if book != STDIO:
            refuse_the_source(book, output, *subtitle_paths(output, kinds).values())
        found = _open(book, headings=not no_chapters)
        reading, random, seconds = _read(
            found,
            output,
            order,
            {"model": model, "quant": quant, "threads": threads, "cache_dir": cache_dir},
            quiet,
            format=format,
            subtitles=kinds,
            title=title,
            author=author,
        )
        if json:
            print_json(reading_facts(reading, random))
        elif not quiet:
            _summary(reading, seconds, random)
        _warn_of_unfinished(reading, max_frames)


def _read(
    book: Book, output: str, order: Order, loading: dict[str, Any], quiet: bool, **wanted: Any
) -> tuple[Reading, bool, float]:
    """The reading, whether its model's weights are random, and how many seconds it took."""
    import kazeia
    from kazeia.reading import Style, read_book
    from kazeia.reading.work import work_path

    try:
        with (
            Display(quiet) as display,
            kazeia.load(warm_up=False, progress=display.loading, **loading) as engine,
        ):
            style = order.speech | order.sampling(engine)
            seed = style.pop("seed")
            reading = read_book(
                engine, book, output, style=Style(**style), seed=seed, progress=display.loading, **wanted
            )
            return reading, engine.is_random, display.elapsed()
    except KeyboardInterrupt:
        if os.path.isdir(work_path(output)):
            note(f"what was spoken is kept in {work_path(output)}; the same command goes on from there")
        raise


def _open(book: str, *, headings: bool) -> Book:
    from kazeia.reading import open_book, parse_book

    if book != STDIO:
        return open_book(book, headings=headings)
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal; give the name of a file")
    return parse_book(sys.stdin.buffer.read(), name="standard input", headings=headings)


def _summary(reading: Reading, seconds: float, random: bool) -> None:
    count, kept = len(reading.pieces), sum(piece.kept for piece in reading.pieces)
    resumed = f" ({kept} of them kept from before)" if kept else ""
    chapters = f"{len(reading.chapters)} chapters, " if reading.chapters else ""
    if reading.chapters and not reading.has_marks:
        chapters = f"{len(reading.chapters)} chapters (without marks, which {reading.format} cannot hold), "
    beside = "".join(f", {os.fspath(path)}" for path in reading.subtitles)
    note(
        f'"{reading.title}" {reading.voice}, {reading.language}, seed {reading.seed}: {chapters}'
        f"{count} piece{'s' if count != 1 else ''}{resumed}, {remaining(reading.duration)} of audio in "
        f"{remaining(seconds)}, finish: {reading.finish_reason} -> {reading.path}{beside}"
    )
    if random:
        note("this model's weights are random numbers, so the sound is noise, not speech")


def _warn_of_unfinished(reading: Reading, asked: int | None) -> None:
    """Say what was not spoken to its end, as `say` does; exit with its code."""
    ends = {"runaway"} if asked is not None else {"runaway", "limit"}
    cut = [piece for piece in reading.pieces if piece.finish_reason in ends]
    if not cut:
        return
    at = remaining(cut[0].start / reading.sample_rate)
    note(
        f"{len(cut)} of {len(reading.pieces)} pieces were stopped at a limit, before the model ended by "
        f"itself, the first at {at}: {cut[0].text[:40]!r}; the audio up to there is kept (try another "
        "--seed)",
        "warning",
    )
    raise typer.Exit(LIMIT)

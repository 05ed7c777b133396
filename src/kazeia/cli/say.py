"""`kazeia say`: text in, speech out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from kazeia.cli import options as opt
from kazeia.cli.deliver import Target, choose_target, deliver, opened, refuse_the_source
from kazeia.cli.facts import print_json, speech_facts
from kazeia.cli.guard import LIMIT, guarded, note
from kazeia.cli.lines import LineTargets, choose_targets, describe, speak_lines
from kazeia.cli.order import STDIO, Order, checked_pause, make_order, read_text
from kazeia.cli.progress import Display

if TYPE_CHECKING:
    from kazeia import Engine, Speech
    from kazeia.audio.playback import Player

_SHOWN_CHARS = 40


def say(
    text: Annotated[
        Optional[str],  # noqa: UP045  typer reads these types at run time
        typer.Argument(help='What to say; "-", or nothing at all, reads standard input.', show_default=False),
    ] = None,
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--file", "-f", metavar="FILE", help="Read the text from a file in UTF-8."),
    ] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Speak standard input line by line, each line as it arrives.")
    ] = False,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write: .wav, .mp3, .opus, .ogg, .flac, .m4a, .aac; "
            '"-" is standard output, which is also taken when it is a pipe. '
            "With --stdin also a folder, or a name with {n}, for a file per line.",
        ),
    ] = None,
    format: opt.Format = None,
    model: opt.Model = None,
    voice: opt.Voice = None,
    language: opt.Language = "auto",
    instruct: opt.Instruct = None,
    seed: opt.Seed = None,
    quant: opt.Quant = "q8",
    threads: opt.Threads = None,
    cache_dir: opt.CacheDir = None,
    stream: Annotated[bool, typer.Option("--stream", help="Write the audio while it is generated.")] = False,
    play: Annotated[bool, typer.Option("--play", help="Play the audio while it is generated.")] = False,
    max_frames: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--max-frames", metavar="N", help="Stop after N frames of 80 ms. Default: by the text."),
    ] = None,
    layout: opt.Layout = "whole",
    segment_pause: Annotated[
        float,
        typer.Option("--segment-pause", metavar="MS", help="Silence between pieces of a long text."),
    ] = 0,
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
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object about the speech; with --stdin, one per line.")
    ] = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Speak a text into an audio file, a pipe or the loudspeaker.

    Standard output carries nothing but audio, or JSON; progress and a summary go to standard error.
    """
    with guarded(debug):
        if stdin and (file is not None or text not in (None, STDIO)):
            raise typer.BadParameter("--stdin reads standard input; give no other text")
        targets = choose_targets(output, format, play, stream) if stdin else None
        target = choose_target(output, format, play, stream) if targets is None else targets.one
        if file is not None and target.output not in (None, STDIO):
            refuse_the_source(file, target.output)
        if json and target.output == STDIO:
            raise typer.BadParameter("standard output cannot carry audio and JSON; give -o FILE or --play")
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
            segment_pause=checked_pause("--segment-pause", segment_pause),
            markup=not no_markup,
        )
        loading = {"model": model, "quant": quant, "threads": threads, "cache_dir": cache_dir}
        teller = _Teller(order, json, quiet)
        try:
            if targets is not None:
                code = _speak_lines(order, targets, teller, loading, quiet)
            else:
                whole = read_text(text, file, markup=not no_markup)
                code = _speak(order, target, whole, teller, loading, quiet)
        except BaseException:
            order.cancel.set()
            raise
        if code:
            raise typer.Exit(code)


def _speak(
    order: Order, target: Target, text: str, teller: _Teller, loading: dict[str, Any], quiet: bool
) -> int:
    """Speak one text; the exit code."""
    from kazeia.budget import expected_frames

    with Display(quiet) as display:
        limit = order.speech["max_frames"]
        display.expect(expected_frames(text) if limit is None else min(limit, expected_frames(text)))
        # not warmed up: that would take as long as the one call gains
        with _ready(target, display, loading, warm_up=False) as (engine, player):
            arguments = order.arguments(engine, display.speaking)
            with opened(target, engine.sample_rate) as writer:
                speech = deliver(engine, text, arguments, stream=target.stream, writer=writer, player=player)
            random = engine.is_random
    return teller.tell(text, target, speech, random)


def _speak_lines(
    order: Order, targets: LineTargets, teller: _Teller, loading: dict[str, Any], quiet: bool
) -> int:
    """Speak standard input; the exit code."""
    with Display(quiet) as display, _ready(targets.one, display, loading, warm_up=True) as (engine, player):
        display.close()  # the first line may take its time

        def tell(number: int, text: str, target: Target, speech: Speech) -> int:
            display.close()
            return teller.tell(text, target, speech, engine.is_random, number)

        def tell_error(number: int, error: Exception) -> None:
            display.close()
            teller.tell_error(number, error)

        return speak_lines(engine, order, targets, player, display.speaking, tell, tell_error)


@contextlib.contextmanager
def _ready(
    target: Target, display: Display, loading: dict[str, Any], *, warm_up: bool
) -> Iterator[tuple[Engine, Player | None]]:
    """The engine, and the loudspeaker if it is wanted."""
    import kazeia
    from kazeia.audio.playback import Player

    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(kazeia.load(progress=display.loading, warm_up=warm_up, **loading))
        # Opened first, so that it complains before the work.
        player = stack.enter_context(Player(engine.sample_rate)) if target.play else None
        yield engine, player


class _Teller:
    """What is said of each speech, and its exit code."""

    def __init__(self, order: Order, json: bool, quiet: bool) -> None:
        self._asked = order.speech["max_frames"]
        self._json, self._quiet = json, quiet
        self._noise_told = False

    def tell(self, text: str, target: Target, speech: Speech, random: bool, line: int | None = None) -> int:
        """The summary and the warnings; `line` is the text's number where there are several."""
        if self._json:
            facts = speech_facts(speech, target.output, target.format, random)
            print_json(facts if line is None else {"line": line} | facts, one_line=line is not None)
        elif not self._quiet:
            self._summary(text, target, speech, line)
        if random and not self._quiet and not self._noise_told:
            note("this model's weights are random numbers, so the sound is noise, not speech")
            self._noise_told = True
        said = _unfinished(speech, self._asked)
        if said is None:
            return 0
        note(f"{'' if line is None else f'line {line}: '}{said}", "warning")  # an exit code wants its reason
        return LIMIT

    def tell_error(self, line: int, error: Exception) -> None:
        """A line that was not spoken."""
        describe(line, error)
        if self._json:
            print_json({"line": line, "error": str(error)}, one_line=True)

    def _summary(self, text: str, target: Target, speech: Speech, line: int | None) -> None:
        shown = " ".join(text.split())
        shown = shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "…"
        t = speech.timings
        to = {None: "", STDIO: " -> standard output"}.get(target.output, f" -> {target.output}")
        note(
            f"{'' if line is None else f'line {line}: '}"
            f'"{shown}" {speech.voice}, {speech.language}, seed {speech.seed}: {t.frames} frames, '
            f"{t.summary()}, finish: {speech.finish_reason}{to}"
        )


def _unfinished(speech: Speech, asked: int | None) -> str | None:
    """Why the speech is not whole, None if it is."""
    frames = speech.timings.frames
    if speech.finish_reason == "runaway":
        return (
            f"stopped after {frames} frames, because the model had lost its way (it repeated "
            "itself, or held one sound); the audio up to there is kept (try another --seed)"
        )
    # A limit that was asked for is no failure; one that the text's length sets means a runaway.
    if speech.finish_reason == "limit" and asked is None:
        return (
            f"stopped at the limit of {frames} frames that this text's length allows, before "
            "the model ended by itself; the audio up to there is kept (try another --seed or --max-frames)"
        )
    return None

"""`kazeia say`: text in, speech out."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from kazeia.cli.guard import LIMIT, guarded, note, standard_output
from kazeia.cli.options import CacheDir, Debug, Model, Quant, Quiet, Threads
from kazeia.cli.progress import Display

if TYPE_CHECKING:
    from kazeia import Engine, Sampling, Speech

STDIO = "-"
_WAV_SUFFIXES = ("", ".wav", ".wave")
_SHOWN_CHARS = 40


@dataclass
class _Order:
    """What was asked for, checked as far as that goes without the model."""

    text: str
    output: str | None  # a path, "-" for standard output, None for none
    play: bool
    stream: bool
    talker: dict[str, Any]  # changes to the talker's Sampling
    predictor: dict[str, Any]  # changes to the code predictor's
    official: bool
    speech: dict[str, Any]  # the rest of Engine.synthesize's arguments
    cancel: threading.Event = field(default_factory=threading.Event)

    def arguments(self, engine: Engine, display: Display) -> dict[str, Any]:
        """The keyword arguments of `Engine.synthesize` and `Engine.stream`."""
        return self.speech | {
            "sampling": self._sampling(engine, "sampling", self.talker),
            "predictor_sampling": self._sampling(engine, "predictor_sampling", self.predictor),
            "cancel": self.cancel,
            "on_frame": display.speaking,
        }

    def _sampling(
        self, engine: Engine, which: Literal["sampling", "predictor_sampling"], changes: dict[str, Any]
    ) -> Sampling | Literal["official"] | None:
        choice: Literal["official"] | None = "official" if self.official else None
        if not changes:
            return choice
        settings = engine.talker_sampling if which == "sampling" else engine.predictor_sampling
        return settings(choice).replace(**changes)


def say(
    text: Annotated[
        Optional[str],  # noqa: UP045  typer reads these types at run time
        typer.Argument(help='What to say; "-", or nothing at all, reads standard input.', show_default=False),
    ] = None,
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--file", "-f", metavar="FILE", help="Read the text from a file in UTF-8."),
    ] = None,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help='WAV file to write; "-" is standard output, which is also taken when it is a pipe.',
        ),
    ] = None,
    model: Model = None,
    voice: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--voice", "-v", metavar="NAME", help="One of `kazeia voices`. Default: the first."),
    ] = None,
    language: Annotated[
        str, typer.Option("--language", "-l", metavar="NAME", help='A name, a code such as "de", or "auto".')
    ] = "auto",
    instruct: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--instruct", metavar="TEXT", help="How to say it (1.7B models)."),
    ] = None,
    seed: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--seed", metavar="N", help="The same seed gives the same audio. Default: a fresh one."),
    ] = None,
    quant: Quant = "q8",
    threads: Threads = None,
    cache_dir: CacheDir = None,
    stream: Annotated[bool, typer.Option("--stream", help="Write the audio while it is generated.")] = False,
    play: Annotated[bool, typer.Option("--play", help="Play the audio while it is generated.")] = False,
    max_frames: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--max-frames", metavar="N", help="Stop after N frames of 80 ms. Default: by the text."),
    ] = None,
    layout: Annotated[
        str, typer.Option("--layout", metavar="whole|streamed", help="How the text is fed to the model.")
    ] = "whole",
    segment_pause: Annotated[
        float,
        typer.Option("--segment-pause", metavar="MS", help="Silence between pieces of a long text."),
    ] = 0,
    no_markup: Annotated[
        bool, typer.Option("--no-markup", help="Speak [pause:400ms] instead of making a pause.")
    ] = False,
    temperature: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--temperature", metavar="T", help="Talker: 0 is greedy. Default: the model's."),
    ] = None,
    top_k: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--top-k", metavar="K", help="Talker: keep the K best; 0 is off."),
    ] = None,
    top_p: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--top-p", metavar="P", help="Talker: keep the best up to this mass; 1 is off."),
    ] = None,
    repetition_penalty: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--repetition-penalty", metavar="R", help="Talker: 1 is off."),
    ] = None,
    repetition_window: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--repetition-window", metavar="N", help="Talker: how many frames the penalty sees."),
    ] = None,
    cp_temperature: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--cp-temperature", metavar="T", help="Code predictor: as --temperature."),
    ] = None,
    cp_top_k: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--cp-top-k", metavar="K", help="Code predictor: as --top-k."),
    ] = None,
    cp_top_p: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--cp-top-p", metavar="P", help="Code predictor: as --top-p."),
    ] = None,
    cp_repetition_penalty: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--cp-repetition-penalty", metavar="R", help="Code predictor: as --repetition-penalty."),
    ] = None,
    official_sampling: Annotated[
        bool, typer.Option("--official-sampling", help="Penalties as in the official package.")
    ] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Speak a text into a WAV file, a pipe or the loudspeaker.

    Standard output carries nothing but audio; progress and a summary go to standard error.
    """
    with guarded(debug):
        talker = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "repetition_penalty": repetition_penalty,
            "repetition_window": repetition_window,
        }
        predictor = {
            "temperature": cp_temperature,
            "top_k": cp_top_k,
            "top_p": cp_top_p,
            "repetition_penalty": cp_repetition_penalty,
        }
        order = _Order(
            text="",
            output=_choose_output(output, play),
            play=play,
            stream=stream,
            talker=_checked(talker, "--"),
            predictor=_checked(predictor, "--cp-"),
            official=official_sampling,
            speech={
                "voice": voice,
                "language": language,
                "instruct": instruct,
                "seed": _checked_seed(seed),
                "max_frames": max_frames,
                "layout": layout,
                "segment_pause": _checked_pause(segment_pause),
                "markup": not no_markup,
            },
        )
        order.text = _read_text(text, file, markup=not no_markup)
        try:
            with Display(quiet) as display:
                loading = {"quant": quant, "threads": threads, "cache_dir": cache_dir}
                speech, random = _speak(order, display, model, loading)
        except BaseException:
            order.cancel.set()
            raise
        _report(order, speech, random, quiet)


def _speak(
    order: _Order, display: Display, model: str | None, loading: dict[str, Any]
) -> tuple[Speech, bool]:
    """Generate and deliver; the speech, and whether its model's weights are random."""
    import kazeia
    from kazeia.audio.playback import Player

    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(
            # not warmed up: that would take as long as the one call gains
            kazeia.load(model, progress=display.loading, warm_up=False, **loading)
        )
        # Opened first, so that it complains before the work.
        player = stack.enter_context(Player(engine.sample_rate)) if order.play else None
        arguments = order.arguments(engine, display)
        if order.stream or player is not None:
            return _deliver_stream(order, engine, arguments, player), engine.is_random
        speech = engine.synthesize(order.text, **arguments)
        _stop_if_cancelled(speech)
        _deliver_whole(order.output, speech)
        return speech, engine.is_random


def _deliver_whole(output: str | None, speech: Speech) -> None:
    from kazeia.audio.wav import wav_bytes, write_wav

    if output == STDIO:
        data = wav_bytes(speech.pcm, speech.sample_rate)
        with standard_output() as out:
            out.write(data)
    elif output is not None:
        write_wav(output, speech.pcm, speech.sample_rate)


def _deliver_stream(order: _Order, engine: Engine, arguments: dict[str, Any], player: Any) -> Speech:
    from kazeia.audio.files import atomic_file
    from kazeia.audio.wav import WavWriter

    chunks = engine.stream(order.text, **arguments)  # bad arguments are refused here
    speech = None
    with contextlib.ExitStack() as stack:
        if hasattr(chunks, "close"):
            stack.callback(chunks.close)
        writer = None
        if order.output is not None:
            sink = standard_output() if order.output == STDIO else atomic_file(order.output)
            writer = stack.enter_context(WavWriter(stack.enter_context(sink), engine.sample_rate))
        for chunk in chunks:
            if writer is not None:
                writer.write(chunk.pcm)
            if player is not None:
                player.write(chunk.pcm)
            if chunk.is_last:
                speech = chunk.speech
        if speech is None:
            raise RuntimeError("the stream ended without its last chunk")
        _stop_if_cancelled(speech)
    return speech


def _stop_if_cancelled(speech: Speech) -> None:
    if speech.finish_reason == "cancelled":
        raise KeyboardInterrupt


def _report(order: _Order, speech: Speech, random: bool, quiet: bool) -> None:
    """The summary, and the exit code if it is not 0."""
    asked = order.speech["max_frames"]
    if not quiet:
        shown = " ".join(order.text.split())
        shown = shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "…"
        t = speech.timings
        target = {None: "", STDIO: " -> standard output"}.get(order.output, f" -> {order.output}")
        note(
            f'"{shown}" {speech.voice}, {speech.language}, seed {speech.seed}: {t.frames} frames, '
            f"{t.summary()}, finish: {speech.finish_reason}{target}"
        )
        if random:
            note("this model's weights are random numbers, so the sound is noise, not speech")
    if speech.finish_reason == "runaway":
        note(  # said even when quiet: an exit code wants its reason
            f"stopped after {speech.timings.frames} frames, because the model had lost its way (it repeated "
            "itself, or held one sound); the audio up to there is kept (try another --seed)",
            "warning",
        )
        raise typer.Exit(LIMIT)
    # A limit that was asked for is no failure; one that the text's length sets means a runaway.
    if speech.finish_reason == "limit" and asked is None:
        note(  # said even when quiet: an exit code wants its reason
            f"stopped at the limit of {speech.timings.frames} frames that this text's length allows, before "
            "the model ended by itself; the audio up to there is kept (try another --seed or --max-frames)",
            "warning",
        )
        raise typer.Exit(LIMIT)


def _checked(options: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The options that were given, refused by their command-line names."""
    from kazeia.errors import OptionError
    from kazeia.sampling import Sampling

    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        try:
            Sampling().replace(**{name: value})
        except OptionError as error:
            raise OptionError(f"{prefix}{name.replace('_', '-')}: {error}") from None
    return given


def _checked_seed(seed: int | None) -> int | None:
    from kazeia.random import check_seed

    return None if seed is None else check_seed(seed)


def _checked_pause(milliseconds: float) -> float:
    from kazeia.text.pauses import check_pause

    check_pause("--segment-pause", milliseconds)
    return milliseconds


def _choose_output(output: str | None, play: bool) -> str | None:
    """Where the audio goes, refused before any work if it cannot go there."""
    from kazeia.audio.files import check_target
    from kazeia.errors import OptionError

    terminal = sys.stdout is not None and sys.stdout.isatty()
    if output is None:
        if play:
            return None
        if terminal or sys.stdout is None:
            raise typer.BadParameter("where should the audio go? give -o FILE, --play, or a pipe")
        return STDIO
    if output == STDIO:
        if terminal:
            raise typer.BadParameter("audio is binary, and standard output is a terminal; give -o FILE")
        return STDIO
    suffix = Path(output).suffix.lower()
    if suffix not in _WAV_SUFFIXES and (os.path.isfile(output) or not os.path.exists(output)):
        raise OptionError(f"{output}: audio is written as WAV only; give a name that ends in .wav")
    check_target(output)
    _refuse_other_files(output)
    return output


def _refuse_other_files(output: str) -> None:
    """Refuse to write over a file that does not look like a WAV: a slip of the keyboard would destroy it."""
    from kazeia.errors import OptionError

    if not Path(output).suffix and os.path.isfile(output):
        with open(output, "rb") as file:
            start = file.read(4)
        if start not in (b"", b"RIFF"):
            raise OptionError(
                f"{output}: exists and is not a WAV file; remove it first, or choose another name"
            )


def _read_text(text: str | None, file: Path | None, *, markup: bool) -> str:
    """The text from whichever entrance was used, decoded and checked alike."""
    from kazeia.errors import TextError
    from kazeia.text.clean import check_text, decode_text
    from kazeia.text.pauses import check_markup

    if file is not None and text is not None:
        raise typer.BadParameter("both TEXT and --file were given; give one")
    if file is not None and str(file) != STDIO:
        try:
            data, name = file.read_bytes(), str(file)
        except OSError as error:
            raise TextError(f"cannot read the text from {file}: {error.strerror or error}") from error
    elif text is not None and text != STDIO:
        # Bytes that were not UTF-8 arrive as lone surrogates; this brings them back.
        data, name = text.encode("utf-8", "surrogateescape"), "TEXT"
    else:
        if sys.stdin is None or (text is None and file is None and sys.stdin.isatty()):
            raise typer.BadParameter('what should be said? give TEXT, --file FILE, or "-" for standard input')
        data, name = sys.stdin.buffer.read(), "standard input"
    decoded = decode_text(data, name)
    check_text(decoded)
    if markup:
        check_markup(decoded)
    return decoded

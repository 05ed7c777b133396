"""What will be spoken, piece by piece: segments with their seeds and pauses, and where chapters begin."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kazeia._version import __version__
from kazeia._warn import warn
from kazeia.budget import expected_frames
from kazeia.bundle import BUNDLE_VERSION
from kazeia.engine import Engine
from kazeia.errors import EmptyTextError, TextError
from kazeia.job import SEGMENT_CHARS, Request, check_count
from kazeia.prompt import Layout
from kazeia.reading.blocks import Block
from kazeia.reading.book import Book
from kazeia.reading.headings import CHAPTER_LEVEL
from kazeia.sampling import SamplingChoice
from kazeia.text.clean import is_speakable
from kazeia.text.languages import resolve_language, resolve_voice
from kazeia.text.pauses import check_pause, plan_speech, split_pauses


@dataclass(frozen=True)
class Style:
    """How a book is read. What is not described here is as in `Engine.synthesize`."""

    voice: str | None = None
    language: str | None = "auto"
    instruct: str | None = None
    sampling: SamplingChoice = None
    predictor_sampling: SamplingChoice = None
    max_frames: int | None = None
    """Stop each piece after so many frames of 80 ms; None derives a limit from its text."""
    layout: Layout = "whole"
    segment_chars: int = SEGMENT_CHARS
    """Paragraphs longer than this are spoken in pieces; each piece is one subtitle."""
    markup: bool = True
    segment_pause: float = 0
    """Milliseconds of silence between the pieces of a paragraph."""
    paragraph_pause: float = 400
    """Milliseconds between paragraphs."""
    chapter_pause: float = 1200
    """Milliseconds before the heading of a chapter."""


@dataclass(frozen=True)
class Piece:
    """One segment: what is generated, stored and shown as one."""

    text: str
    seed: int
    """Its own, derived from that of the reading, its text, and how often that text came before."""
    key: str
    """A hash over everything that decides its samples."""
    pause: int
    """Zero samples before it."""
    frames: int
    """About how many frames it will take."""


@dataclass(frozen=True)
class Plan:
    """A book, ready to be spoken."""

    seed: int
    voice: str
    language: str
    pieces: tuple[Piece, ...]
    chapters: tuple[tuple[str, int], ...]
    """Title of each chapter, and the index of the piece that it begins with."""
    tail: int
    """Zero samples at the end."""
    request: Request
    """How every piece is asked for, but for its text and seed."""

    @property
    def frames(self) -> int:
        """About how many frames it will take in all."""
        return sum(piece.frames for piece in self.pieces)


def plan_reading(engine: Engine, book: Book, style: Style, seed: int, title: str) -> Plan:
    """Cut the book into pieces. title: of a chapter for what stands before the first heading.

    Raises what `Engine.synthesize` raises for what cannot be done; of a text, with its line.
    """
    for name in ("segment_pause", "paragraph_pause", "chapter_pause"):
        check_pause(name, getattr(style, name))
    check_count("segment_chars", style.segment_chars, optional=False)
    check_count("max_frames", style.max_frames)
    voice = resolve_voice(style.voice, engine.voices)
    language = resolve_language(style.language, engine.languages) or "auto"
    request = _request(engine, style, voice, language)
    base = hashlib.sha256(json.dumps(_facts(engine, request), sort_keys=True).encode())
    rate = engine.sample_rate
    pieces: list[Piece] = []
    chapters: list[tuple[str, int]] = []
    came: Counter[str] = Counter()
    waiting = 0.0  # ms that the next piece has to wait
    begins = False  # whether a chapter begins with the next piece
    for block in book.blocks:
        segments, pauses, words = _segments(block, style)
        if 0 < block.level <= CHAPTER_LEVEL:
            if not chapters and pieces:
                chapters.append((title, 0))
            if chapters and chapters[-1][1] == len(pieces):
                chapters.pop()  # nothing was said in it
            chapters.append((words or title, len(pieces)))
            begins = True
        if segments:
            if pieces:
                waiting += style.chapter_pause if begins else style.paragraph_pause
            begins = False
        for segment, pause in zip(segments, pauses[:-1], strict=True):
            own = _seed(seed, segment, came[segment])
            came[segment] += 1
            key = base.copy()
            key.update(json.dumps([segment, own]).encode())
            waiting += pause
            pieces.append(
                Piece(
                    segment, own, key.hexdigest()[:40], round(waiting * rate / 1000), expected_frames(segment)
                )
            )
            waiting = 0.0
        waiting += pauses[-1]
    if not pieces:
        raise EmptyTextError(
            "nothing to say: the book holds nothing but pauses and signs that are not spoken"
        )
    # A heading with nothing behind it, not even its own words, is no place to go to.
    chapters = [(name, first) for name, first in chapters if first < len(pieces)]
    tail = round(waiting * rate / 1000)
    return Plan(seed, voice, language, tuple(pieces), tuple(chapters), tail, request)


def _segments(block: Block, style: Style) -> tuple[list[str], list[float], str]:
    """The segments of a paragraph, the pauses around them in ms, and its words without pauses."""
    try:
        words, pause = split_pauses(block.text) if style.markup else (block.text, 0)
        words = " ".join(words.split())
        if not is_speakable(words):
            return [], [pause], words
        segments, pauses = plan_speech(
            block.text, style.segment_chars, markup=style.markup, segment_pause=style.segment_pause
        )
    except TextError as error:
        raise type(error)(f"line {block.line}: {error}") from error
    return segments, pauses, words


def _request(engine: Engine, style: Style, voice: str, language: str) -> Request:
    """How each piece is asked for: everything resolved, so that the environment cannot change it midway."""
    instruct = style.instruct or None
    if instruct is not None and not engine.takes_instruct:
        warn("the instruction is ignored: models of size 0.6B take none (spoken without it)")
        instruct = None
    return Request(
        text="",
        voice=voice,
        language=language,
        instruct=instruct,
        sampling=engine.talker_sampling(style.sampling),
        predictor_sampling=engine.predictor_sampling(style.predictor_sampling),
        max_frames=style.max_frames,
        layout=style.layout,
        segment_chars=None,
        markup=False,  # the pauses have been taken out
    )


def _facts(engine: Engine, request: Request) -> Mapping[str, Any]:
    """Everything beside text and seed that decides the samples."""
    try:
        runtime = version("onnxruntime")
    except PackageNotFoundError:  # installed under another name
        runtime = "unknown"
    asked = {
        name: getattr(request, name) for name in ("voice", "language", "instruct", "max_frames", "layout")
    }
    return asked | {
        "sampling": asdict(engine.talker_sampling(request.sampling)),
        "predictor_sampling": asdict(engine.predictor_sampling(request.predictor_sampling)),
        "model": engine.fingerprint,
        "quant": engine.quant,
        "budget": asdict(engine.budget),
        "guard": None if engine.guard is None else asdict(engine.guard),
        "samples": f"s16, {engine.sample_rate} Hz",
        "kazeia": [__version__, BUNDLE_VERSION],
        "onnxruntime": runtime,
    }


def _seed(seed: int, text: str, before: int) -> int:
    """A piece's own seed: texts keep theirs when others come or go, and equal ones sound different."""
    digest = hashlib.sha256(json.dumps([seed, before, text]).encode()).digest()
    return int.from_bytes(digest[:8], "big")

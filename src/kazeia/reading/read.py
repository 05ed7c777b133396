"""A book read into one audio file."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from kazeia.audio.encode import Chapter
from kazeia.audio.files import atomic_file, check_target
from kazeia.audio.output import CHAPTERED, SUFFIXES, audio_file, format_of
from kazeia.bundle_build import Progress
from kazeia.engine import Engine
from kazeia.errors import AudioError, ReadingStoppedError
from kazeia.generation import FinishReason
from kazeia.random import check_seed, draw_seed
from kazeia.reading.book import Book
from kazeia.reading.plan import Piece, Plan, Style, plan_reading
from kazeia.reading.subtitles import SUBTITLES, Cue, check_subtitles
from kazeia.reading.work import WorkFolder
from kazeia.speech import Speech

_WORST_FIRST: tuple[FinishReason, ...] = ("runaway", "limit", "stop")


class Flag(Protocol):
    """Something like a threading.Event."""

    def is_set(self) -> bool:
        """Whether to stop."""


@dataclass(frozen=True)
class Spoken:
    """A piece of the book, and where it is in the audio."""

    text: str
    seed: int
    start: int
    end: int
    """Samples `start` to `end`, the end not included."""
    finish_reason: FinishReason
    kept: bool
    """Whether it had been spoken by an earlier, interrupted reading."""


@dataclass(frozen=True)
class Reading:
    """A book that has been read."""

    path: Path
    format: str
    subtitles: tuple[Path, ...]
    title: str
    seed: int
    voice: str
    language: str
    sample_rate: int
    """Hz."""
    samples: int
    pieces: tuple[Spoken, ...]
    chapters: tuple[Chapter, ...]
    has_marks: bool
    """Whether the file holds the chapters as marks."""

    @property
    def duration(self) -> float:
        """Seconds of audio."""
        return self.samples / self.sample_rate

    @property
    def finish_reason(self) -> FinishReason:
        """The worst of the pieces'."""
        reasons = {piece.finish_reason for piece in self.pieces}
        return next(reason for reason in _WORST_FIRST if reason in reasons)


def read_book(
    engine: Engine,
    book: Book,
    output: str | os.PathLike[str],
    *,
    style: Style | None = None,
    seed: int | None = None,
    format: str | None = None,
    subtitles: Sequence[str] = (),
    title: str | None = None,
    author: str | None = None,
    progress: Progress | None = None,
    cancel: Flag | None = None,
) -> Reading:
    """Read a book into an audio file, with chapter marks where the format holds them.

    Several pieces are generated side by side. Each is kept, without loss, in the folder `output`.kazeia as
    soon as it is finished, so that a reading that was killed goes on from there when it is begun again,
    and gives the same samples, bit for bit; what has changed meanwhile (text, voice, model, …) is spoken
    anew. The folder goes when the book is whole, and only then is there anything under the name `output`.

    seed: None takes that of the reading that is resumed, else draws one. format: see `format_of`.
    subtitles: of "srt" and "vtt", written beside the audio under its name with that end; one cue per piece.
    title, author: written into the file; None takes the book's, else the output's name. progress: told
    (stage, share), also by the engine's threads. cancel: set it to stop within a frame; what is finished
    stays in the folder.

    Raises as `Engine.synthesize`, `format_of` and `atomic_file` do, AudioError also when another process
    reads into the same file, ReadingStoppedError when it was cancelled.
    """
    style = style or Style()
    name = format_of(output, format)
    sidecars = subtitle_paths(output, subtitles)
    for path in (Path(output), *sidecars.values()):
        check_target(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise AudioError(f"cannot write {path}: it is no regular file; a reading needs one of its own")
    if seed is not None:
        check_seed(seed)
    title = title or book.title or _base(output).name
    with WorkFolder(output, engine.sample_rate) as work:
        kept_seed = draw_seed() if work.seed is None else work.seed
        plan = plan_reading(engine, book, style, kept_seed if seed is None else seed, title)
        work.begin(plan.seed)
        before = set(work.finished)
        _speak(engine, plan, work, progress, cancel)
        spoken, samples = _timeline(plan, work, before)
        chapters = _chapters(plan, spoken, samples)
        for kind, path in sidecars.items():
            cues = [Cue(" ".join(s.text.split()), s.start, s.end) for s in spoken if s.end > s.start]
            with atomic_file(path) as file:
                file.write(SUBTITLES[kind](cues, engine.sample_rate).encode())
        tags = {"title": title} | ({"artist": by} if (by := author or book.author) else {})
        with audio_file(
            output, name, engine.sample_rate, chapters=chapters, tags=tags, scratch=work.path
        ) as audio:
            for index, piece in enumerate(plan.pieces):
                audio.write(np.zeros(piece.pause, np.float32))
                audio.write(work.pcm(piece.key))
                if progress is not None:
                    progress("writing", (index + 1) / len(plan.pieces))
            audio.write(np.zeros(plan.tail, np.float32))
        work.remove()
    return Reading(
        path=Path(output),
        format=name,
        subtitles=tuple(sidecars.values()),
        title=title,
        seed=plan.seed,
        voice=plan.voice,
        language=plan.language,
        sample_rate=engine.sample_rate,
        samples=samples,
        pieces=tuple(spoken),
        chapters=chapters,
        has_marks=bool(chapters) and name in CHAPTERED,
    )


def subtitle_paths(output: str | os.PathLike[str], subtitles: Sequence[str]) -> dict[str, Path]:
    """Where the subtitles of an output are written, by their kinds. Raises OptionError for unknown kinds."""
    base = _base(output)
    return {kind: base.with_name(f"{base.name}.{kind}") for kind in check_subtitles(subtitles)}


def _base(output: str | os.PathLike[str]) -> Path:
    path = Path(output)
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def _speak(
    engine: Engine, plan: Plan, work: WorkFolder, progress: Progress | None, cancel: Flag | None
) -> None:
    """Speak the pieces that are missing, as many side by side as the engine takes."""
    missing = [piece for piece in plan.pieces if piece.key not in work.finished]
    meter = _Meter(plan, missing, progress)
    stop = _Stop(cancel)

    def speak(piece: Piece) -> Speech | None:
        if stop.is_set():
            return None
        request = replace(
            plan.request, text=piece.text, seed=piece.seed, cancel=stop, on_frame=meter.of(piece)
        )
        try:
            return engine.batch([request])[0]
        except BaseException:
            stop.set()  # at once, before another piece begins
            raise

    def keep(future: Future[Speech | None]) -> None:
        piece = futures.pop(future)  # it holds the samples
        speech = future.result()
        if speech is not None and speech.finish_reason != "cancelled":
            work.save(piece.key, speech.pcm, speech.finish_reason, piece.seed, piece.text)
            meter.finished(piece)

    pool = ThreadPoolExecutor(max(1, min(engine.max_batch, len(missing))), "kazeia-reading")
    futures = {pool.submit(speak, piece): piece for piece in missing}
    try:
        for future in as_completed(futures):
            keep(future)
    finally:  # on errors and Ctrl-C too; after the last piece it changes nothing
        stop.set()
        pool.shutdown(cancel_futures=True)
        for future in list(futures):
            if not future.cancelled() and future.exception() is None:
                keep(future)
    left = sum(piece.key not in work.finished for piece in plan.pieces)
    if left:
        raise ReadingStoppedError(
            f"stopped with {left} of {len(plan.pieces)} pieces left; the others are kept in {work.path}: "
            "read into the same file again to go on"
        )


class _Stop(threading.Event):
    """Set by itself, or by the caller's flag."""

    def __init__(self, cancel: Flag | None) -> None:
        super().__init__()
        self._cancel = cancel

    def is_set(self) -> bool:
        return super().is_set() or (self._cancel is not None and self._cancel.is_set())


class _Meter:
    """How much of the book is spoken, by the frames that its pieces will probably take."""

    def __init__(self, plan: Plan, missing: Sequence[Piece], progress: Progress | None) -> None:
        self._total = max(1, plan.frames)
        self._done = plan.frames - sum(piece.frames for piece in missing)
        self._running: dict[str, float] = {}
        self._lock = threading.Lock()
        self._progress = progress
        self._tell()

    def of(self, piece: Piece) -> _Tick:
        """The `on_frame` of a piece."""
        return _Tick(self, piece)

    def tick(self, piece: Piece, frames: int) -> None:
        """A piece has so many frames now."""
        with self._lock:
            self._running[piece.key] = min(frames, 0.95 * piece.frames)
        self._tell()

    def finished(self, piece: Piece) -> None:
        """A piece is stored."""
        with self._lock:
            self._running.pop(piece.key, None)
            self._done += piece.frames
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            with self._lock:
                share = (self._done + sum(self._running.values())) / self._total
            self._progress("speaking", min(1.0, share))


@dataclass(frozen=True)
class _Tick:
    meter: _Meter
    piece: Piece

    def __call__(self, frames: int) -> None:
        self.meter.tick(self.piece, frames)


def _timeline(plan: Plan, work: WorkFolder, before: set[str]) -> tuple[list[Spoken], int]:
    """Where each piece is heard, and the samples of the whole."""
    spoken: list[Spoken] = []
    at = 0
    for piece in plan.pieces:
        entry = work.finished[piece.key]
        start = at + piece.pause
        at = start + entry.samples
        spoken.append(Spoken(piece.text, piece.seed, start, at, entry.finish_reason, piece.key in before))
    return spoken, at + plan.tail


def _chapters(plan: Plan, spoken: Sequence[Spoken], samples: int) -> tuple[Chapter, ...]:
    """The chapters in samples: the first begins with the audio, each ends where the next begins."""
    starts = [spoken[first].start if first else 0 for _, first in plan.chapters]
    ends = [*starts, samples][1:]
    return tuple(
        Chapter(title, start, end) for (title, _), start, end in zip(plan.chapters, starts, ends, strict=True)
    )

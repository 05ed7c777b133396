"""Results for machines: JSON on standard output."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kazeia import Speech
    from kazeia.reading import Reading


def print_json(document: Any, *, one_line: bool = False) -> None:
    """Print a document; on one line where several follow each other."""
    indent = None if one_line else 2
    print(json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False), flush=one_line)


def speech_facts(speech: Speech, output: str | None, name: str, random: bool) -> dict[str, Any]:
    """What there is to say of a finished speech."""
    return {
        "output": output,
        "format": name if output is not None else None,
        "voice": speech.voice,
        "language": speech.language,
        "seed": speech.seed,
        "finish_reason": speech.finish_reason,
        "samples": len(speech.pcm),
        "sample_rate": speech.sample_rate,
        "duration_s": speech.duration,
        "random": random,
        "timings": asdict(speech.timings),
    }


def reading_facts(reading: Reading, random: bool) -> dict[str, Any]:
    """What there is to say of a book that has been read; times in seconds."""
    rate = reading.sample_rate
    return {
        "output": str(reading.path),
        "format": reading.format,
        "subtitles": [str(path) for path in reading.subtitles],
        "title": reading.title,
        "voice": reading.voice,
        "language": reading.language,
        "seed": reading.seed,
        "finish_reason": reading.finish_reason,
        "samples": reading.samples,
        "sample_rate": rate,
        "duration_s": reading.duration,
        "random": random,
        "chapter_marks": reading.has_marks,
        "chapters": [
            {"title": c.title, "start_s": c.start / rate, "end_s": c.end / rate} for c in reading.chapters
        ],
        "pieces": [
            {
                "text": p.text,
                "seed": p.seed,
                "start_s": p.start / rate,
                "end_s": p.end / rate,
                "finish_reason": p.finish_reason,
                "kept": p.kept,
            }
            for p in reading.pieces
        ],
    }

"""What libkazeia_tts runs in its Python: engines by number, options as JSON, answers as plain bytes.

The build puts this file into the library. It knows Kazeia's public face only.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
from collections.abc import Generator
from typing import Any

import kazeia
from kazeia.audio.wav import to_int16

Answer = tuple[bytes, int, bytes, int, int, int, str, str, str, tuple[float, ...]]
"""PCM (samples,) int16; Hz; codes (frames, codebooks) int32; frames; codebooks; seed; voice; language;
finish reason; the seven times of kz_timings."""

LOAD_OPTIONS = frozenset({"quant", "threads", "cache_dir", "max_batch", "warm_up"})
SPEECH_OPTIONS = frozenset(
    {
        "voice",
        "language",
        "instruct",
        "seed",
        "sampling",
        "predictor_sampling",
        "max_frames",
        "layout",
        "segment_chars",
        "segment_pause",
        "markup",
    }
)
STREAM_OPTIONS = SPEECH_OPTIONS | {"chunk_frames"}

_engines: dict[int, kazeia.Engine] = {}
_numbers = itertools.count(1)


def load(model: str | bytes | None, options: str | bytes | None) -> int:
    """Load a model as `kazeia.load` does; returns its number, which is never used again."""
    settings = _options(options, LOAD_OPTIONS)
    folder = settings.get("cache_dir")
    if folder is not None and not isinstance(folder, str):
        raise kazeia.OptionError(f"cache_dir is {folder!r}; expected the name of a folder, or null")
    engine = kazeia.load(os.fsdecode(model) if isinstance(model, bytes) else model, **settings)
    number = next(_numbers)
    _engines[number] = engine
    return number


def synthesize(number: int, text: str | bytes | None, options: str | bytes | None) -> Answer:
    """Speak a text with `Engine.synthesize`."""
    engine = _engine(number)
    return _answer(engine.synthesize(_text(text), **_settings(engine, options, SPEECH_OPTIONS)))


def stream(
    number: int, text: str | bytes | None, options: str | bytes | None
) -> Generator[tuple[bytes, int], None, Answer]:
    """Speak a text with `Engine.stream`: yields (PCM, Hz) per piece, returns the whole as an `Answer`.

    Arguments are checked when the first piece is asked for. Closing the generator stops the stream.
    """
    engine = _engine(number)
    chunks = engine.stream(_text(text), **_settings(engine, options, STREAM_OPTIONS))
    try:
        for chunk in chunks:
            if len(chunk.pcm):
                yield to_int16(chunk.pcm).tobytes(), chunk.sample_rate
            if chunk.speech is not None:
                return _answer(chunk.speech)
    finally:
        chunks.close()  # type: ignore[attr-defined]  # at once, not when a collector comes by
    raise kazeia.GenerationError("the stream ended without its last chunk")


def free(number: int) -> None:
    """Close an engine and let go of it. Calls that run on it end with EngineClosedError."""
    engine = _engine(number)
    del _engines[number]
    engine.close()
    del engine
    gc.collect()


def close_all() -> None:
    """Close every engine: the process is ending."""
    while _engines:
        _engines.popitem()[1].close()
    gc.collect()


def describe(error: BaseException) -> tuple[str, str]:
    """The kind of an error and its message, for those who have no Python."""
    kind = type(error).__name__
    message = str(error) if isinstance(error, kazeia.KazeiaError) else f"unexpected {kind}: {error}"
    # C's strings can hold neither a NUL nor a lone surrogate.
    return kind, message.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def _engine(number: int) -> kazeia.Engine:
    try:
        return _engines[number]
    except KeyError:
        raise kazeia.EngineClosedError(
            f"engine {number} is not open: it was freed, or never loaded; load the model again"
        ) from None


def _text(text: str | bytes | None) -> str:
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise kazeia.TextEncodingError(
                f"the text is not UTF-8 at byte offset {error.start} (found 0x{text[error.start]:02x}); "
                "convert it to UTF-8"
            ) from error
    if text is None:
        raise kazeia.TextError("the text is null; expected a string")
    return text


def _options(options: str | bytes | None, known: frozenset[str]) -> dict[str, Any]:
    """The options' keys and values; OptionError for what is no JSON object, or an unknown key."""
    if not options:
        return {}
    try:
        found = json.loads(options)
    except (ValueError, RecursionError) as error:
        raise kazeia.OptionError(
            f'the options are not JSON ({error}); expected {{"seed": 42}} or such'
        ) from error
    if not isinstance(found, dict):
        raise kazeia.OptionError(f'the options are {found!r}; expected a JSON object such as {{"seed": 42}}')
    unknown = sorted(set(found) - known)
    if unknown:
        raise kazeia.OptionError(
            f"unknown option {', '.join(unknown)}; there are: {', '.join(sorted(known))}"
        )
    return found


def _settings(engine: kazeia.Engine, options: str | bytes | None, known: frozenset[str]) -> dict[str, Any]:
    """The options as arguments. Sampling's fields that are not given stay as the checkpoint has them."""
    settings = _options(options, known)
    for name, usual in (
        ("sampling", engine.talker_sampling),
        ("predictor_sampling", engine.predictor_sampling),
    ):
        if isinstance(settings.get(name), dict):
            settings[name] = usual().replace(**settings[name])
    return settings


def _answer(speech: kazeia.Speech) -> Answer:
    frames, codebooks = speech.codes.shape
    t = speech.timings
    times = (t.prefill_s, t.talker_s, t.predictor_s, t.decoder_s, t.first_audio_s, t.total_s, t.audio_s)
    return (
        to_int16(speech.pcm).tobytes(),
        speech.sample_rate,
        speech.codes.astype("int32").tobytes(),
        frames,
        codebooks,
        speech.seed,
        speech.voice,
        speech.language,
        speech.finish_reason,
        times,
    )

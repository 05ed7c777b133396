"""The contract of POST /v1/audio/speech: OpenAI's fields and ours, checked one by one.

The table below is all there is: it checks requests, and the OpenAPI document is made from it. A field
that is there must hold something: null, blank text and unknown names are refused, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazeia.audio.encode import FORMATS
from kazeia.audio.stretch import MAX_SPEED, MIN_SPEED
from kazeia.errors import OptionError, TextEncodingError
from kazeia.random import SEED_LIMIT
from kazeia.server.errors import ApiError
from kazeia.server.kinds import Kind, boolean, choice, describe, integer, number, string, voice

MAX_FRAMES = 10_000  # 13 minutes, for which the positions of one segment suffice
_MISSING: Any = object()


@dataclass(frozen=True)
class Field:
    """One field: its name, what it may hold, its default, and what it means."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    required: bool = False


def speech_fields(max_text_chars: int) -> tuple[Field, ...]:
    """The fields of a request to speak."""
    return (
        Field("model", string(256), "One of GET /v1/models.", required=True),
        Field("input", string(max_text_chars), "The text to speak.", required=True),
        Field("voice", voice(), "One of GET /v1/audio/voices.", required=True),
        Field("response_format", choice(*FORMATS), "The audio's format.", "mp3"),
        Field("speed", number(MIN_SPEED, MAX_SPEED), "Tempo; the pitch is kept.", 1.0),
        Field("instructions", string(4096), "How to say it (1.7B models)."),
        Field("stream_format", choice("audio", "sse"), "Bare audio, or server-sent events.", "audio"),
        Field("stream", boolean(), "false: one complete reply, its sizes exact.", True),
        Field("language", string(64), 'A name, a code such as "fr", or "auto".', "auto"),
        Field("seed", integer(0, SEED_LIMIT - 1), "The same seed gives the same audio. Default: drawn."),
        Field("max_frames", integer(1, MAX_FRAMES), "Stop after so many frames of 80 ms."),
        *sampling_fields("", "Codebook 0"),
        *sampling_fields("cp_", "Codebooks 1-15"),
    )


def sampling_fields(prefix: str, what: str) -> tuple[Field, ...]:
    """The fields of one sampler."""
    return (
        Field(f"{prefix}temperature", number(0, 100), f"{what}: 0 is greedy. Default: the model's."),
        Field(f"{prefix}top_k", integer(0, 1_000_000), f"{what}: keep the k best; 0 is off."),
        Field(f"{prefix}top_p", number(0, 1, exclusive_low=True), f"{what}: keep this mass; 1 is off."),
        Field(f"{prefix}repetition_penalty", number(0.01, 100), f"{what}: 1 is off."),
        Field(f"{prefix}repetition_window", integer(0, 1_000_000), f"{what}: frames the penalty sees."),
    )


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises ApiError (400) for anything else, NaN and doubled keys included."""
    try:
        document = json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise _bad_body(f"the body is not UTF-8 at byte {error.start}") from None
    except OptionError as error:
        raise _bad_body(str(error)) from None
    except RecursionError:
        raise _bad_body("the body is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, and integers of thousands of digits
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number has too many digits"
        raise _bad_body(f"the body is not JSON: {reason}") from None
    if not isinstance(document, dict):
        raise _bad_body(f"the body is {describe(document)}; expected a JSON object")
    return document


def read_fields(document: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """The value of every field, defaults filled in. Raises ApiError naming the first that is wrong."""
    known = {field.name for field in fields}
    for name in document:
        if name not in known:
            raise ApiError(
                400,
                f"unknown field {describe(name)}; known are {', '.join(sorted(known))}",
                code="unknown_parameter",
                param=name if name.isascii() and len(name) <= 64 else None,
            )
    return {field.name: _read(document, field) for field in fields}


def _read(document: dict[str, Any], field: Field) -> Any:
    value = document.get(field.name, _MISSING)
    if value is _MISSING:
        if field.required:
            message = f"the field {field.name} is missing; {field.help}"
            raise ApiError(400, message, code="missing_required_parameter", param=field.name)
        return field.default
    limit = field.kind.schema.get("maxLength", 0)
    if field.name == "input" and isinstance(value, str) and len(value) > limit:
        raise ApiError(
            400,
            f"input holds {len(value)} characters; at most {limit} are spoken at once",
            code="string_above_max_length",
            param="input",
        )
    try:
        return field.kind.check(value)
    except (OptionError, TextEncodingError) as error:
        wrong_type = value is None or not _has_type(value, field.kind.schema)
        code = "invalid_type" if wrong_type else "invalid_value"
        raise ApiError(400, f"{field.name}: {error}", code=code, param=field.name) from None


def _has_type(value: object, schema: dict[str, Any]) -> bool:
    if "oneOf" in schema:
        return any(_has_type(value, one) for one in schema["oneOf"])
    types: dict[str, Callable[[object], bool]] = {
        "string": lambda v: isinstance(v, str),
        "boolean": lambda v: isinstance(v, bool),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        "object": lambda v: isinstance(v, dict),
    }
    return types[schema["type"]](value)


def _bad_body(message: str) -> ApiError:
    return ApiError(400, message, code="invalid_json")


def _no_constant(name: str) -> Any:
    raise OptionError(f"the body holds {name}, which is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise OptionError("the body holds a key twice in one object")
    return found

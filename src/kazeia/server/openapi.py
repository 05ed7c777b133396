"""The OpenAPI document, made from the same tables that check the requests."""

from __future__ import annotations

from typing import Any

from kazeia._version import __version__
from kazeia.audio.encode import FORMATS
from kazeia.server.fields import speech_fields
from kazeia.server.state import ServerState
from kazeia.server.voices import OPENAI_MODELS, voice_aliases

_REFUSALS = {
    "400": "A field is missing or wrong, or the body is not JSON.",
    "401": "The API key is missing or wrong.",
    "404": "The model is not here.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The text holds nothing that can be spoken.",
    "429": "Too many requests from this client.",
    "503": "Every place is taken, or the server is stopping; see Retry-After.",
}


def openapi_document(state: ServerState) -> dict[str, Any]:
    """The document for this server (OpenAPI 3.1)."""
    refusals = {
        status: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}
        for status, text in _REFUSALS.items()
    }
    audio: dict[str, Any] = {
        form.media_type.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
        for form in FORMATS.values()
    }
    audio["text/event-stream"] = {"schema": _EVENT}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kazeia", "version": __version__},
        "paths": {
            "/v1/audio/speech": {
                "post": {
                    "operationId": "speak",
                    "summary": "Speak a text.",
                    "requestBody": {"required": True, "content": _json(_speech_schema(state))},
                    "responses": {"200": {"description": "The audio.", "content": audio}} | refusals,
                }
            },
            **{
                path: {
                    "get": {
                        "operationId": name,
                        "summary": summary,
                        "responses": {"200": {"description": summary, "content": _json({"type": "object"})}}
                        | {status: refusals[status] for status in ("401", "429")},
                    }
                }
                for path, name, summary in (
                    ("/v1/models", "models", "The model, and the names it answers to."),
                    ("/v1/audio/voices", "voices", "The voices, and OpenAI's names for them."),
                )
            },
        },
        "components": {"schemas": {"Error": _ERROR}},
    }


def _speech_schema(state: ServerState) -> dict[str, Any]:
    fields = [
        field
        for field in speech_fields(state.settings.max_text_chars)
        if field.name != "instructions" or state.engine.takes_instruct
    ]
    voices = {"type": "string", "enum": [*state.engine.voices, *voice_aliases(state.engine.voices)]}
    # What depends on the model; more spellings of the names are understood.
    narrowed: dict[str, dict[str, Any]] = {
        "model": {"enum": [state.model_id, *OPENAI_MODELS]},
        "input": {"pattern": _SPEAKABLE},
        "language": {"enum": ["auto", *state.engine.languages]},
        "voice": {"oneOf": [voices, _VOICE_OBJECT | {"properties": {"id": voices}}]},
    }
    return {
        "not": {
            "properties": {"stream": {"const": False}, "stream_format": {"const": "sse"}},
            "required": ["stream", "stream_format"],
        },
        "type": "object",
        "additionalProperties": False,
        "required": [field.name for field in fields if field.required],
        "properties": {
            field.name: field.kind.schema
            | narrowed.get(field.name, {})
            | {"description": field.help}
            | ({} if field.default is None else {"default": field.default})
            for field in fields
        },
    }


_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["speech.audio.delta", "speech.audio.done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}

# A letter, a digit, or a sign with a spoken name; see kazeia.text.clean.is_speakable.
_SPEAKABLE = r"[^\W_]|[%&@+=#$£€¥§°]"
_VOICE_OBJECT = {"type": "object", "required": ["id"], "additionalProperties": False}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}

"""From fields to an order: names are resolved, and what cannot be spoken is refused."""

from __future__ import annotations

from typing import Any

from kazeia.errors import InputError
from kazeia.random import draw_seed
from kazeia.server.errors import ApiError, from_library
from kazeia.server.speaking import Order
from kazeia.server.state import ServerState
from kazeia.server.voices import OPENAI_MODELS, choose_voice
from kazeia.text.clean import check_text
from kazeia.text.languages import resolve_language


def read_order(state: ServerState, values: dict[str, Any], text: str | None) -> Order:
    """What to say, from fields that were read. text: None when it comes later. Raises ApiError."""
    engine = state.engine
    check_model(state, values["model"])
    try:
        if text is not None:
            check_text(text)
        voice = choose_voice(values["voice"], engine.voices)
        language = resolve_language(values["language"], engine.languages)
    except InputError as error:
        raise from_library(error) from None
    if values["instructions"] is not None and not engine.takes_instruct:
        raise ApiError(
            400,
            "this model follows no instructions, as none of size 0.6B does; leave the field out, "
            "or load a 1.7B model",
            code="instructions_not_supported",
            param="instructions",
        )
    return Order(
        text=text or "",
        voice=voice,
        language=language,
        instruct=values["instructions"],
        seed=draw_seed() if values["seed"] is None else values["seed"],
        speed=values["speed"],
        sampling=_sampling(values, ""),
        predictor_sampling=_sampling(values, "cp_"),
        max_frames=values["max_frames"],
    )


def _sampling(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "repetition_penalty", "repetition_window")
    return {name: values[prefix + name] for name in names if values[prefix + name] is not None}


def check_model(state: ServerState, name: str) -> None:
    """Raise ApiError (404) unless `name` is the loaded model's, or one that it answers to."""
    if name not in (state.model_id, *OPENAI_MODELS):
        raise ApiError(
            404,
            f"the model {name[:80]!a} is not here; known: {', '.join((state.model_id, *OPENAI_MODELS))}",
            code="model_not_found",
            param="model",
        )

"""OpenAI's names for voices and models, and what they stand for here.

Clients come with these names built in. The table is shown by GET /v1/audio/voices.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kazeia.errors import VoiceError
from kazeia.text.languages import resolve_voice

OPENAI_MODELS = ("gpt-4o-mini-tts", "tts-1", "tts-1-hd")
"""Names of OpenAI's models that the loaded model answers to."""

# To voices of the released models that are alike in kind.
OPENAI_VOICES = {
    "alloy": "serena",
    "ash": "ryan",
    "ballad": "eric",
    "cedar": "uncle_fu",
    "coral": "vivian",
    "echo": "aiden",
    "fable": "dylan",
    "marin": "serena",
    "nova": "vivian",
    "onyx": "uncle_fu",
    "sage": "ono_anna",
    "shimmer": "sohee",
    "verse": "ryan",
}


def voice_aliases(voices: Iterable[str]) -> dict[str, str]:
    """OpenAI's names, each with the voice of this model that it stands for.

    A voice of the model's own that has such a name keeps it. Where the model lacks a voice of the
    table, its own voices take turns, so that different names stay different as far as they can.
    """
    own = list(voices)
    folded = {name.casefold(): name for name in own}
    if not own:
        return {}
    return {
        alias: folded.get(target, own[turn % len(own)])
        for turn, (alias, target) in enumerate(OPENAI_VOICES.items())
        if alias not in folded
    }


def choose_voice(name: str, voices: Iterable[str]) -> str:
    """The model's voice for a name of its own or of OpenAI's. Raises VoiceError listing both."""
    own = list(voices)
    aliases = voice_aliases(own)
    try:
        return resolve_voice(name, own)
    except VoiceError as error:
        if name in aliases:
            return aliases[name]
        raise VoiceError(f"{error}; and OpenAI's names {', '.join(aliases)}") from None


def model_id(name: str) -> str:
    """A model's name as clients see it: a hub id as it is, of a folder the last part only."""
    path = Path(name).expanduser()
    if path.is_absolute() or path.exists():
        return path.resolve().name or "kazeia"
    return name

"""Names of languages and voices, as people write them, to the names a model knows."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

from kazeia.errors import LanguageError, VoiceError

AUTO = "auto"
_DIALECT = "_dialect"

# The model's name: its ISO 639-1 code first, then the other codes and names.
_ALIASES = {
    "chinese": ("zh", "zho", "chi", "cmn", "mandarin", "中文", "汉语", "漢語", "普通话", "普通話", "华语"),
    "english": ("en", "eng"),
    "german": ("de", "deu", "ger", "deutsch"),
    "italian": ("it", "ita", "italiano"),
    "portuguese": ("pt", "por", "português", "portugues"),
    "spanish": ("es", "spa", "español", "espanol", "castellano"),
    "japanese": ("ja", "jpn", "日本語", "日本语"),
    "korean": ("ko", "kor", "한국어", "조선말", "조선어"),
    "french": ("fr", "fra", "fre", "français", "francais"),
    "russian": ("ru", "rus", "русский"),
}
_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}
# A code, perhaps with a script and a region: fr-FR, zh_Hans_CN, es-419.
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z]{4})?(?:[-_](?:[a-z]{2}|[0-9]{3}))?", re.ASCII)


def resolve_language(name: str | None, known: Iterable[str]) -> str | None:
    """The model's own name for the language `name`, or None for "auto" (and for None).

    `known` are the model's language names. Taken in any case: those names, ISO 639 codes with or
    without a region (fr, fra, fr-FR, fr_FR), and the languages' own names (français). A dialect is
    bound to its voice and is no language to ask for (spec §2.4). Raises LanguageError listing the
    known ones, for a language this model lacks too.
    """
    languages = {_fold(language): language for language in known if not language.endswith(_DIALECT)}
    if name is None:
        return None
    if not isinstance(name, str):
        raise LanguageError(f"found {type(name).__name__} as the language, expected str{_listed(languages)}")
    wanted = _fold(name.strip())
    if wanted == AUTO:
        return None
    if wanted in languages:
        return languages[wanted]
    tag = _TAG.fullmatch(wanted)
    common = _NAMES.get(wanted) or (_NAMES.get(tag[1]) if tag else None)
    if common in languages:
        return languages[common]
    if common:
        raise LanguageError(f'this model does not speak {common} ("{name}"){_listed(languages)}')
    if not wanted:
        raise LanguageError(f"the language is empty{_listed(languages)}")
    if wanted.endswith(_DIALECT):
        raise LanguageError(
            f'"{name}" is a dialect, which comes with its voice and cannot be asked for{_listed(languages)}'
        )
    raise LanguageError(f'unknown language "{name}"{_listed(languages)}')


def language_code(name: str) -> str | None:
    """The ISO 639-1 code of a language that has one here; None for a model's other languages."""
    aliases = _ALIASES.get(_fold(name))
    return aliases[0] if aliases else None


def _listed(languages: dict[str, str]) -> str:
    shown = [
        f"{name} ({_ALIASES[folded][0]})" if folded in _ALIASES else name
        for folded, name in languages.items()
    ]
    return f"; known: {', '.join(shown) or 'none'}, or {AUTO}"


def resolve_voice(name: str | None, known: Iterable[str]) -> str:
    """The model's own spelling of the voice `name`, in any case; None gives the model's first voice.

    `known` are the model's voices in its order. Raises VoiceError listing them when the name is
    empty or unknown, or the model has none.
    """
    voices = list(known)
    if not voices:
        raise VoiceError("this model has no preset voices")
    listed = f"known: {', '.join(voices)}"
    if name is None:
        return voices[0]
    if not isinstance(name, str):
        raise VoiceError(f"found {type(name).__name__} as the voice, expected str; {listed}")
    if name in voices:
        return name
    folded = {_fold(voice): voice for voice in reversed(voices)}  # the first of equals wins
    wanted = _fold(name.strip())
    if wanted in folded:
        return folded[wanted]
    if not wanted:
        raise VoiceError(f"the voice is empty; {listed}")
    near = difflib.get_close_matches(re.sub(r"[\s-]+", "_", wanted), folded, n=1)
    hint = f'; did you mean "{folded[near[0]]}"?' if near else ""
    raise VoiceError(f'unknown voice "{name}"{hint}; {listed}')


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()

"""Names of languages and voices: many spellings, one meaning, and no silent default."""

from __future__ import annotations

import pytest

from kazeia.errors import LanguageError, VoiceError
from kazeia.text.languages import resolve_language, resolve_voice

LANGUAGES = {
    "chinese": [
        "zh",
        "zho",
        "chi",
        "cmn",
        "zh-CN",
        "zh_TW",
        "zh-Hans-CN",
        "中文",
        "汉语",
        "普通话",
        "Mandarin",
    ],
    "english": ["en", "eng", "en-US", "en_GB", "EN", "English"],
    "german": ["de", "deu", "ger", "de-AT", "Deutsch", "GERMAN"],
    "italian": ["it", "ita", "it_IT", "Italiano"],
    "portuguese": ["pt", "por", "pt-BR", "Português", "portugues", "portugue\u0302s".replace("e\u0302", "ê")],
    "spanish": ["es", "spa", "es-419", "es_MX", "Español", "ESPAN\u0303OL", "espanol", "castellano"],
    "japanese": ["ja", "jpn", "ja-JP", "日本語"],
    "korean": ["ko", "kor", "ko_KR", "한국어"],
    "french": ["fr", "fra", "fre", "fr-FR", "fr_FR", "FR-ca", "français", "FRANÇAIS", "francais", " French "],
    "russian": ["ru", "rus", "ru-RU", "Русский", "РУССКИЙ"],
}
KNOWN = [*LANGUAGES, "beijing_dialect", "sichuan_dialect"]
CASES = [(given, name) for name, spellings in LANGUAGES.items() for given in [name, *spellings]]
VOICES = ["serena", "Vivian", "uncle_fu", "ryan"]


@pytest.mark.parametrize(("given", "name"), CASES)
def test_a_language_is_known_by_code_and_by_its_names(given: str, name: str) -> None:
    assert resolve_language(given, KNOWN) == name


@pytest.mark.parametrize("given", ["auto", "Auto", "AUTO", " auto ", None])
def test_auto_is_no_language(given: str | None) -> None:
    assert resolve_language(given, KNOWN) is None


@pytest.mark.parametrize(
    "given",
    ["", " ", "klingon", "xx", "fr-", "-fr", "fr-FRA-x", "zh-yue", "french-FR", "none", "frenc", "f"],
)
def test_an_unknown_language_is_an_error_that_lists_the_known_ones(given: str) -> None:
    with pytest.raises(LanguageError) as told:
        resolve_language(given, KNOWN)
    for part in ("french (fr)", "chinese (zh)", "japanese (ja)", "auto"):
        assert part in str(told.value)
    assert "_dialect" not in str(told.value).split("known:")[1]


@pytest.mark.parametrize("given", ["beijing_dialect", "Sichuan_Dialect", "other_dialect"])
def test_a_dialect_cannot_be_asked_for(given: str) -> None:
    with pytest.raises(LanguageError, match="dialect, which comes with its voice"):
        resolve_language(given, KNOWN)


@pytest.mark.parametrize("given", ["de", "German", "de-DE"])
def test_a_language_this_model_lacks_is_an_error(given: str) -> None:
    with pytest.raises(LanguageError, match=r"does not speak german .*known: english \(en\), french \(fr\)"):
        resolve_language(given, ["english", "french"])


def test_a_models_own_languages_need_no_alias() -> None:
    assert resolve_language("vietnamese", ["English", "Vietnamese"]) == "Vietnamese"
    assert resolve_language("en", ["English", "Vietnamese"]) == "English"


def test_a_language_that_is_no_string_is_an_error() -> None:
    with pytest.raises(LanguageError, match="found int"):
        resolve_language(1, KNOWN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, "serena"),
        ("serena", "serena"),
        ("SERENA", "serena"),
        ("vivian", "Vivian"),
        ("Vivian", "Vivian"),
        ("Uncle_Fu", "uncle_fu"),
        (" ryan ", "ryan"),
    ],
)
def test_a_voice_is_found_in_any_case_and_the_first_is_the_default(given: str | None, name: str) -> None:
    assert resolve_voice(given, VOICES) == name


@pytest.mark.parametrize("given", ["", "  ", "nobody", "alloy", "serena2 ", "x"])
def test_an_unknown_voice_is_an_error_that_lists_the_known_ones(given: str) -> None:
    with pytest.raises(VoiceError, match="known: serena, Vivian, uncle_fu, ryan"):
        resolve_voice(given, VOICES)


@pytest.mark.parametrize(
    ("given", "near"),
    [("viviane", "Vivian"), ("uncle fu", "uncle_fu"), ("Uncle-Fu", "uncle_fu"), ("rian", "ryan")],
)
def test_a_near_miss_is_suggested_never_taken(given: str, near: str) -> None:
    with pytest.raises(VoiceError, match=f'did you mean "{near}"'):
        resolve_voice(given, VOICES)


def test_equal_names_in_another_case_are_told_apart() -> None:
    assert resolve_voice("ANN", ["ann", "Ann", "ANN"]) == "ANN"
    assert resolve_voice("aNN", ["ann", "Ann", "ANN"]) == "ann"


def test_a_model_without_voices_says_so() -> None:
    with pytest.raises(VoiceError, match="no preset voices"):
        resolve_voice(None, [])


def test_a_voice_that_is_no_string_is_an_error() -> None:
    with pytest.raises(VoiceError, match="found int"):
        resolve_voice(3, VOICES)  # type: ignore[arg-type]

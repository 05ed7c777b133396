"""Lines that begin a chapter: "# Title", "Chapter 3", "Chapitre III – La mer", "第三章"."""

from __future__ import annotations

import re

CHAPTER_LEVEL = 2
"""Headings down to this level begin a chapter; deeper ones are only spoken."""
LONGEST = 100
"""Characters of a heading that is told by its words alone."""

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*")

_WORDS = (
    "chapter|part|book|chapitre|partie|livre|kapitel|teil|buch|capítulo|capitulo|parte|libro|capitolo|"
    "livro|глава|часть|книга"
)
_ALONE = (
    "prologue|epilogue|foreword|preface|introduction|afterword|interlude|"
    "épilogue|avant-propos|préface|postface|prolog|epilog|vorwort|nachwort|einleitung|"
    "prólogo|epílogo|prologo|epilogo|introducción|introduzione|introdução|prefacio|prefazione|prefácio|"
    "пролог|эпилог|предисловие|послесловие|введение"
)
_ROMAN = "(?=[ivxlcdm])m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})"
_CARDINALS = (
    "(?:twenty|thirty|forty|fifty)(?:-(?:one|two|three|four|five|six|seven|eight|nine))?|"
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    "seventeen|eighteen|nineteen|"
    "un|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|dix-sept|"
    "dix-huit|dix-neuf|vingt|"
    "eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|"
    "uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez"
)
_ORDINALS = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|"
    "premier|première|deuxième|seconde?|troisième|quatrième|cinquième|sixième|septième|huitième|neuvième|"
    "dixième|dernier|dernière|"
    "(?:erst|zweit|dritt|viert|fünft|sechst|siebt|acht|neunt|zehnt|letzt)e[rs]?|"
    "primer[oa]?|segund[oa]|tercer[oa]?|cuart[oa]|quint[oa]|prim[oa]|second[oa]|terz[oa]|quart[oa]|primeir[oa]"
)
_ENDING = "(?:st|nd|rd|th|er|ère|re|e|ème)?"
# "Chapter 3", "Chapter the First", "Chapitre Ier"; "3. Kapitel", "Première partie"; "Prologue"
_WORDED = re.compile(
    f"(?:(?:{_WORDS})\\s+(?:(?:the|la|le)\\s+)?(?:\\d{{1,4}}|{_CARDINALS}|{_ORDINALS}|{_ROMAN}){_ENDING}|"
    # a single capital needs its mark ("I part"), and those that spell words are none ("Le livre")
    f"(?:(?:\\d{{1,4}}|(?-i:[IVX]{{2,9}}|[IVX](?=[.eè]|re))){_ENDING}\\.?|{_ORDINALS})\\s+(?:{_WORDS})|"
    f"{_ALONE})(?!\\w)(?P<rest>.*)",
    re.IGNORECASE,
)
_EAST_ASIAN = re.compile(
    "(?:第\\s*[0-9〇零一二三四五六七八九十百千两０-９]{1,8}\\s*[章回节節部卷編编話话]|"
    "제\\s*\\d{1,4}\\s*[장부권화]|序章|序言|终章|終章|尾声|后记|後記|あとがき)(?!\\w)(?P<rest>.*)"
)
_NOTHING = re.compile(r"\s*[.:：—–-]?\s*")
_TITLE = re.compile(r"(?:[.:：]|\s*[—–]|\s+-)\s*\S.*")
_SENTENCE_END = re.compile(r"[.!?,;:…。！？][\"'”’»)]*$")


def marked_heading(line: str) -> tuple[int, str] | None:
    """Level (1 to 6) and title of a line such as "## The sea", else None."""
    found = _ATX.fullmatch(line)
    return None if found is None else (len(found[1]), (found[2] or "").strip())


def worded_heading(line: str) -> bool:
    """Whether a line that stands alone names a chapter by its words: "Chapter 3", "Prologue".

    A title may follow behind a mark ("Chapter 3: The sea"), or without one if the line then does not go on
    like a sentence ("Chapter 3 was long." is none).
    """
    rest = _rest(line)
    if rest is None:
        return False
    if _NOTHING.fullmatch(rest) or _TITLE.fullmatch(rest):
        return True
    runs_on = rest.strip()[:1].islower() or _SENTENCE_END.search(rest.rstrip()) is not None
    return rest[:1].isspace() and not runs_on


def is_bare(line: str) -> bool:
    """Whether a line names a chapter, and says nothing else."""
    rest = _rest(line)
    return rest is not None and _NOTHING.fullmatch(rest) is not None


def _rest(line: str) -> str | None:
    """What follows the chapter's name in a line that begins with one, None in others."""
    text = line.strip()
    if not text or len(text) > LONGEST:
        return None
    found = _WORDED.fullmatch(text) or _EAST_ASIAN.fullmatch(text)
    return None if found is None else str(found["rest"])

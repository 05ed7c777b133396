"""Long texts are cut where a speaker would pause, and nothing is lost, changed or torn."""

from __future__ import annotations

import random
import time
import unicodedata

import pytest

from kazeia.errors import OptionError
from kazeia.text.clean import is_speakable
from kazeia.text.segments import split_text


def squeezed(text: str) -> str:
    return "".join(text.split())


def width(text: str) -> int:
    """Latin letters' worth: full-width three, a run of white space one."""
    return sum(3 if unicodedata.east_asian_width(char) in "WF" else 1 for char in " ".join(text.split()))


def check(text: str, segments: list[str], limit: int) -> None:
    assert squeezed("".join(segments)) == squeezed(text)
    assert all(width(segment) <= limit for segment in segments)
    assert all(segment == segment.strip() for segment in segments)
    assert all(is_speakable(segment) for segment in segments)


# Each: a text that is longer than its limit, and the limit.
LONG = {
    "T01 90 words": ("word " * 90, 300),
    "T01 600 letters": ("a" * 600, 300),
    "T01 2 kB URL": ("See https://example.com/" + "path-to/page.html?x=1&y=2#z/" * 72 + " for more.", 300),
    "T01 words and a long one": ("Look at this: " + "b" * 700 + " and go on, please.", 300),
    "T01 clauses": ("one, two; three: four — five, " * 20, 60),
    "T02 Japanese": ("今日は良い天気ですね。散歩に行きますか？はい、行きましょう！" * 14, 300),
    "T02 Chinese": ("他说了很多话；可是……没有人听，为什么呢？" * 20, 300),
    "T02 Chinese without marks": ("漢字" * 400, 300),
    "T02 Hindi": ("मैं ठीक हूँ। आप कैसे हैं। बहुत अच्छा॥ " * 20, 200),
    "T02 Arabic": ("هل أنت بخير؟ نعم، شكرا۔ حسنا؛ " * 20, 200),
    "T02 Thai": ("สวัสดีครับผมชื่อสมชายและผมอยู่ที่กรุงเทพ" * 20, 200),
    "T02 Korean": ("안녕하세요. 저는 학생입니다! 당신은요? " * 20, 200),
    "T02 Armenian, Khmer, Burmese": ("Բարեւ։ " * 30 + "ជំរាបសួរ។ " * 30 + "မင်္ဂလာပါ။ " * 30, 120),
    "T03 lines": ("One.\nTwo.\nThree.\n" * 20, 60),
    "T03 CRLF": ("\r\nOne\r\nTwo\r\n\r\nThree\r\n" * 20, 60),
    "T03 separators": ("One\u2028Two\u2029Three\x85Four\x0bFive" * 20, 60),
    "T03 headings": (
        "\nChapter One\n\nIt was dark. It rained.\n\nChapter Two\n\nThe sun rose again." * 8,
        100,
    ),
    "T08 quotes": ('"Silk? It could stop a sword!" he said. ' * 20, 60),
    "T09 tags": ("<sigh>Fine. If x < y and y > z, then x < z & so on… " * 12, 80),
    "T09 brackets": ("(a) [b] {c} <d> *e* _f_ `g` ~h~ |i| \\j\\ " * 20, 50),
    "emoji inside": ("Well 👨‍👩‍👧‍👦 done 👍🏽, friends 🇫🇷🇩🇪! " * 30, 60),
}


@pytest.mark.parametrize(("text", "limit"), LONG.values(), ids=LONG.keys())
def test_every_character_is_kept_once_in_order_and_every_segment_fits(text: str, limit: int) -> None:
    segments = split_text(text, limit)
    assert len(segments) > 1
    check(text, segments, limit)


@pytest.mark.parametrize(("text", "limit"), LONG.values(), ids=LONG.keys())
def test_segments_are_of_similar_size(text: str, limit: int) -> None:
    sizes = [width(segment) for segment in split_text(text, limit)]
    assert min(sizes) * 3 >= max(sizes)


@pytest.mark.parametrize(
    "text",
    ["Hi.", "One.\nTwo.\r\n\r\nThree.", "  \n around it \n", "...", "<sigh>Fine.", "\ufeffhello", "中" * 100],
)
def test_a_text_that_fits_is_one_segment_unchanged(text: str) -> None:
    assert split_text(text) == [text]


def test_none_never_cuts() -> None:
    text = " One. Two.\n" * 500
    assert split_text(text, None) == [text]


def test_an_empty_text_has_no_segment() -> None:
    assert split_text("") == []
    assert split_text("", None) == []


@pytest.mark.parametrize("limit", [0, -1, 1.5, "300", True])
def test_a_bad_limit_is_refused(limit: object) -> None:
    with pytest.raises(OptionError, match=r"max_chars: found .*, expected an integer above 0"):
        split_text("Hello.", limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        # sentences, and what belongs to them (T08)
        ('"Silk? It could stop a sword!" He laughed.', 32, ['"Silk? It could stop a sword!"', "He laughed."]),
        ("“One is here.” “Two is here.” (Three.) Four.", 16,
         ["“One is here.”", "“Two is here.”", "(Three.) Four."]),
        ("«Un est là.» «Deux est là.»", 16, ["«Un est là.»", "«Deux est là.»"]),
        ("« Ça va bien ? » « Oui, merci ! »", 18, ["« Ça va bien ? »", "« Oui, merci ! »"]),
        ("« Ça va\u00a0?\u00a0» Oui, bien\u00a0!", 14, ["« Ça va\u00a0?\u00a0»", "Oui, bien\u00a0!"]),
        ("„Nein, danke!“ „Ja, bitte!“", 16, ["„Nein, danke!“", "„Ja, bitte!“"]),
        ("»Nein, danke!« »Ja, bitte!«", 16, ["»Nein, danke!«", "»Ja, bitte!«"]),
        ("「行こう！」と言った。「うん。」", 33, ["「行こう！」", "と言った。「うん。」"]),
        ("他说：“走吧。”“好的。”", 30, ["他说：“走吧。”", "“好的。”"]),
        ('他说："走吧。"然后他走了。', 30, ['他说："走吧。"', "然后他走了。"]),
        ("**Bold it is.** Plain it is.", 18, ["**Bold it is.**", "Plain it is."]),
        ("真的是吗?是的是的!好好好。", 36, ["真的是吗?", "是的是的!好好好。"]),
        # not sentences
        ("It costs 3.14 now. Pay 1.000,50 or so.", 24, ["It costs 3.14 now.", "Pay 1.000,50 or so."]),
        ("Mr. Smith left at once. Dr. No did not.", 26, ["Mr. Smith left at once.", "Dr. No did not."]),
        ("J. R. R. Tolkien wrote. He read too.", 26, ["J. R. R. Tolkien wrote.", "He read too."]),
        ("See example.com/a.b for it. Or not.", 30, ["See example.com/a.b for it.", "Or not."]),
        ("Well... that was odd to me. Was it?", 30, ["Well... that was odd to me.", "Was it?"]),
        ("价格是３．１４元对吗？是的。", 36, ["价格是３．１４元对吗？", "是的。"]),
        # clauses, words, punctuation that keeps its word
        ("here at twelve, or there at one", 18, ["here at twelve,", "or there at one"]),
        ("at 12:30 we go, at 12:45 not", 16, ["at 12:30 we go,", "at 12:45 not"]),
        ("我们去吧，他们不去、好吗", 18, ["我们去吧，", "他们不去、", "好吗"]),
        ("alpha beta gamma delta", 12, ["alpha beta", "gamma delta"]),
        ("Vraiment bon ! Oui", 13, ["Vraiment", "bon ! Oui"]),
        # lines come first (T03)
        ("Title here\nText is there. More.", 22, ["Title here", "Text is there. More."]),
        ("Title here\r\n\r\nText is there. More.", 22, ["Title here", "Text is there. More."]),
        ("Title here\u2028Text is there. More.", 22, ["Title here", "Text is there. More."]),
        # long words at their joints
        ("https://a.example/bcd/efg/hij", 18, ["https://a.example/", "bcd/efg/hij"]),
    ],
)  # fmt: skip
def test_cuts_fall_where_a_speaker_pauses(text: str, limit: int, expected: list[str]) -> None:
    assert split_text(text, limit) == expected


GRAPHEMES = {
    "family": "👨‍👩‍👧‍👦",
    "skin tone": "👍🏽",
    "flag": "🇫🇷",
    "England": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keycap": "1\ufe0f\u20e3",
    "combining": "e\u0301\u0323",
    "jamo": "\u1112\u1161\u11ab",
    "half-composed": "\uac00\u11a8",
    "Devanagari conjunct": "क्षि",
    "Thai": "กำ",
    "Thai leading vowel": "เก",
    "dakuten": "か\u3099",
    "variation": "❤\ufe0f",
    "surrogates": "\ud83d\ude00",
}


@pytest.mark.parametrize("grapheme", GRAPHEMES.values(), ids=GRAPHEMES.keys())
@pytest.mark.parametrize("limit", [1, 2, 5, 11])
@pytest.mark.parametrize("shift", ["", "x", "xy"])
def test_a_grapheme_is_never_torn(grapheme: str, limit: int, shift: str) -> None:
    text = (shift + "a" + grapheme * 3 + "b") * 8
    pieces = split_text(text, limit)
    at = 0
    for piece in pieces:  # pictures alone may be dropped, but only whole
        found = text.index(piece, at)
        dropped = text[at:found]
        assert dropped == "" or (len(dropped) % len(grapheme) == 0 and not is_speakable(dropped))
        at = found + len(piece)
        for start in range(found - len(grapheme) + 1, found):
            assert not (start >= 0 and text.startswith(grapheme, start)), (piece, found)


@pytest.mark.parametrize(
    "ornament", ["...", "***", "—", "?!", "。。。", '""', "😀", "\u200b", "\ufeff", "=====", "- - -"]
)
@pytest.mark.parametrize("limit", [40, 120])
def test_t04_ornaments_inside_a_long_text_leave_the_rest_spoken(ornament: str, limit: int) -> None:
    lines = [f"This is line number {n} of the text." for n in range(12)]
    segments = split_text(f"\n\n{ornament}\n\n".join(lines), limit)
    assert all(is_speakable(segment) for segment in segments)
    assert all(width(segment) <= limit for segment in segments)
    spoken = "".join(segments)
    for line in lines:
        assert squeezed(line) in squeezed(spoken)


@pytest.mark.parametrize("place", ["before", "after", "between"])
def test_t04_what_is_dropped_is_dropped_only_when_it_stands_alone(place: str) -> None:
    full, rule = "word " * 7 + "words", "*" * 30
    text = {"before": f"{rule}\n{full}", "after": f"{full}\n{rule}", "between": f"{full}\n{rule}\n{full}"}[
        place
    ]
    assert split_text(text, 40) == [full] * text.count(full)
    short = "A short line."
    assert split_text(f"{short}\n***\n{full}", 40) == [f"{short}\n***", full]


def test_a_long_text_of_ornaments_has_no_segment() -> None:
    assert split_text("*** " * 200) == []


def test_full_width_characters_count_three_times() -> None:
    assert len(split_text("中" * 100, 300)) == 1
    assert len(split_text("中" * 101, 300)) == 2
    assert len(split_text("a" * 300, 300)) == 1
    assert len(split_text("a" * 301, 300)) == 2


def test_nothing_is_lost_in_random_texts() -> None:
    rng = random.Random(20240607)
    atoms = [
        *("word", "a", "Mr.", "3.14", "https://x.y/z?q=1", "é", "e\u0301"),
        *("中文字", "かな", "한국", "मैं", "ไทย"),
        *(".", "!", "?", "…", ",", ";", ":", "—", "-", "。", "！", "？", "、", "，", "；", "।", "؟"),
        *('"', "'", "”", "“", "«", "»", "(", ")", "「", "」", "*", "_", "<", ">", "&", "=", "#"),
        *("👨‍👩‍👧‍👦", "🇫", "\u0301", "\u200b", "\u200d", "\ufeff"),
        *(" ", " ", " ", "  ", "\n", "\r\n", "\u2028", "\u00a0", "\u3000", "\t", "\x1c"),
    ]  # fmt: skip
    for _ in range(800):
        text = "".join(rng.choices(atoms, k=rng.randint(1, 120)))
        limit = rng.choice([1, 3, 7, 20, 60, 300])
        segments = split_text(text, limit)
        if segments == [text]:
            continue
        # What is left out between two segments holds nothing to say.
        at = 0
        for segment in segments:
            assert is_speakable(segment)
            found = text.index(segment, at)
            assert not is_speakable(text[at:found]), (text, segment)
            at = found + len(segment)
        assert not is_speakable(text[at:]), text


def test_cutting_takes_time_in_proportion_to_the_text() -> None:
    def seconds(count: int) -> float:
        text = 'No "marks", he said. a.b-c 中文。x' * count
        begun = time.process_time()
        split_text(text)
        return time.process_time() - begun

    seconds(50)
    assert seconds(2000) < 40 * max(seconds(200), 0.005)

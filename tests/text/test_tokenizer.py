"""Token ids equal the official tokenizer's, and text never becomes a control token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qwen_vocab import GOLDEN, SPECIALS, TEXTS, official, rebuild, write_files

from kazeia.errors import EmptyTextError, TextEncodingError, TokenizerError
from kazeia.text.tokenizer import TextTokenizer

IM_START, IM_END, ASSISTANT, NEWLINE = 151644, 151645, 77091, 198
IDS = {
    "im_start_token_id": IM_START,
    "im_end_token_id": IM_END,
    "assistant_token_id": ASSISTANT,
    "text_vocab_size": 151936,
}
_golden = json.loads(GOLDEN.read_text("utf-8"))
VOCAB: dict[str, int] = _golden["vocab"]
MERGES = [(left, right) for left, right in _golden["merges"]]
CASES: list[tuple[str, list[int]]] = [(text, ids) for text, ids in _golden["cases"]]

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    folder = tmp_path_factory.mktemp("golden")
    write_files(folder, VOCAB, MERGES)
    return TextTokenizer.from_folder(folder, **IDS)


@pytest.mark.parametrize(("text", "ids"), CASES, ids=[ascii(text[:20]) for text, _ in CASES])
def test_t06_ids_equal_the_official_tokenizers(tokenizer: TextTokenizer, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text) == ids


def test_the_golden_ids_of_the_specification(tokenizer: TextTokenizer) -> None:
    role, text = tokenizer.utterance("其实我真的有发现，我是一个特别善于观察别人情绪的人。")
    assert role == [IM_START, ASSISTANT, NEWLINE]
    assert text == [
        *(101045, 110146, 18830, 99879, 3837, 35946, 101909),
        *(100654, 106614, 104144, 101106, 104405, 100623, 1773),
    ]  # fmt: skip
    assert tokenizer.encode("Hello world") == [9707, 1879]
    assert tokenizer.encode(" Hello world") == [21927, 1879]


def test_composed_and_decomposed_spellings_are_the_same_text(tokenizer: TextTokenizer) -> None:
    assert tokenizer.encode("nin\u0303o e\u0301te\u0301") == tokenizer.encode("niño été")
    assert tokenizer.encode("か\u3099") == tokenizer.encode("が")


@pytest.mark.parametrize("text", [*SPECIALS, "<tts_pad>", "<|audio_start|>", "<|im_start|>"])
def test_t07_spellings_of_control_tokens_are_ordinary_text(tokenizer: TextTokenizer, text: str) -> None:
    for ids in (tokenizer.encode(text), tokenizer.utterance(text)[1], tokenizer.instruct(text)[1:-2]):
        assert ids
        assert max(ids) < 151643
    assert tokenizer.instruct(text).count(IM_END) == 1


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Hello", "Hello"),
        ("\nHello", "Hello"),
        ("\n\n \r\n\tHello", "\tHello"),
        (" \r  Hello", "  Hello"),
        ("  Hello", "  Hello"),
        ("\u3000\n\u00a0Hello", "\u00a0Hello"),
        ("\u2028\nHello", "Hello"),
        ("Hello\n\nworld \n", "Hello\n\nworld \n"),
        ("\x1c\nHello", "\x1c\nHello"),  # a control character, and no white space in the pattern
        ("\u200b\nHello", "\u200b\nHello"),
        ("\u0301x", "\u0301x"),
    ],
)
def test_leading_lines_are_dropped_and_nothing_else(tokenizer: TextTokenizer, text: str, rest: str) -> None:
    """They would melt into the template's line feed; what remains is one segment with it."""
    role, ids = tokenizer.utterance(text)
    assert role == [IM_START, ASSISTANT, NEWLINE]
    assert [ASSISTANT, NEWLINE, *ids] == tokenizer.encode("assistant\n" + rest)


@pytest.mark.parametrize("text", ["", "\n", " \r\n\n"])
def test_an_utterance_without_ids_is_refused(tokenizer: TextTokenizer, text: str) -> None:
    with pytest.raises(EmptyTextError, match="nothing to say"):
        tokenizer.utterance(text)


def test_an_instruction_is_a_user_turn(tokenizer: TextTokenizer) -> None:
    assert tokenizer.instruct("Hello world") == [
        *(IM_START, 872, NEWLINE),
        *(9707, 1879),
        *(IM_END, NEWLINE),
    ]  # fmt: skip
    assert tokenizer.instruct("") == []


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_lone_surrogates_are_refused_by_name(tokenizer: TextTokenizer, text: str) -> None:
    for encode in (tokenizer.encode, tokenizer.utterance, tokenizer.instruct):
        with pytest.raises(TextEncodingError, match="lone surrogate"):
            encode(text)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("version", ["", "#version: 0.2\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n"])
def test_l06_ids_do_not_depend_on_bom_line_ends_or_header(
    tmp_path: Path, mark: str, end: str, version: str, last: str
) -> None:
    vocab = json.dumps(VOCAB, ensure_ascii=False, indent=1)
    merges = version + "\n".join(f"{left} {right}" for left, right in MERGES) + last
    for name, data in (("vocab.json", vocab), ("merges.txt", merges)):
        (tmp_path / name).write_bytes((mark + data).replace("\n", end).encode())
    tokenizer = TextTokenizer.from_folder(tmp_path, **IDS)
    for text, ids in CASES:
        assert tokenizer.encode(text) == ids, text


def test_merges_that_begin_with_a_hash_are_kept(tmp_path: Path) -> None:
    assert ("#", "#") in MERGES
    assert MERGES[0][0] != "#version"
    first = [("#", "#"), *(pair for pair in MERGES if pair != ("#", "#"))]
    write_files(tmp_path, VOCAB, first)
    assert TextTokenizer.from_folder(tmp_path, **IDS).encode("##") == [VOCAB["##"]]


def _tiny(folder: Path, *, assistant: bool = True) -> dict[str, int]:
    """A vocabulary of the 256 bytes, and "assistant" put together letter by letter."""
    vocab = {token: VOCAB[token] for token in sorted(VOCAB, key=VOCAB.__getitem__)[:256]}
    merges = []
    if assistant:
        for left in range(1, len("assistant")):
            merges.append(("assistant"[:left], "assistant"[left]))
            vocab["assistant"[: left + 1]] = len(vocab)
    write_files(folder, vocab, merges)
    return {
        "im_start_token_id": 270,
        "im_end_token_id": 271,
        "assistant_token_id": vocab.get("assistant", 0),
        "text_vocab_size": 300,
    }


def test_a_tiny_vocabulary_serves(tmp_path: Path) -> None:
    ids = _tiny(tmp_path)
    tokenizer = TextTokenizer.from_folder(tmp_path, **ids)
    role, text = tokenizer.utterance("né")
    assert role == [270, ids["assistant_token_id"], VOCAB["Ċ"]]
    assert text == [VOCAB["n"], VOCAB["Ã"], VOCAB["©"]]
    assert tokenizer.instruct("x") == [
        270, *(VOCAB[char] for char in "user"), VOCAB["Ċ"], VOCAB["x"], 271, VOCAB["Ċ"]
    ]  # fmt: skip


def test_assistant_must_be_one_id_and_the_configs(tmp_path: Path) -> None:
    ids = _tiny(tmp_path)
    with pytest.raises(TokenizerError, match=r"vocab\.json: .assistant. .* expected \[77091, one id\]"):
        TextTokenizer.from_folder(tmp_path, **{**ids, "assistant_token_id": ASSISTANT})
    ids = _tiny(tmp_path, assistant=False)
    with pytest.raises(TokenizerError, match="one id"):
        TextTokenizer.from_folder(tmp_path, **ids)


def _edit_vocab(folder: Path, **changes: Any) -> None:
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    vocab.update(changes)
    vocab = {token: number for token, number in vocab.items() if number is not ...}
    (folder / "vocab.json").write_text(json.dumps(vocab), "utf-8")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x": 300}, r"token 'x': found id 300, expected an integer from 0 to 299"),
        ({"x": -1}, "found id -1"),
        ({"x": "87"}, "found id '87'"),
        ({"x": True}, "found id True"),
        ({"x": 0}, "id 0 stands for both"),
        ({"x": ...}, "1 of the 256 byte tokens are missing, such as 'x'"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_named(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    ids = _tiny(tmp_path)
    _edit_vocab(tmp_path, **changes)
    with pytest.raises(TokenizerError, match=rf"vocab\.json: .*{told}"):
        TextTokenizer.from_folder(tmp_path, **ids)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("vocab.json", b"{", r"not valid JSON .*line 1"),
        ("vocab.json", b"[]", "expected an object"),
        ("vocab.json", b"\xff", "not UTF-8 at byte 0"),
        ("vocab.json", None, "cannot be read"),
        ("merges.txt", b"a s\nas\n", "line 2: found 'as', expected two tokens"),
        ("merges.txt", b"a s\n\na  s\n", "line 3: found 'a  s'"),
        ("merges.txt", b"#version: 0.2\n#version: 0.2\n", "line 2: .*'#version:' is not in vocab.json"),
        ("merges.txt", b"x y\n", "line 1: token 'xy' is not in vocab.json"),
        ("merges.txt", b"a \xff\n", "not UTF-8 at byte 2"),
        ("merges.txt", None, "cannot be read"),
    ],
)
def test_files_that_cannot_be_used_name_file_and_line(
    tmp_path: Path, name: str, data: bytes | None, told: str
) -> None:
    ids = _tiny(tmp_path)
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(TokenizerError, match=rf"{name}: .*{told}"):
        TextTokenizer.from_folder(tmp_path, **ids)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextTokenizer, Any]:
    """Ours and the official tokenizer over the whole released vocabulary."""
    folder = tmp_path_factory.mktemp("released")
    vocab, merges = rebuild()
    assert (len(vocab), len(merges)) == (151643, 151387)
    write_files(folder, vocab, merges)
    return TextTokenizer.from_folder(folder, **IDS), official(folder)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_t06_the_released_vocabulary_gives_official_ids(released: tuple[TextTokenizer, Any]) -> None:
    ours, reference = released
    for text in [*TEXTS, *_random_texts()]:
        assert ours.encode(text) == reference.encode(text), ascii(text)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_utterances_are_cut_from_the_official_template(released: tuple[TextTokenizer, Any]) -> None:
    ours, reference = released
    for text in TEXTS:
        whole = reference.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        assert ours.utterance(text) == (whole[:3], whole[3:-5]), ascii(text)
        assert ours.instruct(text) == reference.encode(f"<|im_start|>user\n{text}<|im_end|>\n"), ascii(text)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_t07_special_spellings_split_as_ordinary_text_does(released: tuple[TextTokenizer, Any]) -> None:
    ours, reference = released
    for text in SPECIALS:
        assert ours.encode(text) == reference.encode(text, split_special_tokens=True), ascii(text)


def _random_texts() -> list[str]:
    import random

    rng = random.Random(20240607)
    pool = "".join(TEXTS) + " \n\r\t'’sStTrReE" * 20
    return ["".join(rng.choices(pool, k=rng.randint(1, 40))) for _ in range(2000)]

"""The talker's input rows, against a construction of their own from the specification (§2.4)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

import edits
from kazeia import Engine, KazeiaWarning
from kazeia.prompt import Prompt

MODELS = ("tiny", "tiny-1b7")
TEXT = "Hello, the user said 42 è."
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Paper:
    """The prompt as the specification words it, from the checkpoint's own files, in float64."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.talker = self.config["talker_config"]
        tensors = edits.read_tensors(folder / "model.safetensors")
        self.weights = {name: edits.floats(raw).astype(np.float64) for name, raw in tensors.items()}
        self.tokenizer = self._tokenizer(folder)

    @staticmethod
    def _tokenizer(folder: Path) -> Tokenizer:
        """The official tokenizer: its control tokens are recognised in text."""
        merges = [tuple(line.split(" ")) for line in (folder / "merges.txt").read_text("utf-8").splitlines()]
        vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        added = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["added_tokens_decoder"]
        tokenizer.add_special_tokens([token["content"] for _, token in sorted(added.items())])
        for number, token in added.items():
            assert tokenizer.token_to_id(token["content"]) == int(number)
        return tokenizer

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def p(self, ids: list[int]) -> np.ndarray:
        """P(id) = fc2(SiLU(fc1(text_embedding[id]))); §2.3."""
        w, name = self.weights, "talker.text_projection.linear_fc"
        z = w["talker.model.text_embedding.weight"][ids] @ w[f"{name}1.weight"].T + w[f"{name}1.bias"]
        return z / (1 + np.exp(-z)) @ w[f"{name}2.weight"].T + w[f"{name}2.bias"]

    def e(self, ids: list[int]) -> np.ndarray:
        return self.weights["talker.model.codec_embedding.weight"][ids]

    def k(self, voice: str, language: str | None) -> list[int]:
        """The codec prefix; §2.4."""
        t = self.talker
        dialect = t["spk_is_dialect"][voice]
        number = None if language is None else t["codec_language_id"][language]
        if dialect and language in (None, "chinese"):
            number = t["codec_language_id"][dialect]
        if number is None:
            return [t["codec_nothink_id"], t["codec_think_bos_id"], t["codec_think_eos_id"]]
        return [t["codec_think_id"], t["codec_think_bos_id"], number, t["codec_think_eos_id"]]

    def prompt(
        self, text: str, voice: str, language: str | None, instruct: str | None, layout: str
    ) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Rows (T0, h), trailing rows Z, and the text ids."""
        c, t = self.config, self.talker
        ids = self.ids(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        role, x = ids[:3], ids[3:-5]
        tp, tb, te = self.p([c["tts_pad_token_id"], c["tts_bos_token_id"], c["tts_eos_token_id"]])
        codec_pad, codec_bos = self.e([t["codec_pad_id"], t["codec_bos_id"]])
        rows: list[np.ndarray] = []
        if instruct:
            rows += list(self.p(self.ids(f"<|im_start|>user\n{instruct}<|im_end|>\n")))
        rows += list(self.p(role))
        rows += [tp + row for row in self.e(self.k(voice, language))]
        rows += [tp + self.e([t["spk_id"][voice]])[0]]
        rows += [tb + codec_pad]
        spoken = list(self.p(x))
        if layout == "whole":
            rows += [row + codec_pad for row in spoken]
            rows += [te + codec_pad, tp + codec_bos]
            trailing = [tp]
        else:
            rows += [spoken[0] + codec_bos]
            trailing = [*spoken[1:], te]
        return np.stack(rows), np.stack(trailing), x


@pytest.fixture(scope="module")
def papers(checkpoint: Callable[[str], Path]) -> dict[str, Paper]:
    return {name: Paper(checkpoint(name)) for name in MODELS}


@pytest.fixture
def build(load_engine: Callable[..., Engine]) -> Callable[..., Prompt]:
    def build(model: str, *args: Any) -> Prompt:
        opened = load_engine(model)._model
        assert opened is not None
        return opened.prompts.build(*args)

    return build


def close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", ["whole", "streamed"])
@pytest.mark.parametrize("language", [None, "chinese", "english", "french"])
@pytest.mark.parametrize("voice", ["serena", "eric", "dylan"])
def test_rows_are_the_specifications(
    papers: dict[str, Paper], build: Callable[..., Prompt], model: str, layout: str, language: str, voice: str
) -> None:
    for instruct in (None, "") if model == "tiny" else (None, "", "say it softly,\nplease"):
        rows, trailing, ids = papers[model].prompt(TEXT, voice, language, instruct, layout)
        prompt = build(model, TEXT, voice, language, instruct, layout)
        assert close(prompt.rows, rows)
        assert close(prompt.trailing, trailing)
        assert list(prompt.text_ids) == ids
        assert prompt.rows.dtype == prompt.trailing.dtype == np.float32


@pytest.mark.parametrize("model", MODELS)
def test_the_length_is_the_formulas(
    papers: dict[str, Paper], build: Callable[..., Prompt], model: str
) -> None:
    for text in ("a", "Two words", "漢字と 42!", TEXT * 5):
        n = len(build(model, text, "serena", None).text_ids)
        for voice, language, named in (
            ("serena", None, 0),
            ("serena", "chinese", 1),
            ("serena", "english", 1),
            ("eric", None, 1),
            ("eric", "chinese", 1),
            ("dylan", "english", 1),
        ):
            for instruct in (None, "softly"):
                user = f"<|im_start|>user\n{instruct}<|im_end|>\n"
                head = (len(papers[model].ids(user)) if instruct else 0) + 3 + (3 + named) + 1 + 1
                whole = build(model, text, voice, language, instruct, "whole")
                streamed = build(model, text, voice, language, instruct, "streamed")
                assert len(whole.rows) == head + n + 2
                assert len(whole.trailing) == 1
                assert len(streamed.rows) == head + 1
                assert len(streamed.trailing) == n


@pytest.mark.parametrize(
    ("voice", "language", "same_as"),
    [
        ("eric", None, "sichuan_dialect"),
        ("eric", "chinese", "sichuan_dialect"),
        ("eric", "english", "english"),
        ("dylan", None, "beijing_dialect"),
        ("dylan", "chinese", "beijing_dialect"),
        ("dylan", "japanese", "japanese"),
        ("serena", "chinese", "chinese"),
        ("serena", None, None),
    ],
)
def test_a_dialect_replaces_chinese_and_auto_and_nothing_else(
    papers: dict[str, Paper],
    load_engine: Callable[..., Engine],
    voice: str,
    language: str | None,
    same_as: str | None,
) -> None:
    model = load_engine("tiny")._model
    assert model is not None
    ids = papers["tiny"].talker["codec_language_id"]
    assert model.prompts.language_id(language, voice) == (None if same_as is None else ids[same_as])


@pytest.mark.parametrize(("model", "deaf"), [("tiny", True), ("tiny-1b7", False)])
def test_the_engine_hands_the_instruction_on_or_drops_it_with_a_warning(
    papers: dict[str, Paper],
    load_engine: Callable[..., Engine],
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    deaf: bool,
) -> None:
    from kazeia.runtime.talker import Talker

    seen: list[np.ndarray] = []
    read = Talker.read
    monkeypatch.setattr(
        Talker, "read", lambda self, state, rows: (seen.append(rows), read(self, state, rows))[1]
    )
    engine = load_engine(model)
    assert engine._model is not None
    engine._model.prefixes._kept.clear()  # so that all of the prompt is read
    options = {"voice": "RYAN", "language": "fr", "instruct": "softly", "layout": "streamed"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        engine.synthesize(TEXT, max_frames=1, **options)  # type: ignore[arg-type]
    assert [w.category for w in caught] == [KazeiaWarning] * deaf
    rows, _, _ = papers[model].prompt(TEXT, "ryan", "french", None if deaf else "softly", "streamed")
    assert len(seen) == 2  # what is common to all texts, and the rest
    assert close(np.concatenate(seen), rows)


def test_every_frame_has_the_text_row_of_its_number(build: Callable[..., Prompt]) -> None:
    for layout in ("whole", "streamed"):
        prompt = build("tiny", "abc", "serena", None, None, layout)
        for frame in range(12):
            row = prompt.trailing[frame] if frame < len(prompt.trailing) else prompt.pad
            assert np.array_equal(prompt.text_row(frame), row)
    assert np.array_equal(build("tiny", "a", "serena", None).trailing[0], prompt.pad)


def test_the_talker_hears_each_text_row_with_its_frame(
    load_engine: Callable[..., Engine], build: Callable[..., Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Frame g's own codes, and text row g, make the input of the step after frame g; §2.5.
    from kazeia.runtime.talker import Talker

    engine = load_engine("tiny")
    model = engine._model
    assert model is not None
    seen: list[np.ndarray] = []
    step = Talker.step
    monkeypatch.setattr(
        Talker, "step", lambda self, state, x, held: (seen.append(x[0].copy()), step(self, state, x, held))[1]
    )
    speech = engine.synthesize("abc", seed=1, max_frames=8, layout="streamed")
    prompt = build("tiny", "abc", "serena", None, None, "streamed")
    assert len(seen) == 7
    for frame, row in enumerate(seen):
        text = prompt.trailing[frame] if frame < len(prompt.trailing) else prompt.pad
        assert np.array_equal(row, model.predictor.embed(speech.codes[frame]) + text)


@pytest.mark.parametrize("text", ["a", "7", "é", "the"])
def test_a_text_of_one_token_streams(
    papers: dict[str, Paper], build: Callable[..., Prompt], text: str
) -> None:
    for model in MODELS:
        rows, trailing, ids = papers[model].prompt(text, "serena", "english", None, "streamed")
        prompt = build(model, text, "serena", "english", None, "streamed")
        assert close(prompt.rows, rows)
        assert close(prompt.trailing, trailing)
        if len(ids) == 1:
            assert len(prompt.trailing) == 1  # the end of the text alone
    assert len(ids) == 1 or text in ("é", "the")


def test_special_spellings_in_a_text_are_ordinary_letters(
    papers: dict[str, Paper], build: Callable[..., Prompt]
) -> None:
    paper = papers["tiny"]
    ordinary = paper.tokenizer.get_vocab_size(with_added_tokens=False)
    for text in (
        "<|im_end|>",
        "a<|im_end|>\n<|im_start|>assistant\nb",
        "<tts_pad>",
        "<tts_text_bos> x <tts_text_eod>",
        "<|endoftext|>",
    ):
        ids = build("tiny", text, "serena", None).text_ids
        assert max(ids) < ordinary
        # The official tokenizer would make a control token of it.
        assert max(paper.ids(text)) >= ordinary
        assert bytes_of(paper, ids) == text.encode()


def bytes_of(paper: Paper, ids: tuple[int, ...]) -> bytes:
    from kazeia.testing.tokenizer import byte_characters

    table = {character: byte for byte, character in enumerate(byte_characters())}
    return bytes(table[c] for number in ids for c in paper.tokenizer.id_to_token(number))

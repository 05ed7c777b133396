"""The synthetic tokenizers: well-formed files, and the ids the prompt relies on."""

from __future__ import annotations

import functools

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from kazeia.testing import SHAPES
from kazeia.testing.tokenizer import FULL_SIZE, TokenizerFiles, make_tokenizer

SMALL = make_tokenizer(SHAPES["tiny"])
FULL = make_tokenizer(SHAPES["0.6b"])
BOTH = pytest.mark.parametrize("files", [SMALL, FULL], ids=["small", "full"])


@functools.cache
def backend(full: bool) -> Tokenizer:
    """The tokenizers library on one of the two, without added tokens."""
    files = FULL if full else SMALL
    tokenizer = Tokenizer(models.BPE(vocab=files.vocab, merges=files.merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def encode(files: TokenizerFiles, text: str) -> list[int]:
    """Ids of `text`."""
    return backend(files is FULL).encode(text).ids


@BOTH
def test_ids_are_contiguous_and_the_control_tokens_follow(files: TokenizerFiles) -> None:
    assert sorted(files.vocab.values()) == list(range(len(files.vocab)))
    added = [int(index) for index in files.config["added_tokens_decoder"]]
    assert added == list(range(len(files.vocab), files.size))


@BOTH
def test_every_merge_joins_two_entries_into_a_third(files: TokenizerFiles) -> None:
    assert len(set(files.merges)) == len(files.merges)
    for left, right in files.merges:
        assert all(part in files.vocab for part in (left, right, left + right))


@BOTH
def test_role_word_and_newline_are_one_token_each(files: TokenizerFiles) -> None:
    assert encode(files, "assistant") == [files.ids["assistant_token_id"]]
    assert len(encode(files, "\n")) == 1


@BOTH
@pytest.mark.parametrize("text", ["ß€😀 \t\n", "assist ants", "\x00\x7f", "日本"])
def test_every_text_has_ids_that_spell_it(files: TokenizerFiles, text: str) -> None:
    names = {index: name for name, index in files.vocab.items()}
    spelt = "".join(names[index] for index in encode(files, text))
    assert spelt == "".join(
        piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    )


@pytest.mark.parametrize(
    ("text", "index"), [("assistant", 77091), ("user", 872), ("\n", 198), ("!", 0), ("A", 32)]
)
def test_full_vocabulary_has_the_released_ids(text: str, index: int) -> None:
    assert encode(FULL, text) == [index]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("<|endoftext|>", 151643),
        ("<|im_start|>", 151644),
        ("<|im_end|>", 151645),
        ("<|vision_pad|>", 151654),
        ("<tool_call>", 151657),
        ("<|fim_prefix|>", 151659),
        ("</think>", 151668),
        ("<|audio_start|>", 151669),
        ("<tts_pad>", 151671),
        ("<tts_text_bos>", 151672),
        ("<tts_text_eod>", 151673),
        ("<|audio_pad|>", 151675),
    ],
)
def test_full_vocabulary_has_the_released_control_ids(name: str, index: int) -> None:
    assert FULL.config["added_tokens_decoder"][str(index)]["content"] == name


def test_full_vocabulary_spreads_text_over_the_table() -> None:
    assert len(FULL.vocab) == FULL_SIZE
    ids = encode(FULL, "the other one was here and there for all of it")
    assert min(ids) < 1000
    assert max(ids) > 100_000


def test_config_ids_name_the_control_tokens() -> None:
    names = {
        "im_start_token_id": "<|im_start|>",
        "im_end_token_id": "<|im_end|>",
        "tts_pad_token_id": "<tts_pad>",
        "tts_bos_token_id": "<tts_text_bos>",
        "tts_eos_token_id": "<tts_text_eod>",
    }
    for key, name in names.items():
        assert SMALL.config["added_tokens_decoder"][str(SMALL.ids[key])]["content"] == name


def test_the_small_vocabulary_fits_every_tiny_table() -> None:
    for name, shape in SHAPES.items():
        if name.startswith("tiny"):
            assert make_tokenizer(shape).size <= shape.text_vocab

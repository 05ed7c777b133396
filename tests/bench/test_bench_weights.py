"""The bytes of weights are those of the checkpoint's matrices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from kazeia.bench.weights import WeightBytes, weight_bytes
from kazeia.engine import Engine
from kazeia.errors import BundleError


def elements(folder: Path, *, starts: str, has: str) -> int:
    tensors = load_file(folder / "model.safetensors")
    return sum(
        t.size for name, t in tensors.items() if name.startswith(starts) and has in name and t.ndim == 2
    )


def counted(engine: Engine) -> WeightBytes:
    return weight_bytes(engine.path)


def test_a_talker_step_reads_every_matrix_once_and_a_frame_the_predictors_body_15_times(
    checkpoint: Callable[[str], Path], load_engine: Callable[..., Engine]
) -> None:
    folder, found = checkpoint("tiny"), counted(load_engine("tiny", "f32"))
    talker = elements(folder, starts="talker.model.", has="layers.")
    head = elements(folder, starts="talker.codec_head", has="")
    assert found.talker == 4 * (talker + head)
    body = elements(folder, starts="talker.code_predictor.model", has="layers.")
    heads = elements(folder, starts="talker.code_predictor.lm_head", has="")
    assert found.predictor == 4 * (15 * body + heads)
    assert found.predictor_resident == 4 * (body + heads)
    assert found.decoder > 0


def test_a_value_of_q8_takes_9_bits_and_one_of_q4_takes_5(load_engine: Callable[..., Engine]) -> None:
    f32, q8, q4 = (counted(load_engine("tiny", quant)) for quant in ("f32", "q8", "q4"))
    # blocks of 32 values share a scale of 32 bits: 8 + 1 and 4 + 1 bits; q4's head stays at 9
    assert q8.talker / f32.talker == pytest.approx(9 / 32, rel=0.02)
    assert 5 / 32 < q4.talker / f32.talker < 9 / 32
    assert q4.predictor == q8.predictor
    assert q4.decoder == q8.decoder == f32.decoder


def test_what_is_no_bundle_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="heads"):
        weight_bytes(tmp_path)

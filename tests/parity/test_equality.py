"""Law 1: in f32 every stage equals the official package, run beside ours on the same checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dump_official import make_dump, write_dump
from kazeia import validate
from kazeia.engine import Engine
from kazeia.validation import SNR_FLOOR_DB, relative_error, snr_db
from oracle import load

pytestmark = pytest.mark.oracle

FRAMES = 33
TEXT = "to the end of 1, 2 and 3: né!"

# (shape, voice, language, instruct, layout): every shape, and every way to build a prompt.
UTTERANCES = [
    ("tiny", "vivian", "english", None, "whole"),
    ("tiny", "ryan", None, None, "streamed"),
    ("tiny", "eric", "chinese", None, "whole"),
    ("tiny", "dylan", "english", None, "streamed"),
    ("tiny-mha", "serena", "french", None, "whole"),
    ("tiny-gqa8", "dylan", None, None, "whole"),
    ("tiny-1b7", "sohee", "korean", "in a whisper", "whole"),
    ("tiny-1b7", "eric", None, "slowly, please", "streamed"),
    ("tiny-hd128", "aiden", "german", None, "whole"),
    ("tiny-deep", "ono_anna", "japanese", None, "whole"),
    ("tiny-codec", "uncle_fu", "russian", None, "streamed"),
]


@pytest.mark.parametrize(("shape", "voice", "language", "instruct", "layout"), UTTERANCES)
def test_every_stage_equals_the_official_package(
    checkpoint: Callable[[str], Path],
    tmp_path: Path,
    shape: str,
    voice: str,
    language: str | None,
    instruct: str | None,
    layout: str,
) -> None:
    model = checkpoint(shape)
    info, tensors = make_dump(
        load(model),
        TEXT,
        voice=voice,
        language=language,
        instruct=instruct,
        layout=layout,
        frames=FRAMES,
    )
    assert info["frames"] == FRAMES
    write_dump(tmp_path, info, tensors)
    report = validate(model, tmp_path, threads=1)
    results = {stage.name: stage.result for stage in report.stages}
    assert report.ok, "\n".join(report.lines())
    assert results["predictor, teacher-forced"].startswith("495/495 codes")
    assert results["codebook 0, teacher-forced"] == "33/33 codes"
    assert results["free greedy run"] == "528/528 codes"


def test_a_natural_end_comes_at_the_same_frame(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    model = checkpoint("ending")
    info, tensors = make_dump(load(model), TEXT, voice="ryan", language="english", frames=60)
    assert info["ended"]
    write_dump(tmp_path, info, tensors)
    report = validate(model, tmp_path, threads=1)
    assert report.ok, "\n".join(report.lines())


def test_greedy_speech_ends_like_the_official_package(
    checkpoint: Callable[[str], Path], ending: Engine
) -> None:
    trace = load(checkpoint("ending")).trace(TEXT, "ryan", "English", frames=60)
    greedy = ending.talker_sampling("official").replace(temperature=0.0)
    speech = ending.synthesize(
        TEXT,
        voice="ryan",
        language="en",
        sampling=greedy,
        predictor_sampling=ending.predictor_sampling("official").replace(temperature=0.0),
    )
    assert trace.ended
    assert speech.finish_reason == "stop"
    assert np.array_equal(speech.codes, trace.codes)


@pytest.mark.parametrize("frames", [1, 33, 600])
@pytest.mark.parametrize("shape", ["tiny", "tiny-codec"])
def test_the_decoder_equals_the_official_one_at_any_length(
    checkpoint: Callable[[str], Path], load_engine: Callable[..., Engine], shape: str, frames: int
) -> None:
    official, engine = load(checkpoint(shape)), load_engine(shape)
    size = official.config.talker_config.code_predictor_config.vocab_size
    codes = np.random.default_rng(frames).integers(0, size, (frames, 16))
    theirs = official.waveform(codes)
    assert engine._model is not None
    ours = engine._model.decoder.decode(codes)
    assert np.abs(theirs).max() < 1  # the comparison is not one of clipped samples
    assert snr_db(ours, theirs) >= SNR_FLOOR_DB


def test_the_comparison_can_fail() -> None:
    a = np.ones((3, 4), np.float32)
    b = a.copy()
    b[2, 1] = 1.01
    assert relative_error(a, b) > 1e-3
    assert snr_db(a, b) < SNR_FLOOR_DB
    assert relative_error(a, a[:2]) == float("inf")

"""The embedded voice is an official checkpoint: the official package loads it and does the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kazeia
from dump_official import make_dump, write_dump
from kazeia.validation import SNR_FLOOR_DB, snr_db
from oracle import load

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bonjour, je m'appelle Kazeia, et je parle un peu trop longtemps pour un exemple.", "french"),
        ("Good morning, my name is Kazeia, and this sentence is rather long for an example.", "english"),
    ],
)
def test_greedy_codes_and_samples_equal_the_official_package(
    text: str, language: str, tmp_path: Path
) -> None:
    model = kazeia.inspect().path
    official = load(model)
    info, tensors = make_dump(official, text, voice="kazeia", language=language, layout="whole", frames=33)
    assert info["frames"] == 33
    write_dump(tmp_path, info, tensors)
    report = kazeia.validate("embedded", tmp_path, threads=1)
    results = {stage.name: stage.result for stage in report.stages}
    assert report.ok, "\n".join(report.lines())
    assert results["free greedy run"] == "528/528 codes"


def test_a_spoken_sentence_is_decoded_like_the_official_decoder_does() -> None:
    with kazeia.load(quant="f32") as engine:
        speech = engine.synthesize("Le vent souffle fort ce matin.", language="fr", seed=1)
    theirs = np.clip(load(kazeia.inspect().path).waveform(speech.codes), -1, 1)
    assert snr_db(speech.pcm, theirs) >= SNR_FLOOR_DB

"""What fewer bits cost: f32 costs nothing against itself, and the figures are what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia.errors import LanguageError, OptionError, TextError, VoiceError
from kazeia.models import build_bundle
from kazeia.quality import QualityPlan, QualityReport, assess_quality
from kazeia.quality.assess import _compare

FRAMES = 12


class Ear:
    """Hears what it is told to, and remembers the languages."""

    def __init__(self, heard: str) -> None:
        self.heard = heard
        self.languages: list[str | None] = []

    def hear(self, pcm: Any, sample_rate: int, language: str | None) -> str:
        assert len(pcm)
        assert sample_rate == 24_000
        self.languages.append(language)
        return self.heard


@pytest.fixture(scope="module")
def report(checkpoint: Callable[[str], Path]) -> QualityReport:
    plan = QualityPlan(("f32", "q8", "q4"), rollouts=3, frames=FRAMES, threads=1)
    return assess_quality(checkpoint("tiny"), plan)


def test_f32_agrees_with_itself_wholly(report: QualityReport) -> None:
    same = report.formats[0]
    assert same.agreement == (1.0,) * 16
    assert same.kl == (0.0,) * 16
    assert same.same_frames == (FRAMES,) * 3
    assert same.decoder_snr_db is None
    assert same.free == report.reference
    assert (same.predictor_agreement, same.predictor_kl) == (1.0, 0.0)


def test_fewer_bits_cost_more(report: QualityReport) -> None:
    _, q8, q4 = report.formats
    for found in (q8, q4):
        assert found.frames == 3 * FRAMES
        assert len(found.agreement) == len(found.kl) == 16
        assert all(0 <= share <= 1 for share in found.agreement)
        assert all(kl > 0 for kl in found.kl)
        assert found.decoder_snr_db is None  # the codec decoder is f32 in every format
    assert q8.kl[0] < q4.kl[0]
    assert q8.predictor_kl < q4.predictor_kl
    assert q8.agreement[0] >= q4.agreement[0]


def test_random_weights_never_end_so_there_is_no_length_to_compare(report: QualityReport) -> None:
    assert report.reference.lengths == (FRAMES,) * 3
    assert report.reference.ended == (False,) * 3
    assert all(found.length_ratios == () and found.length_ratio is None for found in report.formats)


def test_lengths_are_compared_where_both_end(checkpoint: Callable[[str], Path]) -> None:
    plan = QualityPlan(("f32", "q4"), rollouts=4, frames=60, threads=1)
    found = assess_quality(checkpoint("ending"), plan)
    assert sum(found.reference.ended) >= 3
    same, q4 = found.formats
    assert same.length_ratios == (1.0,) * sum(found.reference.ended)
    assert same.length_ratio == 1.0
    both = [a and b for a, b in zip(found.reference.ended, q4.free.ended, strict=True)]
    assert len(q4.length_ratios) == sum(both)
    ratios = [a / b for a, b in zip(q4.free.lengths, found.reference.lengths, strict=True)]
    assert list(q4.length_ratios) == [r for r, yes in zip(ratios, both, strict=True) if yes]


def test_the_texts_alternate_between_the_languages(report: QualityReport) -> None:
    assert [language for _, language in report.texts] == ["english", "french", "english"]
    assert len({text for text, _ in report.texts}) == 3


def test_the_report_is_json_and_markdown(report: QualityReport) -> None:
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert [f["quant"] for f in found["formats"]] == ["f32", "q8", "q4"]
    assert found["formats"][0]["decoder_equal"] is True
    assert found["formats"][1]["agreement"] == list(report.formats[1].agreement)
    tables = [line for line in report.markdown().splitlines() if line.startswith("|")]
    assert len(tables) == (2 + 4) + (2 + 16)
    assert {line.count("|") for line in tables[:6]} == {11}
    assert {line.count("|") for line in tables[6:]} == {8}


def test_the_judge_hears_every_rollout_in_its_language(checkpoint: Callable[[str], Path]) -> None:
    ear: Any = Ear("One TWO")
    plan = QualityPlan(
        ("q8",), rollouts=2, frames=3, texts=("One, two!", "three four"), language="en", threads=1
    )
    found = assess_quality(checkpoint("tiny"), plan, judge=ear)
    assert found.reference.word_error_rate == 0.5
    assert found.formats[0].free.word_error_rate == 0.5
    assert ear.languages == ["en"] * 4
    assert "50.0%" in found.markdown()


def test_own_texts_without_a_language_are_spoken_and_heard_in_auto(checkpoint: Callable[[str], Path]) -> None:
    ear: Any = Ear("")
    plan = QualityPlan(("q8",), rollouts=1, frames=2, texts=("One",), threads=1)
    found = assess_quality(checkpoint("tiny"), plan, judge=ear)
    assert found.texts == (("One", "auto"),)
    assert ear.languages == [None, None]


def test_divergence_is_that_of_the_textbook() -> None:
    true = np.log(np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], np.float32))
    ours = np.log(np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]], np.float32)) + np.float32(7)
    agreement, kl = _compare(ours, true, None)
    assert agreement.tolist() == [0.0, 1.0]
    assert kl.tolist() == pytest.approx([0.5 * math.log(2) - 0.25 * math.log(2), 0.0], abs=1e-6)


def test_what_may_not_be_drawn_counts_for_nothing() -> None:
    true = np.array([[0.0, 1.0, 50.0]], np.float32)
    ours = np.array([[0.0, 1.0, -50.0]], np.float32)
    agreement, kl = _compare(ours, true, np.array([[True, True, False]]))
    assert (agreement.item(), kl.item()) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"quants": ()}, OptionError),
        ({"quants": ("q8", "q8")}, OptionError),
        ({"quants": ("q9",)}, OptionError),
        ({"rollouts": 0}, OptionError),
        ({"frames": 1}, OptionError),
        ({"threads": 0}, OptionError),
        ({"texts": ()}, OptionError),
        ({"texts": ("fine", " ")}, TextError),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        QualityPlan(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"voice": "nobody"}, VoiceError, "nobody"),
        ({"language": "klingon"}, LanguageError, "klingon"),
        ({"language": "german"}, OptionError, "no sentences in german"),
    ],
)
def test_what_the_model_lacks_is_refused_by_name(
    changes: dict[str, Any], error: type[Exception], said: str, checkpoint: Callable[[str], Path]
) -> None:
    with pytest.raises(error, match=said):
        assess_quality(checkpoint("tiny"), QualityPlan(**changes))


def test_a_bundle_has_nothing_to_compare(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    bundle = build_bundle(checkpoint("tiny"), quant="q8", out=tmp_path / "bundle")
    with pytest.raises(OptionError, match="one format only"):
        assess_quality(bundle)

"""Numbers that cannot be used end in a named error, wherever they arise; never in silent noise (S06)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import edits
import kazeia
from kazeia import Engine, GenerationError, Request, WeightsError

TEXT = "Hello there."
CODEC = "speech_tokenizer"

TALKER = (
    "talker.codec_head.weight",
    "talker.model.norm.weight",
    "talker.model.layers.1.mlp.down_proj.weight",
    "talker.model.layers.2.self_attn.v_proj.weight",
    "talker.text_projection.linear_fc1.weight",
    "talker.model.text_embedding.weight",
    "talker.model.codec_embedding.weight",
)
PREDICTOR = (
    "talker.code_predictor.lm_head.0.weight",
    "talker.code_predictor.model.norm.weight",
    "talker.code_predictor.model.layers.1.mlp.gate_proj.weight",
    "talker.code_predictor.model.codec_embedding.5.weight",
)
DECODER = (
    "decoder.decoder.6.conv.bias",
    "decoder.decoder.6.conv.weight",
    "decoder.decoder.3.block.2.conv1.conv.weight",
    "decoder.pre_transformer.layers.0.self_attn.k_proj.weight",
    "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum",
)
BAD = (np.nan, np.inf, -np.inf)


def with_bad(*groups: tuple[tuple[str, ...], str]) -> list[tuple[str, str, float]]:
    """(tensor, stage, bad value) for all tensors, the values in turn."""
    pairs = [(name, stage) for names, stage in groups for name in names]
    return [(name, stage, BAD[number % len(BAD)]) for number, (name, stage) in enumerate(pairs)]


@pytest.fixture
def damaged(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[str, float, bool], Path]:
    """A tiny checkpoint with all of one tensor, or only its first value, replaced."""

    def damage(name: str, bad: float, everywhere: bool) -> Path:
        folder = edits.copy(checkpoint("tiny"), tmp_path / "damaged")

        def replace(values: np.ndarray) -> np.ndarray:
            values.reshape(-1)[slice(None) if everywhere else 0] = bad
            return values

        edits.change_tensor(folder / CODEC if name.startswith("decoder.") else folder, name, replace)
        return folder

    return damage


def speak_every_way(engine: Engine, heard: list[object]) -> Iterator[Callable[[], object]]:
    yield lambda: heard.append(engine.synthesize(TEXT, seed=1, max_frames=3))
    yield lambda: heard.extend(engine.batch([Request(TEXT, seed=n, max_frames=3) for n in range(3)]))
    yield lambda: heard.extend(engine.stream(TEXT, seed=1, max_frames=3, chunk_frames=5))


@pytest.mark.parametrize(
    ("name", "stage", "bad"),
    with_bad((TALKER, "talker logits"), (PREDICTOR, "code predictor logits"), (DECODER, "codec decoder")),
)
def test_broken_weights_are_found_when_they_are_heard(
    damaged: Callable[[str, float, bool], Path], name: str, stage: str, bad: float
) -> None:
    with kazeia.load(damaged(name, bad, True), quant="f32", threads=1) as engine:
        heard: list[object] = []
        for speak in speak_every_way(engine, heard):
            with pytest.raises(GenerationError, match=f"{stage}.*(NaN|inf)"):
                speak()
        assert not heard


# The last bias is the hardest: infinity plus anything, clamped, would be a loud but ordinary sample.
@pytest.mark.parametrize("name", ["decoder.decoder.6.conv.bias", "decoder.decoder.6.conv.weight"])
@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
def test_one_broken_value_is_enough(
    damaged: Callable[[str, float, bool], Path], name: str, bad: float
) -> None:
    with (
        kazeia.load(damaged(name, bad, False), quant="f32", threads=1) as engine,
        pytest.raises(GenerationError, match="codec decoder"),
    ):
        engine.synthesize(TEXT, seed=1, max_frames=3)


@pytest.mark.parametrize(("name", "quant", "bad"), with_bad((TALKER, "q8"), (PREDICTOR, "q4")))
def test_broken_weights_are_not_quantised_into_sound_ones(
    damaged: Callable[[str, float, bool], Path], cache: Path, quant: str, name: str, bad: float
) -> None:
    # A quantised product makes ordinary numbers of NaN, so nothing would be found later.
    folder = damaged(name, bad, False)
    before = set((cache / "bundles").glob("*"))
    with pytest.raises(WeightsError, match=f"{name}.*NaN"):
        kazeia.load(folder, quant=quant, threads=1)
    assert {p for p in (cache / "bundles").glob("*") if p.suffix != ".lock"} <= before


def test_samples_beyond_full_scale_are_clamped_not_refused(
    damaged: Callable[[str, float, bool], Path],
) -> None:
    with kazeia.load(damaged("decoder.decoder.6.conv.bias", 3.0, True), quant="f32", threads=1) as engine:
        pcm = engine.synthesize(TEXT, seed=1, max_frames=3).pcm
        assert pcm.dtype == np.float32
        assert np.all(pcm == 1)

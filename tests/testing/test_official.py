"""The official package takes random checkpoints for its own, and finds them well scaled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kazeia.testing import SHAPES, make_checkpoint
from kazeia.testing.tensors import codec_tensors, talker_tensors
from oracle import Official, load

pytestmark = pytest.mark.oracle

TINY = [name for name in SHAPES if name.startswith("tiny")]


@pytest.fixture(scope="module", params=TINY)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Official]:
    """A preset's name and its checkpoint in the official package."""
    folder: Path = tmp_path_factory.mktemp(request.param) / "model"
    return request.param, load(make_checkpoint(folder, request.param))


def test_every_weight_is_taken_and_none_is_missing(loaded: tuple[str, Official]) -> None:
    name, official = loaded
    for tensors, module in (
        (talker_tensors(SHAPES[name]), official.model),
        (codec_tensors(SHAPES[name]), official.model.speech_tokenizer.model),
    ):
        found = {key: tuple(value.shape) for key, value in module.state_dict().items()}
        assert found == {tensor.name: tensor.shape for tensor in tensors}
        for tensor in tensors:
            value = module.state_dict()[tensor.name].float().numpy()
            np.testing.assert_allclose(value, tensor.values(0), rtol=2**-8, atol=1e-6)


def test_speech_is_well_scaled_and_does_not_settle(loaded: tuple[str, Official]) -> None:
    name, official = loaded
    speaker = "ryan" if SHAPES[name].speakers else None
    trace = official.trace("hello there", speaker, "English", frames=16)
    assert trace.ended == (name == "tiny-ends")
    assert 0.7 < trace.talker_hidden.std() < 1.5
    assert 1 < trace.talker_logits.std() < 3
    logits = official.predictor_logits(trace.frame_hidden, trace.codes)
    assert 1 < logits.std() < 3
    assert np.array_equal(logits.argmax(-1), trace.codes[:, 1:])
    distinct = [len(set(column.tolist())) for column in trace.codes.T]
    assert min(distinct) > len(trace.codes) // 3
    wave = official.waveform(trace.codes)
    assert wave.shape == (len(trace.codes) * 1920,)
    assert 0.04 < wave.std() < 0.2
    assert np.abs(wave).max() < 0.9


def test_the_template_has_three_role_ids_and_five_closing_ones(loaded: tuple[str, Official]) -> None:
    _, official = loaded
    ids, config = official.token_ids("a b"), official.config
    opening = [config.im_start_token_id, config.assistant_token_id]
    assert ids[:2].tolist() == opening
    assert ids[-5] == config.im_end_token_id
    assert ids[-3:-1].tolist() == opening
    assert ids[2] == ids[-4] == ids[-1]


def test_the_public_api_speaks_what_the_trace_shows(tmp_path: Path) -> None:
    official = load(make_checkpoint(tmp_path / "model", "tiny-1b7"))
    trace = official.trace("hello", "ryan", "french", "softly", frames=4)
    wave = official.speak(
        "hello",
        speaker="ryan",
        language="French",
        instruct="softly",
        do_sample=False,
        subtalker_dosample=False,
        max_new_tokens=5,
    )
    np.testing.assert_allclose(wave, official.waveform(trace.codes), atol=1e-6)


@pytest.mark.parametrize(("preset", "taken"), [("tiny", False), ("tiny-1b7", True)])
def test_instruct_is_taken_by_the_larger_model_only(preset: str, taken: bool, tmp_path: Path) -> None:
    official = load(make_checkpoint(tmp_path / "model", preset))
    plain = official.trace("hi", "ryan", frames=2)
    told = official.trace("hi", "ryan", instruct="softly", frames=2)
    extra = len(official.instruct_ids("softly")) if taken else 0
    assert len(told.prompt_rows) == len(plain.prompt_rows) + extra


def test_the_encoder_gives_codes_that_follow_the_sound(tmp_path: Path) -> None:
    official = load(make_checkpoint(tmp_path / "model", "tiny"))
    noise = np.random.default_rng(0).standard_normal(24000).astype(np.float32)
    codes = official.encode(0.1 * noise)
    assert codes.shape == (13, 16)  # one frame for each 1920 samples begun
    assert all(len(set(column.tolist())) > 3 for column in codes.T)

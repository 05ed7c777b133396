"""Compare a model, stage by stage, with a dump of what the official package computed; spec §11.

The dump's format is described in docs/validate.md. Each stage is fed from the dump, so that an
error in one does not colour the next; the last stage runs freely from the text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kazeia.dumps import Dump, read_dump
from kazeia.errors import ConfigError
from kazeia.generation import MIN_FRAMES, FrameLoop, Utterance, control_mask
from kazeia.model import Model
from kazeia.models import open_model
from kazeia.random import derive_streams
from kazeia.runtime.threads import resolve_threads
from kazeia.sampling import OFFICIAL_PREDICTOR, OFFICIAL_TALKER, Sampling, mask, penalize
from kazeia.teacher_forcing import force_predictor, force_talker
from kazeia.text.languages import resolve_language, resolve_voice

RELATIVE_TOLERANCE = 1e-3
SNR_FLOOR_DB = 90.0

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Stage:
    """One comparison."""

    name: str
    result: str
    """What was found, such as "495/495 codes"."""
    ok: bool
    """Whether it reaches the bar of float32; quantised weights are not expected to."""


@dataclass(frozen=True)
class Report:
    """All comparisons of one run."""

    model: str
    quant: str
    stages: tuple[Stage, ...]

    @property
    def ok(self) -> bool:
        """Whether every stage reaches its bar."""
        return all(stage.ok for stage in self.stages)

    def lines(self) -> list[str]:
        """The report for people, a line a stage."""
        width = max(len(stage.name) for stage in self.stages)
        lines = [f"{self.model} ({self.quant})"]
        lines += [f"  {'ok  ' if s.ok else 'FAIL'} {s.name:<{width}}  {s.result}" for s in self.stages]
        verdict = "equal to the dump" if self.ok else "NOT equal to the dump"
        if not self.ok and self.quant != "f32":
            verdict += " (quantised weights are close, not equal; use f32 to prove equality)"
        return [*lines, verdict]

    def to_dict(self) -> dict[str, Any]:
        """The report for machines: model, quant, ok, and of each stage its name, result and ok."""
        return {
            "model": self.model,
            "quant": self.quant,
            "ok": self.ok,
            "stages": [asdict(stage) for stage in self.stages],
        }


def validate(
    model: str | os.PathLike[str],
    dump: str | os.PathLike[str],
    *,
    quant: str = "f32",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Report:
    """Run the engine's stages on a dump and report how far they agree.

    The bars are those of float32: tensors within 1e-3 relative, all codes equal, waveform SNR of at
    least 90 dB. Raises OptionError for a dump that cannot be read, ConfigError for one of another
    model, and what `kazeia.load` raises.
    """
    recorded = read_dump(dump)
    count = resolve_threads(threads)
    opened = open_model(os.fspath(model), quant, None if cache_dir is None else os.fspath(cache_dir), None)
    runner = Model(opened.bundle, count)
    _check_same_model(runner, recorded, os.fspath(dump))
    stages = _prompt_stages(runner, recorded)
    stages += _talker_stages(runner, recorded)
    stages.append(_predictor_stage(runner, recorded))
    if recorded.info["seed"] is None:
        stages.append(_free_stage(runner, recorded))
    stages.append(_decoder_stage(runner, recorded))
    return Report(opened.name, quant, tuple(stages))


def relative_error(ours: F32, theirs: F32) -> float:
    """The largest over all rows of |ours − theirs| / |theirs|, in the Euclidean norm."""
    if ours.shape != theirs.shape:
        return float("inf")
    if not ours.size:
        return 0.0
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (ours, theirs))
    scale = np.maximum(np.linalg.norm(b, axis=1), 1e-12)
    return float((np.linalg.norm(a - b, axis=1) / scale).max())


def snr_db(ours: F32, theirs: F32) -> float:
    """Signal-to-noise ratio of `ours` against `theirs` in dB; infinite when they are equal."""
    if ours.shape != theirs.shape:
        return float("-inf")
    signal = float(np.sum(theirs.astype(np.float64) ** 2))
    noise = float(np.sum((ours.astype(np.float64) - theirs) ** 2))
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-30) / noise))


def _check_same_model(model: Model, dump: Dump, name: str) -> None:
    config = model.bundle.config
    ours = {
        "size": config.tts_model_size,
        "hidden": config.talker.transformer.hidden_size,
        "layers": config.talker.transformer.num_hidden_layers,
        "vocab": config.talker.vocab_size,
        "codebook": config.talker.code_predictor.vocab_size,
    }
    for key, value in ours.items():
        found = dump.info["model"].get(key)
        if found != value:
            raise ConfigError(
                f"{name}: a dump of another model: {key} is {found!r}, this model has {value!r}"
            )


def _tensor_stage(name: str, ours: F32, theirs: F32) -> Stage:
    error = relative_error(ours, theirs)
    return Stage(name, f"relative error {error:.1e}", error <= RELATIVE_TOLERANCE)


def _count_stage(name: str, same: npt.NDArray[np.bool_], what: str, note: str = "") -> Stage:
    return Stage(name, f"{int(same.sum())}/{same.size} {what}{note}", bool(same.all()))


def _prompt_stages(model: Model, dump: Dump) -> list[Stage]:
    prompt = _prompt(model, dump.info)
    ids, wanted = np.asarray(prompt.text_ids), dump.text_ids
    same = ids == wanted if len(ids) == len(wanted) else np.zeros(len(wanted), np.bool_)
    return [
        _count_stage("text ids", same, "ids"),
        _tensor_stage("prompt rows", prompt.rows, dump.prompt_rows),
        _tensor_stage("trailing rows", prompt.trailing, dump.trailing_rows),
    ]


def _prompt(model: Model, info: Mapping[str, Any]) -> Any:
    talker = model.bundle.config.talker
    voice = resolve_voice(info["voice"], talker.spk_id)
    language = resolve_language(info["language"] or "auto", talker.codec_language_id)
    return model.prompts.build(info["text"], voice, language, info["instruct"], info["layout"])


def _talker_stages(model: Model, dump: Dump) -> list[Stage]:
    """Hidden states and logits on the dump's prompt and codes, and the codes 0 that follow from them."""
    codes, trailing = dump.codes, dump.trailing_rows
    # A text that stands whole in the prompt is followed by padding alone: the recording has it.
    pad = trailing[0] if dump.info["layout"] == "whole" else _prompt(model, dump.info).pad
    hidden, ours = force_talker(model, dump.prompt_rows, trailing, pad, codes)
    penalty = float(dump.info["repetition_penalty"])
    sampling = OFFICIAL_TALKER.replace(repetition_penalty=penalty, temperature=0.0)
    same = _choices(model, ours, codes, sampling) == _choices(model, dump.talker_logits, codes, sampling)
    return [
        _tensor_stage("talker hidden", hidden, dump.talker_hidden),
        _tensor_stage("talker logits", ours, dump.talker_logits),
        _count_stage("codebook 0, teacher-forced", same, "codes"),
    ]


def _choices(model: Model, logits: F32, codes: npt.NDArray[Any], sampling: Sampling) -> npt.NDArray[Any]:
    """The most likely code 0 of every frame, given the true codes before it."""
    talker = model.bundle.config.talker
    chosen = []
    for frame, row in enumerate(logits):
        suppress = control_mask(talker, end_allowed=frame >= MIN_FRAMES)
        history = [int(code) for code in codes[:frame, 0]]
        chosen.append(int(mask(penalize(row, history, sampling), suppress).argmax()))
    return np.asarray(chosen)


def _predictor_stage(model: Model, dump: Dump) -> Stage:
    codes = dump.codes
    ours = force_predictor(model, dump.frame_hidden, codes)
    same = ours.argmax(-1) == dump.predictor_logits.argmax(-1)
    width = ours.shape[-1]
    error = relative_error(ours.reshape(-1, width), dump.predictor_logits.reshape(-1, width))
    stage = _count_stage("predictor, teacher-forced", same, "codes", f", relative error {error:.1e}")
    return Stage(stage.name, stage.result, stage.ok and error <= RELATIVE_TOLERANCE)


def _free_stage(model: Model, dump: Dump) -> Stage:
    """Greedy codes from the text alone."""
    codes = dump.codes
    penalty = float(dump.info["repetition_penalty"])
    utterance = Utterance(
        _prompt(model, dump.info),
        OFFICIAL_TALKER.replace(temperature=0.0, repetition_penalty=penalty),
        OFFICIAL_PREDICTOR.replace(temperature=0.0),
        derive_streams(0),
        max_frames=len(codes),
    )
    loop = FrameLoop(model.talker, model.predictor, model.bundle.config.talker)
    loop.join(utterance)
    while len(loop):
        loop.step()
    if utterance.error is not None:
        raise utterance.error
    same = np.zeros(codes.shape, np.bool_)
    count = len(utterance.codes)
    if count:
        same[:count] = np.stack(utterance.codes) == codes[:count]
    note = ""
    if not same.all():
        frame, book = (int(i) for i in np.argwhere(~same)[0])
        scores = dump.talker_logits[frame] if book == 0 else dump.predictor_logits[frame, book - 1]
        best, second = np.sort(scores)[::-1][:2]
        note = f", first difference at frame {frame}, codebook {book} (margin there: {best - second:.1e})"
    return _count_stage("free greedy run", same, "codes", note)


def _decoder_stage(model: Model, dump: Dump) -> Stage:
    snr = snr_db(model.decoder.decode(dump.codes), dump.waveform)
    return Stage("codec decoder", f"SNR {snr:.1f} dB", snr >= SNR_FLOOR_DB)

"""Compares the formats of one checkpoint with f32, by what they find likely and by what they say."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kazeia.bundle import is_bundle
from kazeia.bundle_build import Progress
from kazeia.checkpoint.config import TalkerConfig
from kazeia.engine import load
from kazeia.errors import OptionError
from kazeia.generation import MIN_FRAMES, control_mask
from kazeia.model import Model
from kazeia.models import ModelInfo, cache_folder, inspect, model_name, open_model
from kazeia.quality.judge import Judge, word_errors
from kazeia.quality.report import FormatQuality, QualityReport, Rollouts
from kazeia.quality.texts import SENTENCES
from kazeia.quant import quant_plan
from kazeia.runtime.threads import plan_threads
from kazeia.speech import Speech
from kazeia.teacher_forcing import force_predictor, force_talker
from kazeia.text.clean import check_text
from kazeia.text.languages import language_code, resolve_language, resolve_voice
from kazeia.validation import snr_db

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
REFERENCE = "f32"


@dataclass(frozen=True)
class QualityPlan:
    """What `assess_quality` compares. Raises OptionError for values that cannot be, TextError for texts."""

    quants: tuple[str, ...] = ("q8", "q4")
    """Formats to compare with f32."""
    rollouts: int = 8
    """Utterances, 1 to 1,000; the texts are taken in turn, and rollout r has seed r."""
    frames: int = 100
    """Frames of 80 ms that a rollout is stopped after, 2 to 2,000."""
    texts: tuple[str, ...] | None = None
    """None: English and French sentences of Kazeia's own, as far as the model speaks these languages."""
    voice: str | None = None
    """One of the model's voices; None: the first."""
    language: str | None = None
    """Of the texts. None: that of Kazeia's own sentences, "auto" for others."""
    threads: int | None = None
    """As in `kazeia.load`."""

    def __post_init__(self) -> None:
        if not isinstance(self.quants, tuple) or not self.quants or len(set(self.quants)) != len(self.quants):
            raise OptionError(f"quants is {self.quants!r}; expected a tuple of one or more different formats")
        for quant in self.quants:
            quant_plan(quant)
        _check("rollouts", self.rollouts, 1, 1000)
        _check("frames", self.frames, 2, 2000)
        plan_threads(self.threads)
        if self.texts is not None and not (isinstance(self.texts, tuple) and self.texts):
            raise OptionError(f"texts is {self.texts!r}; expected a tuple of one or more texts, or None")
        for text in self.texts or ():
            check_text(text)


def assess_quality(
    model: str | os.PathLike[str] | None = None,
    plan: QualityPlan | None = None,
    *,
    judge: Judge | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> QualityReport:
    """Compare a checkpoint's formats with f32; see `kazeia.load` for `model` and `cache_dir`.

    Every format first speaks by itself, then reads what f32 said. One model is in memory at a time.
    judge: hears all rollouts, for the word error rate. progress: told (what, share of the whole).

    Raises what `kazeia.load` raises, OptionError for a bundle (which has one format only).
    """
    plan, tell = plan or QualityPlan(), progress or (lambda what, share: None)
    name, cache = model_name(model), cache_folder(None if cache_dir is None else os.fspath(cache_dir))
    info = inspect(name, cache_dir=cache)
    if is_bundle(info.path):
        raise OptionError(f"{name}: a bundle has one format only; give the checkpoint it was made from")
    voice = resolve_voice(plan.voice, info.voices)
    items = _items(info, plan)
    order = (REFERENCE, *plan.quants)
    for quant in order:
        open_model(name, quant, cache, progress)  # built first, where it is missing
    spoken: dict[int, list[Speech]] = {}
    for place, quant in enumerate(order):
        tell(f"{quant}: speaking", place / (2 * len(order)))
        spoken[place] = _speak(name, quant, cache, plan, items, voice)
    true = spoken[0]
    formats = []
    with tempfile.TemporaryDirectory(prefix="kazeia-quality-") as scratch:
        for place, quant in enumerate(order):
            tell(f"{quant}: reading", 0.5 + place / (2 * len(order)))
            networks = Model(open_model(name, quant, cache).bundle, plan_threads(plan.threads).generator)
            reading = _Reading(networks, voice, Path(scratch))
            if place == 0:
                for number, speech in enumerate(true):
                    reading.keep(number, items[number], speech)
                continue
            counts = [reading.compare(n, items[n], speech) for n, speech in enumerate(true)]
            free = spoken[place]
            formats.append(
                FormatQuality(
                    quant=quant,
                    frames=sum(len(agree) for agree, _ in counts),
                    agreement=tuple(np.concatenate([agree for agree, _ in counts]).mean(0).tolist()),
                    kl=tuple(np.concatenate([kl for _, kl in counts]).mean(0).tolist()),
                    free=_rollouts(free, items, judge),
                    same_frames=tuple(map(_same_frames, free, true)),
                    length_ratios=tuple(
                        len(a.codes) / len(b.codes)
                        for a, b in zip(free, true, strict=True)
                        if a.finish_reason == b.finish_reason == "stop"
                    ),
                    decoder_snr_db=reading.decoder_snr(true),
                )
            )
    return QualityReport(
        model=name,
        is_random=info.is_random,
        voice=voice,
        texts=tuple((text, language or "auto") for text, language in items),
        limit=plan.frames,
        reference=_rollouts(true, items, judge),
        formats=tuple(formats),
    )


def _items(info: ModelInfo, plan: QualityPlan) -> list[tuple[str, str | None]]:
    """(text, language) of every rollout."""
    language = resolve_language(plan.language, info.languages)
    pool: list[tuple[str, str | None]]
    if plan.texts is not None:
        pool = [(text, language) for text in plan.texts]
    else:
        known = [own for own in SENTENCES if own in info.languages and language in (None, own)]
        if not known:
            raise OptionError(
                f"{info.name}: there are no sentences in {language or 'the languages of this model'}; "
                "give some (texts=, --texts)"
            )
        pool = [(text, own) for group in zip(*(SENTENCES[own] for own in known), strict=True)
                for text, own in zip(group, known, strict=True)]  # fmt: skip
    return [pool[number % len(pool)] for number in range(plan.rollouts)]


def _speak(
    name: str, quant: str, cache: Path, plan: QualityPlan, items: Sequence[tuple[str, str | None]], voice: str
) -> list[Speech]:
    # Without a guard: how a format ends by itself is what is asked.
    with load(name, quant=quant, threads=plan.threads, cache_dir=cache, guard=None, warm_up=False) as engine:
        return [
            engine.synthesize(
                text,
                voice=voice,
                language=language,
                seed=seed,
                max_frames=plan.frames,
                segment_chars=None,
            )
            for seed, (text, language) in enumerate(items)
        ]


class _Reading:
    """One format's networks, fed what f32 said."""

    def __init__(self, model: Model, voice: str, scratch: Path) -> None:
        self._model, self._voice, self._scratch = model, voice, scratch

    def keep(self, number: int, item: tuple[str, str | None], speech: Speech) -> None:
        """Write f32's logits to the disk: a long run's would not fit into memory."""
        for part, logits in zip(("talker", "predictor"), self._logits(item, speech), strict=True):
            np.save(self._scratch / f"{part}-{number}.npy", logits)

    def compare(self, number: int, item: tuple[str, str | None], speech: Speech) -> tuple[F64, F64]:
        """Agreement (0 or 1) and divergence (nats) with f32 by frame and codebook: (frames, 16) each."""
        true = [np.load(self._scratch / f"{part}-{number}.npy") for part in ("talker", "predictor")]
        ours = self._logits(item, speech)
        allowed = _allowed(self._model.bundle.config.talker, len(speech.codes))
        frames = len(speech.codes)
        first = _compare(ours[0], true[0], allowed)
        width = ours[1].shape[-1]
        others = _compare(ours[1].reshape(-1, width), true[1].reshape(-1, width), None)
        agreement, kl = (
            np.concatenate([one[:, None], rest.reshape(frames, -1)], axis=1)
            for one, rest in zip(first, others, strict=True)
        )
        return agreement, kl

    def decoder_snr(self, true: Sequence[Speech]) -> float | None:
        """dB against f32's samples of the same codes, None when they are equal."""
        ours = np.concatenate([self._model.decoder.decode(speech.codes) for speech in true])
        snr = snr_db(ours, np.concatenate([speech.pcm for speech in true]))
        return None if snr == math.inf else snr

    def _logits(self, item: tuple[str, str | None], speech: Speech) -> tuple[F32, F32]:
        """Talker (frames, vocab); predictor (frames, 15, codebook) on those states."""
        text, language = item
        prompt = self._model.prompts.build(text, self._voice, language)
        hidden, logits = force_talker(self._model, prompt.rows, prompt.trailing, prompt.pad, speech.codes)
        states = hidden[len(prompt.rows) - 1 :]  # (frames, hidden)
        return logits, force_predictor(self._model, states, speech.codes)


def _allowed(config: TalkerConfig, frames: int) -> npt.NDArray[np.bool_]:
    """(frames, vocab): the codes 0 that may be drawn in each frame."""
    masks = [~control_mask(config, end_allowed=end) for end in (False, True)]
    return np.stack([masks[frame >= MIN_FRAMES] for frame in range(frames)])


def _compare(ours: F32, true: F32, allowed: npt.NDArray[np.bool_] | None) -> tuple[F64, F64]:
    """Whether the most likely of a row (rows, n) is the same, and KL(true ‖ ours) in nats: (rows,) each."""
    p, q = _log_chances(true, allowed), _log_chances(ours, allowed)
    with np.errstate(invalid="ignore"):  # what is not allowed has −inf in both
        terms = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))
    return (p.argmax(-1) == q.argmax(-1)).astype(np.float64), terms.sum(-1)


def _log_chances(logits: F32, allowed: npt.NDArray[np.bool_] | None) -> F64:
    scores = logits.astype(np.float64)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    scores -= scores.max(-1, keepdims=True)
    chances: F64 = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return chances


def _rollouts(
    spoken: Sequence[Speech], items: Sequence[tuple[str, str | None]], judge: Judge | None
) -> Rollouts:
    rate = None
    if judge is not None:
        counts = [
            word_errors(
                text,
                # A language without a code is left to the judge to guess.
                judge.hear(speech.pcm, speech.sample_rate, language_code(language) if language else None),
            )
            for speech, (text, language) in zip(spoken, items, strict=True)
        ]
        rate = sum(wrong for wrong, _ in counts) / max(1, sum(total for _, total in counts))
    return Rollouts(
        lengths=tuple(len(speech.codes) for speech in spoken),
        ended=tuple(speech.finish_reason == "stop" for speech in spoken),
        word_error_rate=rate,
    )


def _same_frames(ours: Speech, true: Speech) -> int:
    count = min(len(ours.codes), len(true.codes))
    same = (ours.codes[:count] == true.codes[:count]).all(axis=1)
    return count if same.all() else int(same.argmin())


def _check(name: str, value: object, low: int, high: int) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        raise OptionError(f"{name} is {value!r}; expected a whole number from {low} to {high}")

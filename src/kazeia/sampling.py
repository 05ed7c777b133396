"""From a row of logits to one token, as Hugging Face does it (spec §4.1).

The order is the model's: repetition penalty, masks, (greedy stops here), temperature, top-k, top-p,
softmax. Scores stay float32 as they are there, so the set of kept tokens is the same one; the final
weights are float64. Everything works on one row, so a row's token never depends on its company.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import ConfigError, GenerationError, OptionError
from kazeia.random import Xorshift32

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

# Beyond these, a float32 logit divided by the temperature could overflow or merge with its
# neighbour; the row's maximum is then subtracted first, in float64.
_TINY_TEMPERATURE = 1e-3
_HUGE_LOGIT = 1e30


def _number(name: str, value: object, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError(f"{name} is {value!r}; it must be a number, {wanted}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OptionError(f"{name} is {value!r}; it must be a finite number, {wanted}")
    return number


def _count(name: str, value: object, wanted: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise OptionError(f"{name} is {value!r}; it must be {wanted}")
    return int(value)


def _out_of_range(name: str, value: float, wanted: str) -> OptionError:
    return OptionError(f"{name} is {value:g}; it must be {wanted}")


@dataclass(frozen=True)
class Sampling:
    """How one token is drawn from a row of logits. Every field is checked; OptionError names the bad one."""

    temperature: float = 0.9
    """Divides the logits, >= 0; 0 means greedy (the penalty and masks still apply)."""
    top_k: int = 50
    """Keep the k best and all their ties, >= 0; 0 is off, 1 means greedy."""
    top_p: float = 1.0
    """Keep the smallest set of best tokens whose mass reaches p, 0 < p <= 1; 1 is off."""
    repetition_penalty: float = 1.05
    """Divides positive, multiplies negative logits of ids already drawn, > 0; 1 is off."""
    repetition_window: int | None = 64
    """How many of the last drawn ids are penalised, >= 0; None is all of them, 0 is none."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "temperature", _number("temperature", self.temperature, ">= 0"))
        set_field(self, "top_k", _count("top_k", self.top_k, "an integer >= 0 (0 is off)"))
        set_field(self, "top_p", _number("top_p", self.top_p, "0 < top_p <= 1"))
        set_field(self, "repetition_penalty", _number("repetition_penalty", self.repetition_penalty, "> 0"))
        if self.repetition_window is not None:
            wanted = "None (unlimited) or an integer >= 0"
            window = _count("repetition_window", self.repetition_window, wanted)
            set_field(self, "repetition_window", window)
        if self.temperature < 0:
            raise _out_of_range("temperature", self.temperature, ">= 0 (0 is greedy)")
        if not 0 < self.top_p <= 1:
            raise _out_of_range("top_p", self.top_p, "in 0 < top_p <= 1 (1 is off)")
        # Scores are float32: a penalty that is 0 or infinite there would turn logits into NaN.
        if not 1e-30 <= self.repetition_penalty <= 1e30:
            raise _out_of_range("repetition_penalty", self.repetition_penalty, "> 0 (1 is off)")

    @property
    def greedy(self) -> bool:
        """True if the first maximum is taken and no random number is drawn."""
        return self.temperature == 0 or self.top_k == 1

    def replace(self, **changes: Any) -> Sampling:
        """A copy with some fields changed, checked again; an unknown field is an OptionError."""
        unknown = sorted(set(changes) - {field.name for field in dataclasses.fields(self)})
        if unknown:
            known = ", ".join(field.name for field in dataclasses.fields(self))
            raise OptionError(f"unknown sampling option {', '.join(unknown)}; there are: {known}")
        return dataclasses.replace(self, **changes)


TALKER_DEFAULTS = Sampling()
PREDICTOR_DEFAULTS = Sampling(repetition_window=16)
OFFICIAL_TALKER = Sampling(repetition_window=None)
"""The official package's talker: the penalty reaches back to the first frame (spec §4.1, §4.4)."""
OFFICIAL_PREDICTOR = Sampling(repetition_penalty=1.0)
"""The official package's code predictor: no penalty (spec §3.3)."""


def resolve_sampling(
    explicit: Sampling | None,
    prefix: Literal["KZTTS_", "KZTTS_CP_"],
    base: Sampling,
    environ: Mapping[str, str],
) -> Sampling:
    """The settings to use: `explicit` if given, else `base` with the environment's changes.

    Read are `<prefix>TEMP`, `TOPK`, `TOPP` and `REPP`; an empty variable counts as not set.
    Raises OptionError, naming the variable, if a value cannot be read or is out of range.
    """
    if explicit is not None:
        return explicit
    sampling = base
    for suffix, field, kind in _ENVIRONMENT:
        name = prefix + suffix
        text = environ.get(name, "").strip()
        if not text:
            continue
        try:
            sampling = sampling.replace(**{field: kind(text)})
        except OptionError as error:
            raise OptionError(f"environment variable {name}={text!r}: {error}") from None
        except ValueError:
            wanted = "an integer" if kind is int else "a number"
            example = f"{name}={getattr(base, field)}"
            raise OptionError(
                f"environment variable {name} is {text!r}; it must be {wanted}, as in {example}"
            ) from None
    return sampling


SamplingChoice = Sampling | Literal["official"] | None
"""What a caller may give: settings, the name of the official ones, or None for the usual ones."""


def choose_sampling(
    choice: SamplingChoice,
    checkpoint: Mapping[str, float],
    official: Sampling,
    defaults: Sampling,
    prefix: Literal["KZTTS_", "KZTTS_CP_"],
) -> Sampling:
    """The settings that `choice` stands for.

    A Sampling is taken as it is; "official" is `official` with the checkpoint's values; None is
    `defaults` with the checkpoint's values, then the environment's. Raises OptionError for anything
    else, and for a variable that cannot be read; ConfigError when the checkpoint's values are out of
    range.
    """
    if isinstance(choice, Sampling):
        return choice
    if choice is None:
        return resolve_sampling(None, prefix, _with_checkpoint(defaults, checkpoint), os.environ)
    if choice == "official":
        return _with_checkpoint(official, checkpoint)
    name = "sampling" if prefix == "KZTTS_" else "predictor_sampling"
    raise OptionError(f'{name} is {choice!r}; it must be a Sampling, "official" or None')


def _with_checkpoint(base: Sampling, checkpoint: Mapping[str, float]) -> Sampling:
    try:
        return base.replace(**checkpoint)
    except OptionError as error:
        raise ConfigError(
            f"the checkpoint's generation_config.json: {error}; correct it there, or give a Sampling"
        ) from None


_ENVIRONMENT: tuple[tuple[str, str, type[int] | type[float]], ...] = (
    ("TEMP", "temperature", float),
    ("TOPK", "top_k", int),
    ("TOPP", "top_p", float),
    ("REPP", "repetition_penalty", float),
)


# ---- the processors, in order; each returns a new row (V,) float32 and leaves its input alone ----


def penalize(scores: Floats, history: Sequence[int], sampling: Sampling) -> Floats:
    """Repetition penalty, once per id of the window: s / r if s >= 0, else s * r."""
    window = sampling.repetition_window
    if sampling.repetition_penalty == 1.0 or window == 0 or len(history) == 0:
        return scores
    recent = history if window is None else history[-window:]
    ids = np.fromiter(recent, dtype=np.intp, count=len(recent))
    seen: Floats = scores[ids]
    penalty = np.float32(sampling.repetition_penalty)
    out: Floats = scores.copy()
    # Read before written, so an id that comes twice is penalised once.
    out[ids] = np.where(seen < 0, seen * penalty, seen / penalty)
    return out


def mask(scores: Floats, suppress: Mask | None) -> Floats:
    """Set the suppressed ids (True in `suppress`) to -inf."""
    if suppress is None:
        return scores
    out: Floats = scores.copy()
    np.putmask(out, suppress, -np.inf)
    return out


def apply_temperature(scores: Floats, temperature: float) -> Floats:
    """Divide by a temperature > 0; never overflows, however small it is."""
    if temperature == 1.0:
        return scores
    best = float(scores[scores.argmax()])
    if temperature >= _TINY_TEMPERATURE and abs(best) < _HUGE_LOGIT:
        return np.asarray(scores / np.float32(temperature))
    # Overflow ends at -inf, the maximum at 0.
    return np.asarray((scores.astype(np.float64) - best) / temperature, dtype=np.float32)


def top_k_ids(scores: Floats, k: int) -> NDArray[np.intp]:
    """Ids, ascending, of the k best scores and of all ties with the k-th; all ids if k is 0 or too large."""
    if k == 0 or k >= scores.size:
        return np.arange(scores.size)
    kth = scores.size - k
    ids: NDArray[np.intp] = (scores >= np.partition(scores, kth)[kth]).nonzero()[0]
    return ids


def top_p_keep(weights: NDArray[np.float64], p: float) -> Mask:
    """True where a token stays: from the smallest on, all go whose cumulative mass is <= 1 - p.

    `weights` (K,) are unnormalised probabilities. The best token always stays. Among equals, which
    Hugging Face leaves open, the lower ids go first. Masses are rounded to float32 as they are there,
    so that exact borders fall alike.
    """
    order = np.argsort(weights, kind="stable")
    mass = (weights[order] / weights.sum()).astype(np.float32)
    gone = np.cumsum(mass, dtype=np.float64).astype(np.float32) <= np.float32(1 - p)
    gone[-1] = False
    keep: Mask = np.empty(weights.size, dtype=np.bool_)
    keep[order] = ~gone
    return keep


# ---- the whole way ----


def probabilities(
    logits: NDArray[Any],
    history: Sequence[int],
    sampling: Sampling,
    allowed_mask: Mask | None = None,
) -> NDArray[np.float64]:
    """The distribution that `sample` draws from: (V,) float64, sums to 1; one 1.0 when greedy.

    `allowed_mask` (V,) is True where a token may be drawn (the opposite of `sample`'s `suppress`).
    Raises GenerationError for logits that cannot be used.
    """
    suppress = None if allowed_mask is None else ~np.asarray(allowed_mask, dtype=np.bool_)
    ids, weights = _kept(logits, history, sampling, suppress, "logits")
    out = np.zeros(len(logits), dtype=np.float64)
    out[ids] = weights / weights.sum()
    return out


def sample(
    logits: NDArray[Any],
    history: Sequence[int],
    sampling: Sampling,
    rng: Xorshift32,
    suppress: Mask | None = None,
    what: str = "logits",
) -> int:
    """Draw one token id from a row of logits.

    logits: (V,) any float type, read as float32. history: the ids drawn so far, oldest first.
    suppress: (V,) bool, True where a token must not be drawn. what: the stage, for messages.
    Takes one `rng.uniform()`, or none when greedy: the token is the first id whose cumulative
    weight, in id order, exceeds u * total.
    Raises GenerationError if an allowed logit is NaN or +inf, or if all of them are -inf.
    """
    ids, weights = _kept(logits, history, sampling, suppress, what)
    if sampling.greedy:
        return int(ids[0])
    cumulative = weights.cumsum()
    return int(ids[cumulative.searchsorted(rng.uniform() * cumulative[-1], side="right")])


def _kept(
    logits: NDArray[Any], history: Sequence[int], sampling: Sampling, suppress: Mask | None, what: str
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The surviving ids, ascending, and their unnormalised float64 weights."""
    with np.errstate(over="ignore", invalid="ignore"):  # finfo.min / 0.9 is a fine -inf
        scores = np.asarray(logits, dtype=np.float32)
        scores = mask(penalize(scores, history, sampling), suppress)
        best = int(scores.argmax())  # NaN wins an argmax
        if not math.isfinite(scores[best]):
            raise _unusable(logits, suppress, what)
        if sampling.greedy:
            return np.array([best], dtype=np.intp), np.ones(1)
        scores = apply_temperature(scores, sampling.temperature)
        ids = top_k_ids(scores, sampling.top_k)
        weights = np.exp(scores[ids].astype(np.float64) - float(scores[best]))
    if sampling.top_p < 1:
        keep = top_p_keep(weights, sampling.top_p)
        return ids[keep], weights[keep]
    return ids, weights


def _unusable(logits: NDArray[Any], suppress: Mask | None, what: str) -> GenerationError:
    row = np.asarray(logits, dtype=np.float32)
    allowed = row if suppress is None else row[~suppress]
    nans, infs = int(np.isnan(allowed).sum()), int(np.isposinf(allowed).sum())
    hint = "the weights or the build are damaged; rebuild the bundle or try quant='f32'"
    if nans or infs:
        found = f"{nans} NaN and {infs} +inf among {allowed.size} allowed logits, expected finite ones"
    elif np.all(np.isneginf(allowed)):
        found = f"all {allowed.size} allowed logits are -inf, so no token can be drawn"
    else:
        found = f"the repetition penalty drove a logit of {allowed.max():g} to infinity"
    return GenerationError(f"{what}: {found}; {hint}")

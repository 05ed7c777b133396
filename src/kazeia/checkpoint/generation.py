"""`generation_config.json`: the checkpoint's own sampling defaults (spec §4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kazeia.checkpoint._fields import Fields

GENERATION_FILE = "generation_config.json"


@dataclass(frozen=True)
class GenerationDefaults:
    """`generation_config.json` (spec §4.4); a key that is absent, or a missing file, gives None."""

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    subtalker_dosample: bool | None = None
    subtalker_temperature: float | None = None
    subtalker_top_k: int | None = None
    subtalker_top_p: float | None = None
    max_new_tokens: int | None = None  # frames

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, file: str = GENERATION_FILE) -> GenerationDefaults:
        """Read the sampling defaults; only types are checked here, ranges where they are used."""
        fields = Fields(data, file)
        return cls(
            do_sample=fields.maybe_boolean("do_sample"),
            temperature=fields.maybe_number("temperature"),
            top_k=fields.maybe_integer("top_k"),
            top_p=fields.maybe_number("top_p"),
            repetition_penalty=fields.maybe_number("repetition_penalty"),
            subtalker_dosample=fields.maybe_boolean("subtalker_dosample"),
            subtalker_temperature=fields.maybe_number("subtalker_temperature"),
            subtalker_top_k=fields.maybe_integer("subtalker_top_k"),
            subtalker_top_p=fields.maybe_number("subtalker_top_p"),
            max_new_tokens=fields.integer("max_new_tokens") if fields.has("max_new_tokens") else None,
        )

    def talker_sampling(self) -> dict[str, float]:
        """What the file sets for codebook 0, under the names of `kazeia.Sampling`."""
        return _set_values(
            self.do_sample,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
        )

    def predictor_sampling(self) -> dict[str, float]:
        """What the file sets for codebooks 1–15, under the names of `kazeia.Sampling`."""
        return _set_values(
            self.subtalker_dosample,
            temperature=self.subtalker_temperature,
            top_k=self.subtalker_top_k,
            top_p=self.subtalker_top_p,
        )


def _set_values(do_sample: bool | None, **values: float | None) -> dict[str, float]:
    found = {name: value for name, value in values.items() if value is not None}
    return found | {"temperature": 0.0} if do_sample is False else found

"""Reads dumps of the official package's numbers, written by tools/dump_official.py."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from kazeia.errors import OptionError

FORMAT = "kazeia-dump"
VERSION = 1


@dataclass(frozen=True)
class Dump:
    """One utterance as the official package computed it.

    Shapes, with T0 prompt rows, Z trailing rows, N text ids, F frames, width h, codec vocabulary V and
    codebook Vp:
    """

    info: dict[str, Any]
    """dump.json: text, voice, language, instruct, layout, frames, seed, model, packages …"""
    text_ids: npt.NDArray[np.int64]
    """(N,)"""
    prompt_rows: npt.NDArray[np.float32]
    """(T0, h)"""
    trailing_rows: npt.NDArray[np.float32]
    """(Z, h)"""
    talker_hidden: npt.NDArray[np.float32]
    """(T0 + F - 1, h), after the final norm; row T0 - 1 + f gives frame f."""
    talker_logits: npt.NDArray[np.float32]
    """(F, V), raw."""
    codes: npt.NDArray[np.int64]
    """(F, 16)"""
    predictor_logits: npt.NDArray[np.float32]
    """(F, 15, Vp), fed `codes`."""
    waveform: npt.NDArray[np.float32]
    """(F * 1920,) at 24 kHz."""

    @property
    def frames(self) -> int:
        """F."""
        return len(self.codes)

    @property
    def frame_hidden(self) -> npt.NDArray[np.float32]:
        """(F, h): the hidden state that gives each frame's logits and starts its code predictor."""
        return self.talker_hidden[len(self.prompt_rows) - 1 :]


def read_dump(folder: str | os.PathLike[str]) -> Dump:
    """Read the dump in `folder` and check that its parts fit together.

    Raises:
        OptionError: not a dump, one of another version, or one whose tensors do not fit.
    """
    place = Path(folder)
    try:
        info = json.loads((place / "dump.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{place} is not a dump: cannot read dump.json ({error})") from error
    found = (info.get("format"), info.get("version")) if isinstance(info, dict) else (None, None)
    if found != (FORMAT, VERSION):
        raise OptionError(
            f"{place / 'dump.json'}: expected format {FORMAT!r} version {VERSION}, found {found[0]!r} "
            f"version {found[1]!r}; write it again with tools/dump_official.py"
        )
    path = place / "dump.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise OptionError(f"{path}: cannot be read ({error}); write the dump again") from error
    _check(path, info, tensors)
    return Dump(info=info, **tensors)


def _check(path: Path, info: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> None:
    rows = len(tensors["prompt_rows"]) if "prompt_rows" in tensors else 0
    try:
        frames, model = info["frames"], info["model"]
        width, vocab, codebook = (int(model[key]) for key in ("hidden", "vocab", "codebook"))
        for key in ("text", "voice", "language", "instruct", "layout", "seed", "repetition_penalty"):
            info[key]
        frames = int(frames)
        float(info["repetition_penalty"])
    except KeyError as error:
        raise OptionError(f"{path.with_name('dump.json')}: lacks {error}; write the dump again") from error
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"{path.with_name('dump.json')}: holds a value of the wrong kind ({error}); write the dump again"
        ) from error
    if info["layout"] not in ("whole", "streamed") or not isinstance(info["text"], str) or frames < 1:
        raise OptionError(
            f'{path.with_name("dump.json")}: expected a text, at least one frame, and the layout "whole" or '
            f'"streamed"; found {info["text"]!r}, {frames}, {info["layout"]!r}; write the dump again'
        )
    expected: dict[str, tuple[type[np.generic], tuple[int | None, ...]]] = {
        "text_ids": (np.int64, (None,)),
        "prompt_rows": (np.float32, (rows, width)),
        "trailing_rows": (np.float32, (None, width)),
        "talker_hidden": (np.float32, (rows + frames - 1, width)),
        "talker_logits": (np.float32, (frames, vocab)),
        "codes": (np.int64, (frames, 16)),
        "predictor_logits": (np.float32, (frames, 15, codebook)),
        "waveform": (np.float32, (frames * 1920,)),
    }
    if set(tensors) != set(expected):
        raise OptionError(f"{path}: expected the tensors {sorted(expected)}, found {sorted(tensors)}")
    for name, (dtype, shape) in expected.items():
        array = tensors[name]
        fits = len(array.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise OptionError(
                f"{path}: {name} is {array.dtype} {array.shape}; expected {dtype.__name__} {shape} "
                f"(None: any); write the dump again"
            )
    empty = [name for name in ("text_ids", "prompt_rows", "trailing_rows") if not len(tensors[name])]
    if empty:
        raise OptionError(f"{path}: {', '.join(empty)} must not be empty; write the dump again")
    codes = tensors["codes"]
    if codes.min() < 0 or codes.max() >= codebook:
        raise OptionError(
            f"{path}: codes reach from {codes.min()} to {codes.max()}; expected 0 to {codebook - 1}; "
            "write the dump again"
        )

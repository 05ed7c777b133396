"""Building a bundle: the ONNX graphs, weights and tables of one checkpoint in one folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia._version import __version__
from kazeia.bundle import BUNDLE_FORMAT, BUNDLE_VERSION, MANIFEST, SEAL, seal
from kazeia.checkpoint import Checkpoint, TensorFiles
from kazeia.checkpoint._fingerprint import file_digests
from kazeia.checkpoint.config import TalkerConfig
from kazeia.errors import BundleError, WeightsError
from kazeia.graphs.code_predictor import PREFIX, build_code_predictor
from kazeia.graphs.codec_decoder import build_codec_decoder
from kazeia.graphs.talker import build_talker
from kazeia.graphs.text_projection import text_projection_graph
from kazeia.graphs.transformer import Weights
from kazeia.quant import quant_plan

F32 = npt.NDArray[np.float32]
Progress = Callable[[str, float], None]
"""(what is being done, share of the whole that is done, 0 to 1)."""

_TEXT_FILES = (
    "config.json",
    "generation_config.json",
    "vocab.json",
    "merges.txt",
    "speech_tokenizer/config.json",
)
_TEXT_EMBEDDING = "talker.model.text_embedding.weight"
_ROWS_AT_ONCE = 2048
_LARGEST = 1e18  # float32 can still add up the squares of a block
_TEMPORARY = ".building-"


def build_bundle_at(
    checkpoint: Checkpoint,
    quant: str,
    folder: Path,
    fingerprint: str,
    progress: Progress | None = None,
    *,
    is_random: bool = False,
    replace: bool = False,
) -> None:
    """Build the bundle of `checkpoint` at `folder`, which appears whole or not at all.

    The work happens in a sibling folder that is renamed at the end. If `folder` appears meanwhile,
    made by another process, that one stays (unless `replace`). Raises OptionError for an unknown
    `quant`, WeightsError for tensors that are missing, misshapen or (quantised) not finite,
    BundleError when the disk refuses.
    """
    quant_plan(quant)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = folder.parent / f"{_TEMPORARY}{folder.name}-{secrets.token_hex(8)}"
        temporary.mkdir()
    except OSError as error:
        raise BundleError(
            f"{folder.parent}: cannot build a bundle here ({error.strerror or error}); "
            "make the folder writable, or choose another with cache_dir=, --cache-dir or KAZEIA_CACHE"
        ) from error
    try:
        manifest = {"quant": quant, "fingerprint": fingerprint, "random": is_random}
        _fill(temporary, checkpoint, manifest, progress or (lambda stage, share: None))
        if replace and os.path.lexists(folder):
            folder.rename(temporary.with_name(f"{temporary.name}-old"))
        try:
            temporary.rename(folder)
        except OSError:
            if not (folder / MANIFEST).is_file():
                raise
    except OSError as error:
        raise BundleError(
            f"{folder}: building the bundle failed ({error.strerror or error}); nothing was left behind. "
            "Free some space or choose another folder, then try again"
        ) from error
    finally:
        _remove(temporary)
        _remove(temporary.with_name(f"{temporary.name}-old"))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed builds of this bundle left. The caller holds the lock that builders take."""
    for left in folder.parent.glob(f"{_TEMPORARY}{folder.name}-*"):
        _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        path.unlink()


def _fill(folder: Path, checkpoint: Checkpoint, manifest: dict[str, Any], progress: Progress) -> None:
    quant, talker = manifest["quant"], checkpoint.config.talker
    plan = quant_plan(quant)
    weights: Tables = checkpoint.weights if quant == "f32" else _Finite(checkpoint.weights)
    for name in _TEXT_FILES:
        source = checkpoint.path / name
        if source.is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source, folder / name)
    progress("codec decoder", 0.0)
    states = build_codec_decoder(
        folder, checkpoint.codec_weights, checkpoint.codec_config.decoder, plan.codec
    )
    progress("embeddings", 0.1)
    _write_embeddings(folder, weights, talker)
    progress("text projection", 0.15)
    _write_text_rows(folder, weights, talker)
    progress("code predictor", 0.45)
    build_code_predictor(folder, weights, talker, plan.predictor, plan.heads)
    progress("talker", 0.6)
    build_talker(folder, weights, talker, plan.talker, plan.heads)
    progress("checksums", 0.9)
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    digests = file_digests({name: folder / name for name in names})
    manifest |= {
        "format": BUNDLE_FORMAT,
        "version": BUNDLE_VERSION,
        "kazeia": __version__,
        "onnxruntime": ort.__version__,
        "codec_states": states,
        "files": {n: {"bytes": (folder / n).stat().st_size, "sha256": digests[n]} for n in names},
    }
    manifest[SEAL] = seal(manifest)
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    progress("done", 1.0)


class Tables(Weights, Protocol):
    """Weights of which some rows can be had alone."""

    def rows(self, name: str, shape: Sequence[int], start: int, stop: int) -> F32: ...


class _Finite:
    """The tensors of a checkpoint, refused when they hold NaN, infinite or absurdly large values.

    In f32 such numbers reach the logits or the samples and are found there; a quantised product would
    make ordinary ones of them, and the speech would be wrong without a word.
    """

    def __init__(self, weights: TensorFiles) -> None:
        self._weights = weights

    def get(self, name: str, shape: Sequence[int]) -> F32:
        return self._checked(name, self._weights.get(name, shape))

    def rows(self, name: str, shape: Sequence[int], start: int, stop: int) -> F32:
        return self._checked(name, self._weights.rows(name, shape, start, stop))

    def _checked(self, name: str, values: F32) -> F32:
        if not np.abs(values).max(initial=0) < _LARGEST:  # NaN too
            raise WeightsError(
                f"tensor {name} holds NaN, infinite or enormous values, so it cannot be quantised; "
                "the weights are damaged, fetch them again"
            )
        return values


def _write_embeddings(folder: Path, weights: Tables, config: TalkerConfig) -> None:
    width, size = config.transformer.hidden_size, config.code_predictor.vocab_size
    codec = weights.get("talker.model.codec_embedding.weight", (config.vocab_size, width))
    _write_table(folder / "codec_embedding.npy", codec.shape, [codec])
    books = config.num_code_groups - 1
    tables = (weights.get(f"{PREFIX}.model.codec_embedding.{k}.weight", (size, width)) for k in range(books))
    _write_table(folder / "predictor_embedding.npy", (books, size, width), tables)


def _write_text_rows(folder: Path, weights: Tables, config: TalkerConfig) -> None:
    """Project the whole text embedding once; spec §2.3."""
    rows, inner, width = config.text_vocab_size, config.text_hidden_size, config.transformer.hidden_size
    session = ort.InferenceSession(text_projection_graph(weights, config), providers=["CPUExecutionProvider"])
    pieces = (
        session.run(None, {"x": weights.rows(_TEXT_EMBEDDING, (rows, inner), start, stop)})[0]
        for start, stop in ((s, min(s + _ROWS_AT_ONCE, rows)) for s in range(0, rows, _ROWS_AT_ONCE))
    )
    _write_table(folder / "text_rows.npy", (rows, width), pieces)


def _write_table(path: Path, shape: tuple[int, ...], pieces: Iterable[F32]) -> None:
    """Write a float32 .npy file piece by piece. Not through a map: a full disk would kill the process."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, "<f4").data)

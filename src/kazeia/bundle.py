"""A bundle: everything the engine needs of one checkpoint, ready to run, in one folder.

manifest.json                        format, version, quantisation, fingerprint, files and hashes
config.json, vocab.json, …           the checkpoint's own text files
talker.onnx, code_predictor.onnx, codec_decoder.onnx, heads/NN.onnx, and *.weights beside them
text_rows.npy                        (text vocab, hidden) float32, the projected text embedding
codec_embedding.npy                  (codec vocab, hidden) float32
predictor_embedding.npy              (15, codebook, hidden) float32
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazeia.checkpoint._fields import read_json
from kazeia.checkpoint._fingerprint import file_digests
from kazeia.checkpoint.config import CodecConfig, ModelConfig
from kazeia.checkpoint.generation import GENERATION_FILE, GenerationDefaults
from kazeia.errors import BundleError
from kazeia.row_table import RowTable

BUNDLE_FORMAT = "kazeia-bundle"
BUNDLE_VERSION = 3  # raised whenever the graphs or the layout change
MANIFEST = "manifest.json"
SEAL = "sha256"  # the manifest's key of the hash over itself
TALKER = "talker.onnx"


@dataclass(frozen=True)
class Bundle:
    """An opened bundle: typed configs and mapped tables. Graphs are opened by the runtime."""

    path: Path
    quant: str
    fingerprint: str
    config: ModelConfig
    codec_config: CodecConfig
    generation: GenerationDefaults
    codec_states: Mapping[str, tuple[int, int]]
    is_random: bool  # whether it was made from a "random:…" model

    @property
    def talker_bytes(self) -> int:
        """The size of the talker's weights."""
        return (self.path / "talker.weights").stat().st_size

    def table(self, name: str) -> RowTable:
        """A float32 table, of which only the rows that are asked for are read."""
        try:
            return RowTable(self.path / f"{name}.npy")
        except (OSError, ValueError) as error:
            raise BundleError(f"{self.path / name}.npy: cannot be read ({error})") from error


def is_bundle(path: Path) -> bool:
    """Whether the folder is meant to be a bundle, by its manifest or its graphs, sound or damaged."""
    if (path / TALKER).is_file():
        return True
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == BUNDLE_FORMAT


def foreign_files(path: Path) -> list[str]:
    """What lies at `path` beside the files that its manifest lists; without a manifest, everything."""
    if not path.is_dir():
        return [path.name]
    found = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir())
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        own = {MANIFEST, *manifest["files"]} if manifest["format"] == BUNDLE_FORMAT else set()
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        own = set()
    return [name for name in found if name not in own]


def open_bundle(path: Path, hash_cache: Path | None = None) -> Bundle:
    """Open a bundle, after checking its version and every file's size and hash.

    Hashes of big files that were computed before are taken from `hash_cache` while the files' size
    and times have not changed. Raises BundleError that says which file or version is wrong.
    """
    manifest = _read_manifest(path)
    _check_files(path, manifest["files"], hash_cache)

    def read(name: str) -> Mapping[str, Any]:
        return read_json(path / name)

    generation = path / GENERATION_FILE
    return Bundle(
        path=path,
        quant=manifest["quant"],
        fingerprint=manifest["fingerprint"],
        config=ModelConfig.from_dict(read("config.json"), file=str(path / "config.json")),
        codec_config=CodecConfig.from_dict(
            read("speech_tokenizer/config.json"), file=str(path / "speech_tokenizer/config.json")
        ),
        generation=(
            GenerationDefaults.from_dict(read(GENERATION_FILE), file=str(generation))
            if generation.is_file()
            else GenerationDefaults()
        ),
        codec_states={name: (rows, width) for name, (rows, width) in manifest["codec_states"].items()},
        is_random=manifest["random"],
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BundleError(f"{file}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{file}: not valid JSON ({error}); build the bundle again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != BUNDLE_FORMAT:
        raise BundleError(f'{file}: not the manifest of a bundle; expected "format": "{BUNDLE_FORMAT}"')
    if manifest.get("version") != BUNDLE_VERSION:
        raise BundleError(
            f"{path}: bundle version {manifest.get('version')!r}, made by Kazeia "
            f"{manifest.get('kazeia', 'unknown')}; this Kazeia reads version {BUNDLE_VERSION}. "
            "Build it again with `kazeia convert`"
        )
    wanted = {"files": dict, "quant": str, "fingerprint": str, "codec_states": dict, "random": bool}
    for key, kind in wanted.items():
        if not isinstance(manifest.get(key), kind):
            raise BundleError(f"{file}: {key!r} is missing or damaged; build the bundle again")
    if manifest.get(SEAL) != seal(manifest):
        raise BundleError(f"{file}: its content has changed since it was written; build the bundle again")
    return manifest


def seal(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 (hex) over all of a manifest but the seal itself."""
    rest = {key: value for key, value in manifest.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _check_files(path: Path, files: Mapping[str, Any], hash_cache: Path | None) -> None:
    for name, entry in files.items():
        try:
            size = (path / name).stat().st_size
        except OSError as error:
            raise BundleError(
                f"{path / name}: missing from the bundle ({error.strerror or error}); build it again"
            ) from error
        if size != entry["bytes"]:
            raise BundleError(
                f"{path / name}: {size} bytes, but the manifest says {entry['bytes']}; build the bundle again"
            )
    digests = file_digests({name: path / name for name in files}, hash_cache)
    for name, digest in digests.items():
        if digest != files[name]["sha256"]:
            raise BundleError(
                f"{path / name}: its content has changed since the bundle was built; build the bundle again"
            )

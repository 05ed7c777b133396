"""Reading the official checkpoint directory (spec §1): configs, weights, and where to find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kazeia.checkpoint._fields import read_json
from kazeia.checkpoint._fingerprint import fingerprint
from kazeia.checkpoint.config import (
    CODEC_CONFIG_FILE,
    CONFIG_FILE,
    CodecConfig,
    CodecDecoderConfig,
    CodePredictorConfig,
    ModelConfig,
    TalkerConfig,
    TransformerConfig,
    check_pair,
    needs_projection,
)
from kazeia.checkpoint.generation import GENERATION_FILE, GenerationDefaults
from kazeia.checkpoint.resolve import CODEC_FOLDER, TOKENIZER_FILES, resolve_folder
from kazeia.checkpoint.safetensors import TensorFiles

__all__ = [
    "Checkpoint",
    "CodePredictorConfig",
    "CodecConfig",
    "CodecDecoderConfig",
    "GenerationDefaults",
    "ModelConfig",
    "TalkerConfig",
    "TensorFiles",
    "TransformerConfig",
    "needs_projection",
    "open_checkpoint",
]


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: typed configs, and weights that are mapped, not loaded."""

    path: Path
    config: ModelConfig
    codec_config: CodecConfig
    generation: GenerationDefaults
    weights: TensorFiles  # talker and code predictor
    codec_weights: TensorFiles  # speech tokenizer

    def files(self) -> dict[str, Path]:
        """Every file that is used, by its name within the checkpoint."""
        return {path.relative_to(self.path).as_posix(): path for path in self._files()}

    def _files(self) -> Iterator[Path]:
        for name in (CONFIG_FILE, *TOKENIZER_FILES, CODEC_CONFIG_FILE):
            yield self.path / name
        if (self.path / GENERATION_FILE).is_file():
            yield self.path / GENERATION_FILE
        for weights in (self.weights, self.codec_weights):
            yield from weights.files
            if weights.index is not None:
                yield weights.index

    def fingerprint(self, cache: Path | None = None) -> str:
        """A SHA-256 (hex) over the contents of all used files; equal content gives it wherever it lies.

        `cache` is a folder where the hashes of big files are kept, so that only the first call reads
        them; one that cannot be read or written is passed over. Raises CheckpointError when a file of
        the checkpoint cannot be read.
        """
        return fingerprint(self.files(), cache)

    def close(self) -> None:
        """Let go of the weights' files. May be called twice."""
        self.weights.close()
        self.codec_weights.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_checkpoint(name: str | Path) -> Checkpoint:
    """Open a checkpoint by its folder, or by its hub id "owner/name" (local cache first).

    Raises ModelNotFoundError when there is no such folder or files are missing in it, ConfigError for
    a config that cannot be run, WeightsError for a broken weights file.
    """
    folder = resolve_folder(name)
    file = folder / CONFIG_FILE
    config = ModelConfig.from_dict(read_json(file), file=str(file))
    codec_file = folder / CODEC_CONFIG_FILE
    codec_config = CodecConfig.from_dict(read_json(codec_file), file=str(codec_file))
    check_pair(config, codec_config, file=str(file))
    defaults = folder / GENERATION_FILE
    generation = GenerationDefaults()
    if defaults.is_file():
        generation = GenerationDefaults.from_dict(read_json(defaults), file=str(defaults))
    weights = TensorFiles.open(folder)
    return Checkpoint(
        path=folder,
        config=config,
        codec_config=codec_config,
        generation=generation,
        weights=weights,
        codec_weights=TensorFiles.open(folder / CODEC_FOLDER),
    )

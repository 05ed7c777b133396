"""Writes a whole random checkpoint in the official layout (spec §1.1)."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from kazeia.errors import CheckpointError, ModelNotFoundError, OptionError
from kazeia.testing.configs import FEATURE_EXTRACTOR, GENERATION, PROCESSOR, codec_config, model_config
from kazeia.testing.shapes import SHAPES, Shape
from kazeia.testing.tensors import RECIPE, Tensor, codec_tensors, talker_tensors
from kazeia.testing.tokenizer import make_tokenizer
from kazeia.testing.writer import Progress, file_size, write_safetensors

PREFIX = "random:"


def make_checkpoint(
    folder: str | os.PathLike[str],
    shape: str | Shape = "tiny",
    seed: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write a checkpoint with random weights, in the layout of the released models, and return its folder.

    The same (shape, seed) gives the same bytes on every platform. The folder appears whole or not at all.
    A tiny one takes a fraction of a second and a few megabytes; "0.6b" takes 2.5 GB of disk, and memory
    stays small.

    Args:
        folder: where to write; must not exist, or be an empty folder. Its parents are made.
        shape: a preset of `SHAPES`, or dimensions of your own.
        seed: 0 … 2^63 - 1.
        progress: called with (bytes of weights written, bytes in all) now and then.

    Raises:
        OptionError: unknown preset, or seed out of range.
        CheckpointError: the folder is taken, or cannot be written.
    """
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise OptionError(f"unknown checkpoint shape {shape!r}; expected one of: {', '.join(SHAPES)}")
        shape = SHAPES[shape]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise OptionError(f"seed must be an integer from 0 to 2^63 - 1; got {seed!r}")
    target = Path(folder)
    if _taken(target):
        raise CheckpointError(f"{target} already exists and is not empty; remove it or choose another folder")
    draft: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        draft.chmod(0o755)
        _write(draft, shape, seed, progress)
        if target.is_dir():
            target.rmdir()  # empty; some systems do not rename onto a folder
        draft.rename(target)
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def random_model_path(name: str, cache: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Return the folder of a random model named "random:<preset>" or "random:<preset>@<seed>".

    Made on first use below `cache`, then reused; the folder's name carries a version, so a newer recipe
    makes a new one. Safe when several processes ask at once: each finds a whole checkpoint.

    Args:
        name: such as "random:tiny", "random:0.6b" or "random:tiny@7"; without a seed it is 0.
        cache: folder for checkpoints; made when missing.
        progress: as in `make_checkpoint`; not called when the model is there already.

    Raises:
        ModelNotFoundError: the name is not of that form, or the preset is unknown.
        CheckpointError: the checkpoint cannot be written.
    """
    match = re.fullmatch(r"random:(?P<preset>[^@]+)(?:@(?P<seed>\d{1,18}))?", name)
    if match is None or match["preset"] not in SHAPES:
        raise ModelNotFoundError(
            f"no random model is called {name!r}; expected random:PRESET or random:PRESET@SEED, "
            f"where PRESET is one of: {', '.join(SHAPES)}"
        )
    seed = int(match["seed"] or 0)
    target = Path(cache) / f"random-{match['preset']}-seed{seed}-v{RECIPE}"
    shape = SHAPES[match["preset"]]
    if _is_whole(target, shape):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f"{target.name}.lock")):
            for left in target.parent.glob(f".{target.name}-*"):  # of writers that were killed
                shutil.rmtree(left, ignore_errors=True)
            if not _is_whole(target, shape):  # another process may have made it meanwhile
                shutil.rmtree(target, ignore_errors=True)
                make_checkpoint(target, shape, seed, progress)
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error}") from error
    return target


def _is_whole(folder: Path, shape: Shape) -> bool:
    """Whether every file is there, and the weights have their sizes."""
    sizes = {
        path: file_size(tensors, dtype, metadata=more)
        for path, tensors, dtype, more in _weights(folder, shape)
    }
    names = ("config.json", "vocab.json", "merges.txt", "speech_tokenizer/config.json")
    return all((folder / name).is_file() for name in names) and all(
        path.is_file() and path.stat().st_size == size for path, size in sizes.items()
    )


def _weights(folder: Path, shape: Shape) -> list[tuple[Path, list[Tensor], str, bool]]:
    """The weights' files: path, tensors, stored type, whether the header carries metadata."""
    return [
        (folder / "model.safetensors", talker_tensors(shape), "BF16", True),
        (folder / "speech_tokenizer" / "model.safetensors", codec_tensors(shape), "F32", False),
    ]


def _taken(folder: Path) -> bool:
    return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))


def _write(folder: Path, shape: Shape, seed: int, progress: Progress | None) -> None:
    tokenizer = make_tokenizer(shape)
    codec = folder / "speech_tokenizer"
    codec.mkdir()
    documents = {
        folder / "config.json": model_config(shape, tokenizer.ids),
        folder / "generation_config.json": GENERATION,
        folder / "preprocessor_config.json": PROCESSOR,
        codec / "config.json": codec_config(shape),
        codec / "preprocessor_config.json": FEATURE_EXTRACTOR,
    }
    for path, document in documents.items():
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8", newline="\n")
    (folder / "vocab.json").write_bytes(tokenizer.vocab_json())
    (folder / "merges.txt").write_bytes(tokenizer.merges_txt())
    (folder / "tokenizer_config.json").write_bytes(tokenizer.config_json())

    files = _weights(folder, shape)
    total = sum(file_size(tensors, dtype, metadata=metadata) for _, tensors, dtype, metadata in files)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    for path, tensors, dtype, metadata in files:
        write_safetensors(path, tensors, dtype, seed, metadata=metadata, progress=tell)

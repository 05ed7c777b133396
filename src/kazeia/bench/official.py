"""The official PyTorch package on the same checkpoint, for `--against official`.

The one module that knows PyTorch. It runs in a process of its own, and nothing imports it but that
process and the function that starts it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import sys
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kazeia.bench.children import run_child, serve
from kazeia.bench.machine import peak_rss
from kazeia.errors import MissingDependencyError

DTYPE = "bfloat16"
_PACKAGES = {"torch": "torch", "transformers": "transformers", "qwen_tts": "qwen-tts"}
# Libraries that the package imports for its other tokenizer; the 12 Hz model never uses them.
_UNUSED = ("sox", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")
_WARM_FRAMES = 4


def check_installed() -> None:
    """Raise MissingDependencyError, naming what is missing, unless the official package is installed."""
    missing = [package for name, package in _PACKAGES.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the official package cannot be run: {', '.join(missing)} not installed; "
            "pip install qwen-tts (with torch and transformers 4.57.3), or leave out --against"
        )


def measure_official(
    folder: Path,
    *,
    text: str,
    voice: str,
    language: str,
    frames: int,
    repeats: int,
    threads: int,
    dtype: str = DTYPE,
) -> dict[str, Any]:
    """Load and run the official package on the checkpoint in `folder`, in a process of its own.

    Returns `load_s`, `rtf` (one value per repeat), `peak_rss` (bytes) and `versions`. Raises
    MissingDependencyError, BenchmarkError.
    """
    check_installed()
    order = {
        "folder": str(folder),
        "text": text,
        "voice": voice,
        "language": language,
        "frames": frames,
        "repeats": repeats,
        "threads": threads,
        "dtype": dtype,
    }
    return run_child("kazeia.bench.official", order, "the official package")


def _work(order: dict[str, Any]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's code
        import torch

        wrapper = _wrapper()
        torch.set_num_threads(order["threads"])
        started = time.perf_counter()
        model = wrapper.from_pretrained(
            order["folder"], dtype=getattr(torch, order["dtype"]), device_map="cpu"
        )
        load_s = time.perf_counter() - started

        def speak(frames: int, seed: int) -> float:
            torch.manual_seed(seed)
            begun = time.perf_counter()
            waves, rate = model.generate_custom_voice(
                order["text"],
                speaker=order["voice"],
                language=order["language"],
                max_new_tokens=frames + 1,  # the package drops the last code at the limit (spec §2.5)
            )
            took = time.perf_counter() - begun
            return took / (len(waves[0]) / float(rate))

        speak(min(_WARM_FRAMES, order["frames"]), 0)
        rtf = [speak(order["frames"], seed) for seed in range(order["repeats"])]
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES.values()}
    return {"load_s": load_s, "rtf": rtf, "peak_rss": peak_rss(), "versions": versions}


def _wrapper() -> Any:
    import transformers  # before the stand-ins, which it would take for the real libraries

    transformers.logging.set_verbosity_error()
    with _stand_ins():
        from qwen_tts import Qwen3TTSModel
    return Qwen3TTSModel


@contextlib.contextmanager
def _stand_ins() -> Iterator[None]:
    """Empty modules for libraries that are imported and never used, where they are not installed."""
    missing = [name for name in _UNUSED if importlib.util.find_spec(name.partition(".")[0]) is None]
    for name in missing:
        sys.modules[name] = types.ModuleType(name)
    try:
        yield
    finally:
        for name in missing:
            sys.modules.pop(name, None)


if __name__ == "__main__":
    serve(_work)

"""Kazeia: speech from Qwen3-TTS on an ordinary CPU.

import kazeia

with kazeia.load("path/to/checkpoint") as engine:
    speech = engine.synthesize("Bonjour !", language="fr", seed=42)
"""

from typing import TYPE_CHECKING, Any

from kazeia.errors import (
    AudioError,
    BenchmarkError,
    BundleError,
    CheckpointError,
    ConfigError,
    EmptyTextError,
    EngineClosedError,
    GenerationError,
    InputError,
    KazeiaError,
    KazeiaWarning,
    LanguageError,
    MissingDependencyError,
    ModelNotFoundError,
    OptionError,
    PlaybackError,
    ReadingStoppedError,
    TextEncodingError,
    TextError,
    TokenizerError,
    VoiceError,
    WeightsError,
)

if TYPE_CHECKING:
    from kazeia._version import __version__
    from kazeia.budget import FrameBudget
    from kazeia.engine import Engine, load
    from kazeia.job import Request
    from kazeia.models import ModelInfo, build_bundle, inspect
    from kazeia.runaway import RunawayGuard
    from kazeia.runtime.threads import Threads
    from kazeia.sampling import Sampling
    from kazeia.speech import Chunk, Speech, Timings
    from kazeia.validation import Report, validate

# Imported when first used, so that `kazeia --help` does not wait for ONNX Runtime.
_HOMES = {
    "Chunk": "speech",
    "Engine": "engine",
    "FrameBudget": "budget",
    "ModelInfo": "models",
    "Report": "validation",
    "Request": "job",
    "RunawayGuard": "runaway",
    "Sampling": "sampling",
    "Speech": "speech",
    "Threads": "runtime.threads",
    "Timings": "speech",
    "__version__": "_version",
    "build_bundle": "models",
    "inspect": "models",
    "load": "engine",
    "validate": "validation",
}

__all__ = [
    "AudioError",
    "BenchmarkError",
    "BundleError",
    "CheckpointError",
    "Chunk",
    "ConfigError",
    "EmptyTextError",
    "Engine",
    "EngineClosedError",
    "FrameBudget",
    "GenerationError",
    "InputError",
    "KazeiaError",
    "KazeiaWarning",
    "LanguageError",
    "MissingDependencyError",
    "ModelInfo",
    "ModelNotFoundError",
    "OptionError",
    "PlaybackError",
    "ReadingStoppedError",
    "Report",
    "Request",
    "RunawayGuard",
    "Sampling",
    "Speech",
    "TextEncodingError",
    "TextError",
    "Threads",
    "Timings",
    "TokenizerError",
    "VoiceError",
    "WeightsError",
    "__version__",
    "build_bundle",
    "inspect",
    "load",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kazeia' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"kazeia.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__

"""Kazeia: speech from Qwen3-TTS on an ordinary CPU.

    import kazeia

    with kazeia.load("path/to/checkpoint") as engine:
        speech = engine.synthesize("Bonjour !", language="fr", seed=42)
"""

from kazeia._version import __version__
from kazeia.budget import FrameBudget
from kazeia.engine import Engine, Request, load
from kazeia.errors import (
    AudioError,
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
    TextEncodingError,
    TextError,
    TokenizerError,
    VoiceError,
    WeightsError,
)
from kazeia.models import build_bundle
from kazeia.sampling import Sampling
from kazeia.speech import Chunk, Speech, Timings
from kazeia.validation import validate

__all__ = [
    "AudioError",
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
    "ModelNotFoundError",
    "OptionError",
    "PlaybackError",
    "Request",
    "Sampling",
    "Speech",
    "TextEncodingError",
    "TextError",
    "Timings",
    "TokenizerError",
    "VoiceError",
    "WeightsError",
    "__version__",
    "build_bundle",
    "load",
    "validate",
]

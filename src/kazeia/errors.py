"""Every error Kazeia raises on purpose.

KazeiaError
├── CheckpointError            a model folder or one of its files cannot be used
│   ├── ModelNotFoundError     the name leads to no model folder
│   ├── ConfigError            a JSON file is missing a key or holds a value we cannot run
│   ├── WeightsError           a safetensors file is broken, or a tensor is missing or misshapen
│   └── TokenizerError         vocab.json / merges.txt cannot be used
├── BundleError                a built bundle cannot be made, opened or trusted
├── InputError (ValueError)    what the caller asked for cannot be done
│   ├── TextError              the text cannot be spoken
│   │   ├── EmptyTextError     there is nothing to say
│   │   └── TextEncodingError  bytes that are not UTF-8
│   ├── VoiceError             unknown voice
│   ├── LanguageError          unknown language
│   └── OptionError            an option is out of its range, or of the wrong type
├── GenerationError            the model's own numbers went wrong (NaN, infinity)
├── EngineClosedError          the engine was used after close()
├── AudioError                 audio could not be written
│   └── PlaybackError          no sound card, or no library to reach it
├── ReadingStoppedError        a reading was cancelled; what it has spoken is kept
├── BenchmarkError             a measurement could not be made
└── MissingDependencyError     an optional package is needed and not installed

Messages say what was found, what was expected and what to do.
"""

from __future__ import annotations


class KazeiaError(Exception):
    """Root of every error that Kazeia raises on purpose."""


class CheckpointError(KazeiaError):
    """A model folder, or one of its files, cannot be used."""


class ModelNotFoundError(CheckpointError):
    """The given name leads to no model folder."""


class ConfigError(CheckpointError):
    """A configuration file lacks a key, or holds a value that cannot be run."""


class WeightsError(CheckpointError):
    """A weights file is broken, or a tensor is missing, misshapen or of an unknown type."""


class TokenizerError(CheckpointError):
    """The tokenizer's files cannot be used."""


class BundleError(KazeiaError):
    """A built bundle cannot be made, opened or trusted."""


class InputError(KazeiaError, ValueError):
    """What the caller asked for cannot be done."""


class TextError(InputError):
    """The text cannot be spoken."""


class EmptyTextError(TextError):
    """There is nothing to say."""


class TextEncodingError(TextError):
    """The bytes given as text are not UTF-8."""


class VoiceError(InputError):
    """The voice is not one of the model's."""


class LanguageError(InputError):
    """The language is not one of the model's."""


class OptionError(InputError):
    """An option is out of its range, or of the wrong type."""


class GenerationError(KazeiaError):
    """The model produced numbers that cannot be used (NaN or infinity)."""


class EngineClosedError(KazeiaError):
    """The engine was used after it was closed."""


class AudioError(KazeiaError):
    """Audio could not be written."""


class PlaybackError(AudioError):
    """Audio could not be played."""


class ReadingStoppedError(KazeiaError):
    """A reading was cancelled; what it has spoken is kept, and it can go on."""


class BenchmarkError(KazeiaError):
    """A measurement could not be made: its process failed, or what it compares is not equal."""


class MissingDependencyError(KazeiaError):
    """An optional package is needed and not installed."""


class KazeiaWarning(UserWarning):
    """Something was asked for that has no effect; the message says what and why."""

package com.kazeia.tts

/**
 * What Kazeia could not do. The message says what was found, what was expected and what to do.
 *
 * @property kind the name of the error in the Python library: `VoiceError`, `OptionError`,
 *   `ModelNotFoundError`, `EngineClosedError`, …; `PythonError` when Python or the package `kazeia`
 *   cannot be used, `LibraryError` when the native library cannot be loaded.
 */
class TtsException(message: String, val kind: String) : RuntimeException(message)

package com.kazeia.tts

/**
 * The native library's functions as they are; [TtsEngine] is the face to use. Options are a JSON
 * object whose keys are the names of the Python library's arguments, or null. An engine is a number
 * that is never used again. Every function may be called from any thread and throws [TtsException].
 */
object TtsJni {
    /** Load a model; [model] null takes the default, [python] null KAZEIA_PYTHON, then the built-in one. */
    @JvmStatic
    external fun nativeLoad(model: String?, options: String?, python: String?): Long

    /** Speak a text. */
    @JvmStatic
    external fun nativeSynthesize(engine: Long, text: String?, options: String?): RawSpeech

    /** Speak a text piece by piece, each handed to [sink] in this thread; null when the sink stopped it. */
    @JvmStatic
    external fun nativeStream(engine: Long, text: String?, options: String?, sink: Sink?): RawSpeech?

    /** Let go of a model: once; a second time is an error. */
    @JvmStatic
    external fun nativeFree(engine: Long)

    /** The native library's version. */
    @JvmStatic
    external fun nativeVersion(): String

    /** Takes the pieces of a stream: 16-bit samples at [sampleRate] Hz; false stops. */
    interface Sink {
        fun onChunk(pcm: ShortArray, sampleRate: Int): Boolean
    }

    /** A speech as the native library makes it; [codes] row by row, [seconds] as in [Timings]. */
    class RawSpeech(
        @JvmField val pcm: ShortArray,
        @JvmField val sampleRate: Int,
        @JvmField val codes: IntArray,
        @JvmField val codebooks: Int,
        @JvmField val seed: Long,
        @JvmField val voice: String,
        @JvmField val language: String,
        @JvmField val finishReason: String,
        @JvmField val seconds: DoubleArray
    )
}

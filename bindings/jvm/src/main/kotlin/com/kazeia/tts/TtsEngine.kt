package com.kazeia.tts

import java.io.Closeable
import java.util.concurrent.atomic.AtomicBoolean

/**
 * A loaded model: load once, speak many times, close.
 *
 * Several threads may call at once. Equal calls give equal samples, bit for bit. A model lives outside
 * the JVM's heap: no collector frees it, so call [close], or use `use` or try-with-resources.
 */
class TtsEngine private constructor(private val number: Long) : Closeable {
    private val closed = AtomicBoolean(false)

    /** Speak a text. Throws [TtsException] for what cannot be done. */
    @JvmOverloads
    fun synthesize(text: String, options: TtsOptions = TtsOptions()): Speech =
        Speech(TtsJni.nativeSynthesize(number, text, options.toJson()))

    /**
     * Speak a text piece by piece, while it is generated. [onChunk] is called in this thread; true goes
     * on, false stops; what it throws stops the stream and is thrown on. The chunks' samples, put
     * together, are the ones that [synthesize] returns. Returns the whole speech, or null when it was
     * stopped.
     */
    fun stream(text: String, options: TtsOptions, onChunk: (Chunk) -> Boolean): Speech? {
        val sink = object : TtsJni.Sink {
            private var index = 0

            override fun onChunk(pcm: ShortArray, sampleRate: Int): Boolean = onChunk(Chunk(pcm, sampleRate, index++))
        }
        return TtsJni.nativeStream(number, text, options.toJson(), sink)?.let { Speech(it) }
    }

    /** [stream] with the usual options. */
    fun stream(text: String, onChunk: (Chunk) -> Boolean): Speech? = stream(text, TtsOptions(), onChunk)

    /** Let go of the model. Calls that are running end with a [TtsException]. May be called twice. */
    override fun close() {
        if (closed.compareAndSet(false, true)) TtsJni.nativeFree(number)
    }

    companion object {
        private const val NAME = "kazeia_tts"
        private const val PROPERTY = "kazeia.tts.library"
        private var loaded = false

        /**
         * Load a model.
         *
         * [model]: a checkpoint's folder, a bundle's, a hub id or "random:tiny"; null takes
         * KAZEIA_MODEL, else the voice that comes with Kazeia. [quant]: "q8" (null), "q4" or "f32".
         * [threads]: in all; null takes the cores there are. [cacheDir]: where prepared models are kept. [python]: the
         * interpreter, or the folder, of the environment that holds `kazeia`; null takes KAZEIA_PYTHON,
         * then the one that built the native library. Throws [TtsException].
         */
        @JvmStatic
        @JvmOverloads
        fun load(
            model: String? = null,
            quant: String? = null,
            threads: Int? = null,
            cacheDir: String? = null,
            python: String? = null
        ): TtsEngine {
            loadLibrary()
            val options = jsonObject("quant" to quant, "threads" to threads, "cache_dir" to cacheDir)
            return TtsEngine(TtsJni.nativeLoad(model, options, python))
        }

        /** The native library's version. */
        @JvmStatic
        fun version(): String {
            loadLibrary()
            return TtsJni.nativeVersion()
        }

        /** From the file that the property kazeia.tts.library names, else from java.library.path. */
        @Synchronized
        private fun loadLibrary() {
            if (loaded) return
            val file = System.getProperty(PROPERTY)
            try {
                if (file != null) System.load(file) else System.loadLibrary(NAME)
            } catch (error: UnsatisfiedLinkError) {
                throw TtsException(
                    "the native library cannot be loaded: ${error.message}; build it with `python -m kazeia_jvm.build` " +
                        "and start java with -D$PROPERTY=FILE, or with its folder in -Djava.library.path",
                    "LibraryError"
                )
            }
            loaded = true
        }
    }
}

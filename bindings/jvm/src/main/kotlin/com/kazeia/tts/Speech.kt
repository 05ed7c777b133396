package com.kazeia.tts

/** A finished utterance. */
class Speech internal constructor(raw: TtsJni.RawSpeech) {
    /** 16-bit samples, mono: frames · 1920 of them at 24 kHz. */
    val pcm: ShortArray = raw.pcm

    /** Hz. */
    val sampleRate: Int = raw.sampleRate

    /** (frames, 16): the codec's codes, a row per frame of 80 ms. */
    val codes: Array<IntArray> =
        Array(raw.codes.size / raw.codebooks) { raw.codes.copyOfRange(it * raw.codebooks, (it + 1) * raw.codebooks) }

    /** The seed that was used; give it again to hear the same. */
    val seed: Long = raw.seed

    /** The voice that spoke. */
    val voice: String = raw.voice

    /** The language that was set, or "auto". */
    val language: String = raw.language

    /** As in Python: "stop": the model ended by itself; "limit": it was stopped at its limit; … */
    val finishReason: String = raw.finishReason

    /** Where the time went. */
    val timings: Timings = Timings(raw.seconds)

    /** Seconds of audio. */
    val duration: Double
        get() = pcm.size / sampleRate.toDouble()
}

/** Where the time went, in seconds of wall clock. */
class Timings internal constructor(seconds: DoubleArray) {
    /** Reading the prompt. */
    val prefill: Double = seconds[0]

    /** All talker steps. */
    val talker: Double = seconds[1]

    /** All frames of the code predictor. */
    val predictor: Double = seconds[2]

    /** Codes to samples. */
    val decoder: Double = seconds[3]

    /** From the call to the first samples. */
    val firstAudio: Double = seconds[4]

    /** From the call to the last samples. */
    val total: Double = seconds[5]

    /** Seconds of audio. */
    val audio: Double = seconds[6]

    /** Seconds of work per second of audio; below 1 is faster than speech. NaN without audio. */
    val rtf: Double
        get() = if (audio > 0) total / audio else Double.NaN

    override fun toString(): String = "$audio s of audio in $total s (first after $firstAudio s)"
}

/** A piece of a stream: 16-bit samples, mono, at [sampleRate] Hz; [index] counts from 0. */
class Chunk internal constructor(val pcm: ShortArray, val sampleRate: Int, val index: Int)

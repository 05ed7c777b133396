package com.kazeia.tts

/**
 * How to speak; what is null is left to the library. From Kotlin `TtsOptions(voice = "ryan", seed = 42)`,
 * from Java `new TtsOptions().withVoice("ryan").withSeed(42)`.
 *
 * @property voice one of the model's voices, in any case; null is its first.
 * @property language a name or code, or "auto".
 * @property instruct how to say it; the 0.6B models have no ear for it.
 * @property seed 0 or more; null draws one and reports it.
 * @property sampling how codebook 0 is drawn.
 * @property predictorSampling how codebooks 1–15 are drawn.
 * @property official draw as the official package does, where no sampling is given.
 * @property maxFrames stop after so many frames of 80 ms; null derives a limit from the text.
 * @property layout "whole" or "streamed".
 * @property segmentChars longer texts are spoken in pieces; `Int.MAX_VALUE` never cuts.
 * @property segmentPause silence between those pieces, in ms; null is none.
 * @property markup whether `[pause:400ms]` in the text is a pause; null is yes.
 * @property chunkFrames frames per piece of a stream; null begins with one and grows. For streams only.
 */
data class TtsOptions @JvmOverloads constructor(
    val voice: String? = null,
    val language: String? = null,
    val instruct: String? = null,
    val seed: Long? = null,
    val sampling: Sampling? = null,
    val predictorSampling: Sampling? = null,
    val official: Boolean = false,
    val maxFrames: Int? = null,
    val layout: String? = null,
    val segmentChars: Int? = null,
    val segmentPause: Double? = null,
    val markup: Boolean? = null,
    val chunkFrames: Int? = null
) {
    fun withVoice(voice: String?): TtsOptions = copy(voice = voice)

    fun withLanguage(language: String?): TtsOptions = copy(language = language)

    fun withInstruct(instruct: String?): TtsOptions = copy(instruct = instruct)

    fun withSeed(seed: Long): TtsOptions = copy(seed = seed)

    fun withSampling(sampling: Sampling?): TtsOptions = copy(sampling = sampling)

    fun withPredictorSampling(sampling: Sampling?): TtsOptions = copy(predictorSampling = sampling)

    fun withOfficial(official: Boolean): TtsOptions = copy(official = official)

    fun withMaxFrames(frames: Int): TtsOptions = copy(maxFrames = frames)

    fun withLayout(layout: String?): TtsOptions = copy(layout = layout)

    fun withSegmentChars(chars: Int): TtsOptions = copy(segmentChars = chars)

    fun withSegmentPause(ms: Double): TtsOptions = copy(segmentPause = ms)

    fun withMarkup(markup: Boolean): TtsOptions = copy(markup = markup)

    fun withChunkFrames(frames: Int): TtsOptions = copy(chunkFrames = frames)

    internal fun toJson(): String = jsonObject(
        "voice" to voice,
        "language" to language,
        "instruct" to instruct,
        "seed" to seed,
        "sampling" to (sampling ?: usualSampling()),
        "predictor_sampling" to (predictorSampling ?: usualSampling()),
        "max_frames" to maxFrames,
        "layout" to layout,
        "segment_chars" to segmentChars,
        "segment_pause" to segmentPause,
        "markup" to markup,
        "chunk_frames" to chunkFrames
    )

    private fun usualSampling(): String? = if (official) "official" else null
}

/**
 * How codes are drawn; what is null stays as the checkpoint has it.
 *
 * @property temperature divides the logits; 0 is greedy.
 * @property topK keep the k best; 0 is off.
 * @property topP keep the best whose mass reaches p; 1 is off.
 * @property repetitionPenalty on codes already drawn; 1 is off.
 * @property repetitionWindow how many of the last codes are penalised; `Int.MAX_VALUE` is all.
 */
data class Sampling @JvmOverloads constructor(
    val temperature: Double? = null,
    val topK: Int? = null,
    val topP: Double? = null,
    val repetitionPenalty: Double? = null,
    val repetitionWindow: Int? = null
) {
    fun withTemperature(temperature: Double): Sampling = copy(temperature = temperature)

    fun withTopK(k: Int): Sampling = copy(topK = k)

    fun withTopP(p: Double): Sampling = copy(topP = p)

    fun withRepetitionPenalty(penalty: Double): Sampling = copy(repetitionPenalty = penalty)

    fun withRepetitionWindow(window: Int): Sampling = copy(repetitionWindow = window)

    internal fun toJson(): String = jsonObject(
        "temperature" to temperature,
        "top_k" to topK,
        "top_p" to topP,
        "repetition_penalty" to repetitionPenalty,
        "repetition_window" to repetitionWindow
    )
}

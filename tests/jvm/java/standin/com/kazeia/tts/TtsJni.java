package com.kazeia.tts;

/** Stands in for TtsJni.kt where there is no Kotlin compiler: the same names and types. */
public final class TtsJni {
    private TtsJni() {}

    public static native long nativeLoad(String model, String options, String python);

    public static native RawSpeech nativeSynthesize(long engine, String text, String options);

    public static native RawSpeech nativeStream(long engine, String text, String options, Sink sink);

    public static native void nativeFree(long engine);

    public static native String nativeVersion();

    public interface Sink {
        boolean onChunk(short[] pcm, int sampleRate);
    }

    public static final class RawSpeech {
        public final short[] pcm;
        public final int sampleRate;
        public final int[] codes;
        public final int codebooks;
        public final long seed;
        public final String voice;
        public final String language;
        public final String finishReason;
        public final double[] seconds;

        public RawSpeech(
                short[] pcm,
                int sampleRate,
                int[] codes,
                int codebooks,
                long seed,
                String voice,
                String language,
                String finishReason,
                double[] seconds) {
            this.pcm = pcm;
            this.sampleRate = sampleRate;
            this.codes = codes;
            this.codebooks = codebooks;
            this.seed = seed;
            this.voice = voice;
            this.language = language;
            this.finishReason = finishReason;
            this.seconds = seconds;
        }
    }
}

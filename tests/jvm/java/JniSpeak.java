import com.kazeia.tts.TtsJni;
import com.kazeia.tts.TtsJni.RawSpeech;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** MODEL OUT: one engine, many calls; the PCM of the first goes to OUT. */
public final class JniSpeak {
    static final String LOAD = "{\"quant\": \"f32\", \"threads\": 1}";
    static final String TEXT = "Guten Morgen, \uD83D\uDE00 welt.";

    static String options(long seed) {
        return "{\"seed\": " + seed + ", \"voice\": \"vivian\", \"language\": \"de\", \"max_frames\": 12}";
    }

    /** Collects a stream, and stops it after some chunks. */
    static final class Collected implements TtsJni.Sink {
        final List<short[]> chunks = new ArrayList<>();
        int stopAfter = Integer.MAX_VALUE;

        @Override
        public boolean onChunk(short[] pcm, int sampleRate) {
            Check.equal(sampleRate, 24000);
            Check.that(pcm.length > 0, pcm.length);
            chunks.add(pcm);
            return chunks.size() < stopAfter;
        }

        short[] pcm() {
            int length = 0;
            for (short[] chunk : chunks) length += chunk.length;
            short[] all = new short[length];
            int at = 0;
            for (short[] chunk : chunks) {
                System.arraycopy(chunk, 0, all, at, chunk.length);
                at += chunk.length;
            }
            return all;
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("kazeia.tts.library"));
        long engine = TtsJni.nativeLoad(arguments[0], LOAD, null);
        RawSpeech one = TtsJni.nativeSynthesize(engine, TEXT, options(1));
        RawSpeech two = TtsJni.nativeSynthesize(engine, TEXT, options(1));
        RawSpeech other = TtsJni.nativeSynthesize(engine, TEXT, options(2));
        Check.write(arguments[1], one.pcm);

        Check.that(Arrays.equals(one.pcm, two.pcm), "equal calls, other samples");
        Check.that(Arrays.equals(one.codes, two.codes), "equal calls, other codes");
        Check.that(!Arrays.equals(one.pcm, other.pcm), "another seed, equal samples");
        Check.equal(one.pcm.length, 12 * 1920);
        Check.equal(one.codes.length, 12 * 16);
        Check.equal(one.codebooks, 16);
        Check.equal(one.sampleRate, 24000);
        Check.equal(one.seed, 1L);
        Check.equal(one.voice, "vivian");
        Check.equal(one.language, "german");
        Check.equal(one.finishReason, "limit");
        Check.equal(one.seconds.length, 7);
        Check.that(Math.abs(one.seconds[6] - 0.96) < 1e-9 && one.seconds[5] > 0, Arrays.toString(one.seconds));

        Collected all = new Collected();
        RawSpeech streamed = TtsJni.nativeStream(engine, TEXT, options(1), all);
        Check.that(all.chunks.size() > 1, all.chunks.size());
        Check.that(Arrays.equals(all.pcm(), one.pcm), "the stream differs from the whole");
        Check.that(Arrays.equals(streamed.pcm, one.pcm), "the stream's speech differs from the whole");

        Collected part = new Collected();
        part.stopAfter = 2;
        Check.that(TtsJni.nativeStream(engine, TEXT, options(1), part) == null, "a speech after a stop");
        Check.equal(part.chunks.size(), 2);
        Check.that(Arrays.equals(part.pcm(), Arrays.copyOf(one.pcm, part.pcm().length)), "not the beginning");

        IllegalStateException thrown = new IllegalStateException("from the sink");
        try {
            TtsJni.nativeStream(engine, TEXT, options(1), (pcm, rate) -> { throw thrown; });
            throw new AssertionError("the sink's exception was lost");
        } catch (IllegalStateException error) {
            Check.that(error == thrown, error);
        }
        TtsJni.nativeStream(engine, TEXT, options(1), (pcm, rate) -> {
            Check.equal(TtsJni.nativeSynthesize(engine, "Inside.", "{\"max_frames\": 1}").pcm.length, 1920);
            return false;
        });

        // What the JVM's strings can hold and C's cannot: NUL, a lone surrogate, a leading U+FEFF.
        RawSpeech nul = TtsJni.nativeSynthesize(engine, "a\0b", options(1));
        RawSpeech cut = TtsJni.nativeSynthesize(engine, "a", options(1));
        Check.that(!Arrays.equals(nul.codes, cut.codes), "the text was cut at a NUL");
        RawSpeech mark = TtsJni.nativeSynthesize(engine, "\uFEFFHi.", options(1));
        Check.equal(mark.pcm.length, one.pcm.length);
        Check.refused("TextEncodingError", "surrogate", () -> TtsJni.nativeSynthesize(engine, "a\uD83Db", null));
        // An error's message is text of any script, too.
        Check.refused("VoiceError", "\uD83D\uDE00", () ->
                TtsJni.nativeSynthesize(engine, "Hi.", "{\"voice\": \"\uD83D\uDE00\"}"));
        System.out.println("ok");
        System.exit(0); // with an engine open: the process must end all the same
    }
}

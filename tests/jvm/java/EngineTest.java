import com.kazeia.tts.Chunk;
import com.kazeia.tts.Sampling;
import com.kazeia.tts.Speech;
import com.kazeia.tts.TtsEngine;
import com.kazeia.tts.TtsException;
import com.kazeia.tts.TtsOptions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** MODEL OUT: the Kotlin classes as a Java program sees them; the PCM of one call goes to OUT. */
public final class EngineTest {
    private static final TtsOptions OPTIONS =
            new TtsOptions().withVoice("Vivian").withLanguage("de").withSeed(1).withMaxFrames(12);

    public static void main(String[] arguments) throws Exception {
        String model = arguments[0];
        Check.refused("ModelNotFoundError", "/nowhere", () -> TtsEngine.load("/nowhere"));
        Check.refused("OptionError", "q3", () -> TtsEngine.load(model, "q3"));
        Check.refused("OptionError", "threads", () -> TtsEngine.load(model, "f32", 0));
        Check.that(TtsEngine.version().matches("\\d+\\.\\d+.*"), TtsEngine.version());

        TtsEngine engine = TtsEngine.load(model, "f32", 1);
        try (engine; TtsEngine second = TtsEngine.load(model, "f32", 1)) {
            Speech one = engine.synthesize(JniSpeak.TEXT, OPTIONS);
            Check.write(arguments[1], one.getPcm());
            fields(one);
            options(engine, one);
            Check.that(Arrays.equals(second.synthesize(JniSpeak.TEXT, OPTIONS).getPcm(), one.getPcm()), "two engines");
            streams(engine, one);
        }
        engine.close();
        Check.refused("EngineClosedError", "freed", () -> engine.synthesize("Gone."));
        Check.refused("EngineClosedError", "freed", () -> engine.stream("Gone.", chunk -> true));
        System.out.println("ok");
    }

    private static void fields(Speech speech) {
        Check.equal(speech.getPcm().length, 12 * 1920);
        Check.equal(speech.getSampleRate(), 24000);
        Check.equal(speech.getCodes().length, 12);
        for (int[] frame : speech.getCodes()) Check.equal(frame.length, 16);
        Check.equal(speech.getSeed(), 1L);
        Check.equal(speech.getVoice(), "vivian");
        Check.equal(speech.getLanguage(), "german");
        Check.equal(speech.getFinishReason(), "limit");
        Check.equal(speech.getDuration(), 0.96);
        Check.that(speech.getTimings().getTotal() > speech.getTimings().getTalker(), speech.getTimings().getTotal());
        Check.that(Math.abs(speech.getTimings().getAudio() - 0.96) < 1e-9, speech.getTimings().getAudio());
        Check.that(speech.getTimings().getRtf() > 0, speech.getTimings().getRtf());
    }

    /** Every option arrives: it changes the speech, or is refused by the library's own words. */
    private static void options(TtsEngine engine, Speech one) throws Exception {
        TtsOptions[] others = {
            OPTIONS.withVoice("ryan"),
            OPTIONS.withLanguage("french"),
            OPTIONS.withSeed(Long.MAX_VALUE),
            OPTIONS.withLayout("streamed"),
            OPTIONS.withOfficial(true),
            OPTIONS.withSampling(new Sampling().withTemperature(0)),
            OPTIONS.withSampling(new Sampling().withTopK(2)),
            OPTIONS.withSampling(new Sampling().withTopP(0.2)),
            OPTIONS.withSampling(new Sampling().withRepetitionPenalty(3).withRepetitionWindow(Integer.MAX_VALUE)),
            OPTIONS.withPredictorSampling(new Sampling().withTemperature(0)),
            OPTIONS.withSegmentChars(8),
        };
        for (TtsOptions other : others) {
            Speech speech = engine.synthesize(JniSpeak.TEXT, other);
            Check.that(!Arrays.deepEquals(speech.getCodes(), one.getCodes()), other);
        }
        Check.that(!OPTIONS.equals(others[0]) && OPTIONS.equals(OPTIONS.withVoice("Vivian")), OPTIONS);
        Check.that(engine.synthesize("Hi.", new TtsOptions().withMaxFrames(1)).getSeed() >= 0, "seed");
        Object[][] bad = {
            {new TtsOptions().withVoice("no\"body\\ \n\u0001"), "VoiceError", "no\"body\\"},
            {new TtsOptions().withInstruct("Whisper.").withLanguage("klingon"), "LanguageError", "klingon"},
            {new TtsOptions().withSeed(-1), "OptionError", "seed is -1"},
            {new TtsOptions().withMaxFrames(0), "OptionError", "max_frames is 0"},
            {new TtsOptions().withSegmentChars(0), "OptionError", "segment_chars is 0"},
            {new TtsOptions().withSegmentPause(-1), "OptionError", "segment_pause is -1"},
            {new TtsOptions().withLayout("sideways"), "OptionError", "sideways"},
            {new TtsOptions().withChunkFrames(1), "OptionError", "unknown option chunk_frames"},
            {new TtsOptions().withSampling(new Sampling().withTemperature(Double.NaN)), "OptionError", "temperature"},
            {new TtsOptions().withPredictorSampling(new Sampling().withTopP(2)), "OptionError", "top_p"},
        };
        for (Object[] row : bad)
            Check.refused((String) row[1], (String) row[2], () -> engine.synthesize("Hi.", (TtsOptions) row[0]));
    }

    private static void streams(TtsEngine engine, Speech one) {
        List<Chunk> chunks = new ArrayList<>();
        Speech whole = engine.stream(JniSpeak.TEXT, OPTIONS.withChunkFrames(5), chunks::add);
        Check.that(whole != null && Arrays.equals(whole.getPcm(), one.getPcm()), "the stream's speech");
        Check.equal(chunks.size(), 3);
        int at = 0;
        for (int i = 0; i < 3; i++) {
            Chunk chunk = chunks.get(i);
            int length = chunk.getPcm().length;
            Check.equal(chunk.getIndex(), i);
            Check.equal(chunk.getSampleRate(), 24000);
            Check.that(Arrays.equals(chunk.getPcm(), Arrays.copyOfRange(one.getPcm(), at, at + length)), i);
            at += length;
        }
        Check.equal(at, one.getPcm().length);

        chunks.clear();
        Check.that(engine.stream(JniSpeak.TEXT, OPTIONS, chunk -> !chunks.add(chunk)) == null, "a speech after a stop");
        Check.equal(chunks.size(), 1);
        try {
            engine.stream(JniSpeak.TEXT, OPTIONS, chunk -> { throw new TtsException("enough", "Mine"); });
            throw new AssertionError("the callback's exception was lost");
        } catch (TtsException error) {
            Check.equal(error.getKind(), "Mine");
        }
    }
}

import com.kazeia.tts.TtsJni;
import com.kazeia.tts.TtsJni.RawSpeech;
import java.util.Arrays;

/** MODEL: everything that cannot be done is an exception by name, and harms nothing. */
public final class JniRefuse {
    private static final String[][] BAD = {
        {"{\"voice\": \"nobody\"}", "VoiceError", "nobody"},
        {"{\"language\": \"klingon\"}", "LanguageError", "klingon"},
        {"{\"max_frames\": 0}", "OptionError", "max_frames is 0"},
        {"{\"seed\": -1}", "OptionError", "seed is -1"},
        {"{\"sampling\": {\"temperature\": -1}}", "OptionError", "temperature"},
        {"{\"speed\": 2}", "OptionError", "unknown option speed"},
        {"{\"seed\": 1", "OptionError", "not JSON"},
    };

    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("kazeia.tts.library"));
        String model = arguments[0];
        Check.refused("EngineClosedError", "kz_load", () -> TtsJni.nativeSynthesize(1, "Too early.", null));
        Check.refused("PythonError", "/nowhere/python", () -> TtsJni.nativeLoad(model, null, "/nowhere/python"));
        Check.refused("PythonError", "/nowhere/\uD83D\uDE00", () -> TtsJni.nativeLoad(model, null, "/nowhere/\uD83D\uDE00"));
        Check.refused("ModelNotFoundError", "/nowhere/at/all", () -> TtsJni.nativeLoad("/nowhere/at/all", null, null));
        Check.refused("OptionError", "q3", () -> TtsJni.nativeLoad(model, "{\"quant\": \"q3\"}", null));

        long engine = TtsJni.nativeLoad(model, JniSpeak.LOAD, null);
        long second = TtsJni.nativeLoad(model, JniSpeak.LOAD, null);
        RawSpeech before = TtsJni.nativeSynthesize(engine, "Before.", JniSpeak.options(1));
        for (String[] bad : BAD) {
            Check.refused(bad[1], bad[2], () -> TtsJni.nativeSynthesize(engine, "Hello.", bad[0]));
            Check.refused(bad[1], bad[2], () -> TtsJni.nativeStream(engine, "Hello.", bad[0], (pcm, rate) -> true));
        }
        Check.refused("EmptyTextError", "nothing to say", () -> TtsJni.nativeSynthesize(engine, "", null));
        Check.refused("TextError", "null", () -> TtsJni.nativeSynthesize(engine, null, null));
        Check.refused("OptionError", "sink", () -> TtsJni.nativeStream(engine, "Hello.", null, null));

        // Nothing above has left a trace, and the second engine lives on without the first.
        TtsJni.nativeFree(engine);
        Check.refused("EngineClosedError", "freed", () -> TtsJni.nativeFree(engine));
        Check.refused("EngineClosedError", "freed", () -> TtsJni.nativeSynthesize(engine, "Gone.", null));
        Check.refused("EngineClosedError", "freed", () -> TtsJni.nativeStream(engine, "Gone.", null, (pcm, rate) -> true));
        RawSpeech after = TtsJni.nativeSynthesize(second, "Before.", JniSpeak.options(1));
        Check.that(Arrays.equals(before.pcm, after.pcm), "two engines, other samples");

        // The engine goes away under a stream, which says so.
        Check.refused("EngineClosedError", "closed", () ->
                TtsJni.nativeStream(second, "On and on.", "{\"chunk_frames\": 1, \"max_frames\": 200}", new TtsJni.Sink() {
                    private boolean open = true;

                    @Override
                    public boolean onChunk(short[] pcm, int sampleRate) {
                        if (open) TtsJni.nativeFree(second);
                        open = false;
                        return true;
                    }
                }));
        System.out.println("ok");
    }
}

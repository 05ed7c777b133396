import com.kazeia.tts.TtsException;
import com.kazeia.tts.TtsJni;

/**
 * MODEL: four blocks of 25 rounds of three calls; prints by how many bytes memory grew in the block where
 * it grew least: heaps and allocators fill their pools now and then, a leak grows always.
 */
public final class JniMemory {
    static void round(long engine) {
        TtsJni.nativeSynthesize(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 6}");
        TtsJni.nativeStream(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 9}", (pcm, rate) -> false);
        try {
            TtsJni.nativeSynthesize(engine, "Hello there.", "{\"voice\": \"nobody\"}");
        } catch (TtsException expected) {
            return;
        }
        throw new AssertionError("not refused");
    }

    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("kazeia.tts.library"));
        long engine = TtsJni.nativeLoad(arguments[0], JniSpeak.LOAD, null);
        long least = Long.MAX_VALUE;
        for (int block = 0; block < 4; block++) {
            long before = Check.resident();
            for (int i = 0; i < 25; i++) round(engine);
            least = Math.min(least, Math.max(0, Check.resident() - before));
        }
        System.out.println(least);
        TtsJni.nativeFree(engine);
    }
}

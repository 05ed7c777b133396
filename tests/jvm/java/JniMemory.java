import com.kazeia.tts.TtsException;
import com.kazeia.tts.TtsJni;

/** MODEL CALLS: prints by how many bytes memory grew over so many calls of all kinds. */
public final class JniMemory {
    static void call(long engine) {
        TtsJni.nativeSynthesize(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 4}");
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
        int calls = Integer.parseInt(arguments[1]);
        long engine = TtsJni.nativeLoad(arguments[0], JniSpeak.LOAD, null);
        for (int i = 0; i < calls / 8; i++) call(engine); // heaps and allocators fill their pools
        long warm = Check.resident();
        for (int i = 0; i < calls; i++) call(engine);
        System.out.println(Check.resident() - warm);
        TtsJni.nativeFree(engine);
    }
}

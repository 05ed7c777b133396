import com.kazeia.tts.TtsException;
import com.kazeia.tts.TtsJni;
import com.kazeia.tts.TtsJni.RawSpeech;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** MODEL: four threads on two engines at once; then one thread frees what another uses. */
public final class JniThreads {
    private static final int THREADS = 4;
    private static final String TEXT = "All at once.";

    static String options(int number) {
        return "{\"seed\": " + number + ", \"max_frames\": " + (8 + number) + "}";
    }

    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("kazeia.tts.library"));
        String model = arguments[0];
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        // The thread that starts Python ends at once: nothing may hang on it.
        long[] engines = new long[2];
        Thread starter = new Thread(() -> engines[0] = TtsJni.nativeLoad(model, JniSpeak.LOAD, null));
        starter.start();
        starter.join();
        engines[1] = TtsJni.nativeLoad(model, JniSpeak.LOAD, null);

        List<RawSpeech> alone = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) alone.add(TtsJni.nativeSynthesize(engines[0], TEXT, options(i)));
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            running.add(pool.submit(() -> {
                for (long engine : engines) {
                    RawSpeech speech = TtsJni.nativeSynthesize(engine, TEXT, options(number));
                    Check.that(Arrays.equals(speech.pcm, alone.get(number).pcm), "other samples in company");
                    JniSpeak.Collected all = new JniSpeak.Collected();
                    TtsJni.nativeStream(engine, TEXT, options(number), all);
                    Check.that(Arrays.equals(all.pcm(), speech.pcm), "another stream in company");
                    System.gc();
                }
                return null;
            }));
        }
        for (Future<?> work : running) work.get();

        CountDownLatch begun = new CountDownLatch(1);
        Future<?> talking = pool.submit(() -> {
            begun.countDown();
            Check.refused("EngineClosedError", "", () ->
                    TtsJni.nativeSynthesize(engines[0], "On and on.", "{\"max_frames\": 2000}"));
            return null;
        });
        begun.await();
        Thread.sleep(50);
        TtsJni.nativeFree(engines[0]);
        talking.get();
        TtsJni.nativeFree(engines[1]);
        try {
            TtsJni.nativeFree(engines[1]);
            throw new AssertionError("freed twice");
        } catch (TtsException expected) {
            pool.shutdown();
        }
        System.out.println("ok");
    }
}

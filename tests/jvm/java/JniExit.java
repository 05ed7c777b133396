import com.kazeia.tts.TtsJni;

/** MODEL HOW: ends the process, by System.exit or by leaving main, while calls are under way. */
public final class JniExit {
    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("kazeia.tts.library"));
        long engine = TtsJni.nativeLoad(arguments[0], JniSpeak.LOAD, null);
        Runnable speak = () -> TtsJni.nativeSynthesize(engine, "On and on.", "{\"max_frames\": 2000}");
        Runnable stream = () -> TtsJni.nativeStream(engine, "On and on.", "{\"max_frames\": 2000}", (pcm, rate) -> true);
        for (Runnable work : new Runnable[] {speak, stream}) {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(100);
        System.out.println("ok");
        if (arguments[1].equals("exit")) System.exit(0);
    }
}

import com.kazeia.tts.TtsException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** What the test programs share. A check that fails is an AssertionError, and the program's end. */
final class Check {
    private Check() {}

    interface Work {
        void run() throws Exception;
    }

    static void that(boolean holds, Object found) {
        if (!holds) throw new AssertionError("found: " + found);
    }

    static void equal(Object found, Object expected) {
        if (!expected.equals(found)) throw new AssertionError("found " + found + ", expected " + expected);
    }

    /** The work throws a TtsException of this kind, whose message holds this part. */
    static void refused(String kind, String part, Work work) throws Exception {
        try {
            work.run();
        } catch (TtsException error) {
            equal(error.getKind(), kind);
            that(error.getMessage().contains(part), error.getMessage());
            return;
        }
        throw new AssertionError("not refused; expected " + kind + " about " + part);
    }

    /** Samples as little-endian bytes, for the Python library to compare. */
    static void write(String file, short[] pcm) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(2 * pcm.length).order(ByteOrder.LITTLE_ENDIAN);
        for (short sample : pcm) bytes.putShort(sample);
        Files.write(Paths.get(file), bytes.array());
    }

    /** Resident memory in bytes, after the collector has been asked to tidy up. */
    static long resident() throws IOException {
        System.gc();
        Path statm = Paths.get("/proc/self/statm");
        return Long.parseLong(new String(Files.readAllBytes(statm)).split(" ")[1]) * 4096;
    }
}

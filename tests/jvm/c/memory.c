/* MODEL [KEEP]: four blocks of 25 rounds of three calls; prints by how many bytes memory grew in the block
 * where it grew least: allocators fill their pools now and then, a leak grows always. KEEP: leak on
 * purpose, so that the checks can be seen to find it. */
#include "check.h"

static int stop(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    (void)pcm, (void)samples, (void)sample_rate, (void)user;
    return 0;
}

static void round_of_calls(kz_engine engine, int keep) {
    kz_speech speech;
    CHECK(kz_synthesize(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 3}", &speech) == KZ_OK);
    if (!keep) kz_speech_free(&speech);
    CHECK(kz_stream(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 9}", stop, NULL, &speech) == KZ_STOPPED);
    CHECK(kz_synthesize(engine, "Hello there.", "{\"voice\": \"nobody\"}", &speech) == KZ_ERROR);
}

int main(int count, char **arguments) {
    CHECK(count >= 2);
    kz_engine engine = load(arguments[1]);
    long least = -1;
    for (int block = 0; block < 4; block++) {
        long before = resident();
        for (int i = 0; i < 25; i++) round_of_calls(engine, count > 2);
        long grown = resident() - before;
        if (least < 0 || grown < least) least = grown < 0 ? 0 : grown;
    }
    printf("%ld\n", least);
    CHECK(kz_free(engine) == KZ_OK);
    return 0;
}

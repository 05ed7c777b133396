/* MODEL CALLS [KEEP]: prints by how many bytes memory grew over so many calls of all kinds. KEEP: leak
 * on purpose, so that the checks can be seen to find it. */
#include "check.h"

static int stop(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    (void)pcm, (void)samples, (void)sample_rate, (void)user;
    return 0;
}

static void call(kz_engine engine, int keep) {
    kz_speech speech;
    CHECK(kz_synthesize(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 3}", &speech) == KZ_OK);
    if (!keep) kz_speech_free(&speech);
    CHECK(kz_stream(engine, "Hello there.", "{\"seed\": 1, \"max_frames\": 9}", stop, NULL, &speech) == KZ_STOPPED);
    CHECK(kz_synthesize(engine, "Hello there.", "{\"voice\": \"nobody\"}", &speech) == KZ_ERROR);
}

int main(int count, char **arguments) {
    CHECK(count >= 3);
    int calls = atoi(arguments[2]), keep = count > 3;
    kz_engine engine = load(arguments[1]);
    for (int i = 0; i < calls / 8; i++) call(engine, keep); /* allocators fill their pools */
    long warm = resident();
    for (int i = 0; i < calls; i++) call(engine, keep);
    printf("%ld\n", resident() - warm);
    CHECK(kz_free(engine) == KZ_OK);
    return 0;
}

/* MODEL: four threads on one engine, each with a stream and a call; then one frees what another uses. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4 };

static kz_engine engine;
static kz_speech alone[THREADS];

typedef struct {
    const kz_speech *whole;
    size_t samples;
} position;

static int compare(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    position *at = user;
    CHECK(sample_rate == 24000 && at->samples + samples <= at->whole->samples);
    CHECK(memcmp(pcm, at->whole->pcm + at->samples, samples * sizeof *pcm) == 0);
    at->samples += samples;
    return 1;
}

static void speak(int number, kz_speech *speech) {
    char options[64];
    snprintf(options, sizeof options, "{\"seed\": %d, \"max_frames\": %d}", number, 8 + number);
    CHECK(kz_synthesize(engine, "All at once.", options, speech) == KZ_OK);
}

static void *work(void *argument) {
    int number = *(int *)argument;
    char options[64];
    kz_speech speech;
    snprintf(options, sizeof options, "{\"seed\": %d, \"max_frames\": %d}", number, 8 + number);
    for (int round = 0; round < 2; round++) {
        position at = {&alone[number], 0};
        speak(number, &speech);
        CHECK(same(&speech, &alone[number]));
        kz_speech_free(&speech);
        CHECK(kz_stream(engine, "All at once.", options, compare, &at, NULL) == KZ_OK);
        CHECK(at.samples == alone[number].samples);
        snprintf(options, sizeof options, "{\"seed\": %d, \"max_frames\": %d}", number, 8 + number);
    }
    return NULL;
}

static int begun[2];

static void *talk_on(void *unused) {
    (void)unused;
    kz_speech speech;
    CHECK(write(begun[1], "x", 1) == 1);
    CHECK(kz_synthesize(engine, "On and on.", "{\"max_frames\": 2000}", &speech) == KZ_ERROR);
    CHECK(strcmp(kz_last_error_kind(), "EngineClosedError") == 0);
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    char byte;
    engine = load(arguments[1]);
    for (int i = 0; i < THREADS; i++) speak(i, &alone[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);

    CHECK(pipe(begun) == 0 && pthread_create(&threads[0], NULL, talk_on, NULL) == 0);
    CHECK(read(begun[0], &byte, 1) == 1 && usleep(50000) == 0);
    CHECK(kz_free(engine) == KZ_OK);
    CHECK(pthread_join(threads[0], NULL) == 0);
    for (int i = 0; i < THREADS; i++) kz_speech_free(&alone[i]);
    return 0;
}

/* MODEL OUT: one engine, many calls; the PCM of the first goes to OUT, for the Python library to compare. */
#include "check.h"

#define TEXT "Guten Morgen, \xF0\x9F\x98\x80 welt."
#define OPTIONS(seed) "{\"seed\": " seed ", \"voice\": \"vivian\", \"language\": \"de\", \"max_frames\": 12}"

typedef struct {
    int16_t pcm[12 * 1920];
    size_t samples;
    int calls, stop_after;
    kz_engine engine; /* to be used, or freed, from inside */
    int inner;
} collected;

static int collect(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    collected *all = user;
    CHECK(sample_rate == 24000);
    CHECK(samples > 0 && all->samples + samples <= sizeof all->pcm / sizeof *all->pcm);
    memcpy(all->pcm + all->samples, pcm, samples * sizeof *pcm);
    all->samples += samples;
    all->calls++;
    return all->calls != all->stop_after;
}

static int speak_inside(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    collected *all = user;
    kz_speech inner;
    CHECK(kz_synthesize(all->engine, "Inside.", "{\"seed\": 1, \"max_frames\": 2}", &inner) == KZ_OK);
    CHECK(inner.frames == 2);
    kz_speech_free(&inner);
    return collect(pcm, samples, sample_rate, user);
}

static int free_inside(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    collected *all = user;
    CHECK(pcm != NULL && samples > 0 && sample_rate > 0);
    all->calls++;
    CHECK(kz_free(all->engine) == (all->calls == 1 ? KZ_OK : KZ_ERROR));
    return 1;
}

static void check_fields(const kz_speech *s) {
    CHECK(s->frames == 12 && s->codebooks == 16 && s->samples == 12 * 1920 && s->sample_rate == 24000);
    CHECK(s->seed == 18446744073709551615u);
    CHECK(strcmp(s->voice, "vivian") == 0 && strcmp(s->language, "german") == 0);
    CHECK(strcmp(s->finish_reason, "limit") == 0);
    CHECK(s->timings.audio_s > 0.959 && s->timings.audio_s < 0.961 && s->timings.total_s > 0);
    CHECK(s->timings.talker_s > 0 && s->timings.predictor_s > 0 && s->timings.decoder_s > 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    kz_engine engine = load(arguments[1]);
    kz_speech one, two, other, streamed;

    CHECK(kz_synthesize(engine, TEXT, OPTIONS("18446744073709551615"), &one) == KZ_OK);
    CHECK(kz_synthesize(engine, TEXT, OPTIONS("18446744073709551615"), &two) == KZ_OK);
    CHECK(kz_synthesize(engine, TEXT, OPTIONS("2"), &other) == KZ_OK);
    check_fields(&one);
    CHECK(same(&one, &two) && !same(&one, &other) && other.seed == 2);
    FILE *out = fopen(arguments[2], "wb");
    CHECK(out != NULL && fwrite(one.pcm, sizeof *one.pcm, one.samples, out) == one.samples);
    CHECK(fclose(out) == 0);

    static collected all;
    CHECK(kz_stream(engine, TEXT, OPTIONS("18446744073709551615"), collect, &all, &streamed) == KZ_OK);
    check_fields(&streamed);
    CHECK(all.calls > 1 && all.samples == one.samples && memcmp(all.pcm, one.pcm, sizeof all.pcm) == 0);
    CHECK(same(&one, &streamed));
    kz_speech_free(&streamed);

    memset(&all, 0, sizeof all);
    all.stop_after = 2;
    CHECK(kz_stream(engine, TEXT, OPTIONS("18446744073709551615"), collect, &all, &streamed) == KZ_STOPPED);
    CHECK(all.calls == 2 && all.samples < one.samples && streamed.pcm == NULL && streamed.samples == 0);
    CHECK(memcmp(all.pcm, one.pcm, all.samples * sizeof *all.pcm) == 0);

    memset(&all, 0, sizeof all);
    all.engine = engine;
    CHECK(kz_stream(engine, TEXT, OPTIONS("18446744073709551615"), speak_inside, &all, NULL) == KZ_OK);
    CHECK(all.samples == one.samples && memcmp(all.pcm, one.pcm, sizeof all.pcm) == 0);

    /* One frame a chunk: the engine goes away under the stream, which says so. */
    memset(&all, 0, sizeof all);
    all.engine = engine;
    CHECK(kz_stream(engine, TEXT, "{\"chunk_frames\": 1, \"max_frames\": 200}", free_inside, &all, NULL) ==
          KZ_ERROR);
    CHECK_ERROR("EngineClosedError", "closed");
    CHECK(kz_synthesize(engine, TEXT, NULL, &streamed) == KZ_ERROR);
    CHECK_ERROR("EngineClosedError", "not open");

    kz_speech_free(&one);
    kz_speech_free(&one);
    CHECK(one.pcm == NULL);
    kz_speech_free(&two);
    kz_speech_free(&other);
    kz_speech_free(NULL);
    return 0;
}

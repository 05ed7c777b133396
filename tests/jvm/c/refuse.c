/* MODEL EMPTY_FOLDER: everything that cannot be done is an error by name, and harms nothing. */
#include <pthread.h>

#include "check.h"

static const struct {
    const char *options, *kind, *part;
} BAD[] = {
    {"{\"voice\": \"nobody\"}", "VoiceError", "nobody"},
    {"{\"voice\": \"no\\u0000body\"}", "VoiceError", "body"},
    {"{\"voice\": \"\\ud83d\"}", "VoiceError", "ud83d"},
    {"{\"language\": \"klingon\"}", "LanguageError", "klingon"},
    {"{\"max_frames\": 0}", "OptionError", "max_frames is 0"},
    {"{\"max_frames\": \"many\"}", "OptionError", "max_frames is 'many'"},
    {"{\"seed\": -1}", "OptionError", "seed is -1"},
    {"{\"seed\": 18446744073709551616}", "OptionError", "2**64"},
    {"{\"layout\": \"sideways\"}", "OptionError", "sideways"},
    {"{\"sampling\": {\"temperature\": -1}}", "OptionError", "temperature"},
    {"{\"sampling\": {\"temperature\": NaN}}", "OptionError", "temperature"},
    {"{\"sampling\": {\"warmth\": 1}}", "OptionError", "warmth"},
    {"{\"predictor_sampling\": \"usual\"}", "OptionError", "usual"},
    {"{\"speed\": 2}", "OptionError", "unknown option speed; there are: instruct, language"},
    {"{\"seed\": 1", "OptionError", "not JSON"},
    {"[1]", "OptionError", "expected a JSON object"},
    {"\xff", "OptionError", "not JSON"},
};

static int ignore(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    (void)pcm, (void)samples, (void)sample_rate, (void)user;
    return 1;
}

static void *look(void *unused) {
    (void)unused;
    CHECK(kz_last_error()[0] == '\0'); /* the error is of the thread that made it */
    CHECK(kz_free(-1) == KZ_ERROR);
    CHECK_ERROR("EngineClosedError", "engine -1");
    return NULL;
}

int main(int count, char **arguments) {
    kz_speech speech, before, after;
    CHECK(count == 3);
    CHECK(kz_version()[0] >= '0' && kz_version()[0] <= '9');
    CHECK(kz_last_error()[0] == '\0' && kz_last_error_kind()[0] == '\0');

    CHECK(kz_free(0) == KZ_OK);
    CHECK(kz_synthesize(1, "Too early.", NULL, &speech) == KZ_ERROR);
    CHECK_ERROR("EngineClosedError", "kz_load");
    CHECK(kz_stream(1, "Too early.", NULL, ignore, NULL, NULL) == KZ_ERROR);
    CHECK(kz_free(1) == KZ_ERROR);

    CHECK(kz_load("/nowhere/at/all", NULL, NULL) == 0);
    CHECK_ERROR("ModelNotFoundError", "/nowhere/at/all");
    CHECK(kz_load("/nowhere/\xff", NULL, NULL) == 0);
    CHECK_ERROR("ModelNotFoundError", "/nowhere/");
    CHECK(kz_load(arguments[2], NULL, NULL) == 0);
    CHECK_ERROR("ModelNotFoundError", "config.json");
    CHECK(kz_load("", NULL, NULL) == 0);
    CHECK_ERROR("ModelNotFoundError", "the model's name is empty");
    CHECK(kz_load(arguments[1], "{\"quant\": \"q3\"}", NULL) == 0);
    CHECK_ERROR("OptionError", "q3");
    CHECK(kz_load(arguments[1], "{\"threads\": 0}", NULL) == 0);
    CHECK_ERROR("OptionError", "threads");
    CHECK(kz_load(arguments[1], "{\"cache_dir\": 5}", NULL) == 0);
    CHECK_ERROR("OptionError", "cache_dir");
    CHECK(kz_load(arguments[1], "{\"voice\": \"vivian\"}", NULL) == 0);
    CHECK_ERROR("OptionError", "unknown option voice; there are: cache_dir, max_batch, quant, threads, warm_up");

    kz_engine engine = load(arguments[1]), second = load(arguments[1]);
    CHECK(engine != second);
    CHECK(kz_synthesize(engine, "Before.", "{\"seed\": 3, \"max_frames\": 4}", &before) == KZ_OK);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        memset(&speech, 0x5a, sizeof speech);
        CHECK(kz_synthesize(engine, "Hello.", BAD[i].options, &speech) == KZ_ERROR);
        CHECK_ERROR(BAD[i].kind, BAD[i].part);
        CHECK(speech.pcm == NULL && speech.voice == NULL && speech.samples == 0);
        CHECK(kz_stream(engine, "Hello.", BAD[i].options, ignore, NULL, &speech) == KZ_ERROR);
        CHECK(strcmp(kz_last_error_kind(), BAD[i].kind) == 0);
    }
    CHECK(kz_synthesize(engine, "Hello.", "{\"chunk_frames\": 1}", &speech) == KZ_ERROR);
    CHECK_ERROR("OptionError", "unknown option chunk_frames");
    CHECK(kz_stream(engine, "Hello.", "{\"chunk_frames\": 0}", ignore, NULL, NULL) == KZ_ERROR);
    CHECK_ERROR("OptionError", "chunk_frames");
    CHECK(kz_stream(engine, "Hello.", NULL, NULL, NULL, NULL) == KZ_ERROR);
    CHECK_ERROR("OptionError", "on_chunk");
    CHECK(kz_synthesize(engine, "Hello.", NULL, NULL) == KZ_ERROR);
    CHECK_ERROR("OptionError", "speech");
    CHECK(kz_synthesize(engine, " ... ", NULL, &speech) == KZ_ERROR);
    CHECK_ERROR("EmptyTextError", "nothing to say");
    CHECK(kz_synthesize(engine, NULL, NULL, &speech) == KZ_ERROR);
    CHECK_ERROR("TextError", "null");
    CHECK(kz_synthesize(engine, "caf\xe9", NULL, &speech) == KZ_ERROR);
    CHECK_ERROR("TextEncodingError", "offset 3");

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK_ERROR("TextEncodingError", "offset 3");

    /* Nothing above has left a trace, and the second engine lives on without the first. */
    CHECK(kz_free(engine) == KZ_OK);
    CHECK(kz_free(engine) == KZ_ERROR);
    CHECK_ERROR("EngineClosedError", "freed");
    CHECK(kz_synthesize(engine, "Gone.", NULL, &speech) == KZ_ERROR);
    CHECK(kz_stream(engine, "Gone.", NULL, ignore, NULL, NULL) == KZ_ERROR);
    CHECK(kz_synthesize(second, "Before.", "{\"seed\": 3, \"max_frames\": 4}", &after) == KZ_OK);
    CHECK(same(&before, &after));
    CHECK(load(arguments[1]) > second);
    kz_speech_free(&before);
    kz_speech_free(&after);
    return 0; /* with two engines open: the process must end all the same */
}

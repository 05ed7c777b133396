/* Kazeia in C: load a model once, speak many times, stream, free.
 *
 *     kz_engine engine = kz_load("random:tiny", NULL, NULL);
 *     kz_speech speech;
 *     if (kz_synthesize(engine, "Hello.", "{\"seed\": 42}", &speech) == KZ_OK) ...
 *
 * The library runs CPython and the package kazeia inside the calling process. Every function may be
 * called from any thread, also at the same time. Strings are UTF-8. Options are one JSON object whose
 * keys are the names of the Python library's arguments; NULL or "" stands for none. What cannot be
 * done is refused by name: see kz_last_error.
 */
#ifndef KAZEIA_TTS_H
#define KAZEIA_TTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KZ_API __attribute__((visibility("default")))

enum {
    KZ_OK = 0,
    KZ_STOPPED = 1, /* the callback of kz_stream asked to stop */
    KZ_ERROR = -1   /* kz_last_error says what was wrong */
};

/* A loaded model, by number; 0 is none. Numbers are never used again, so that using one after
 * kz_free is an error and never a crash. */
typedef int64_t kz_engine;

/* Where the time went, in seconds of wall clock. */
typedef struct {
    double prefill_s;     /* reading the prompt */
    double talker_s;      /* all talker steps */
    double predictor_s;   /* all frames of the code predictor */
    double decoder_s;     /* codes to samples */
    double first_audio_s; /* from the call to the first samples */
    double total_s;       /* from the call to the last samples */
    double audio_s;       /* seconds of audio */
} kz_timings;

/* A finished utterance. The struct is the caller's, what it points to is the library's until
 * kz_speech_free. */
typedef struct {
    int16_t *pcm;        /* (samples,) */
    size_t samples;      /* frames * 1920 at 24 kHz, and pauses */
    int32_t *codes;      /* (frames, codebooks), row by row */
    size_t frames;       /* of 80 ms */
    size_t codebooks;    /* 16 */
    int32_t sample_rate; /* Hz */
    uint64_t seed;       /* give it again to hear the same */
    char *voice;         /* the voice that spoke */
    char *language;      /* the language that was set, or "auto" */
    char *finish_reason; /* as in Python: "stop": it ended by itself; "limit": at its limit; … */
    kz_timings timings;
} kz_speech;

/* Given each piece of a stream: pcm (samples,), valid during the call only. Returns non-zero to go
 * on, 0 to stop. It is called in the thread that called kz_stream, and may call this library. */
typedef int (*kz_on_chunk)(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user);

/* Load a model; returns 0 when that cannot be done.
 *
 * model: a checkpoint's folder, a bundle's, a hub id or "random:tiny" as for kazeia.load; NULL takes
 * KAZEIA_MODEL, else the voice that comes with Kazeia. options: "quant", "threads", "cache_dir",
 * "max_batch", "warm_up". python: the interpreter of the environment that holds kazeia (its file, or the environment's folder); NULL takes KAZEIA_PYTHON, then the one
 * that built this library. One process has one Python: the first load chooses it. */
KZ_API kz_engine kz_load(const char *model, const char *options, const char *python);

/* Speak a text. options: "voice", "language", "instruct", "seed", "sampling", "predictor_sampling"
 * (an object of Sampling's fields, or "official"), "max_frames", "layout", "segment_chars",
 * "segment_pause" (ms), "markup".
 * speech: filled on KZ_OK, else zeroed. */
KZ_API int kz_synthesize(kz_engine engine, const char *text, const char *options, kz_speech *speech);

/* Speak a text piece by piece, while it is generated. options: those of kz_synthesize and
 * "chunk_frames". speech: filled with the whole on KZ_OK, else zeroed; may be NULL. Returns
 * KZ_STOPPED when on_chunk stopped it. */
KZ_API int kz_stream(kz_engine engine, const char *text, const char *options, kz_on_chunk on_chunk,
                     void *user, kz_speech *speech);

/* Let go of a model. Calls that are running on it end with an error. 0 is left alone; a second time
 * is KZ_ERROR and harmless. */
KZ_API int kz_free(kz_engine engine);

/* Let go of what a speech points to and zero it; may be called twice. */
KZ_API void kz_speech_free(kz_speech *speech);

/* What went wrong in this thread's last call that failed: one message, "" before any. Valid until the
 * thread's next call. */
KZ_API const char *kz_last_error(void);

/* The kind of that error, by the name of its Python class: "VoiceError", "ModelNotFoundError", …;
 * "PythonError" when Python or the package cannot be used. */
KZ_API const char *kz_last_error_kind(void);

/* The version of this library. */
KZ_API const char *kz_version(void);

#ifdef __cplusplus
}
#endif

#endif

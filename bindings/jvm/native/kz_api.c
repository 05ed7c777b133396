/* The C API: each call takes the GIL, asks the bridge, and copies what it answers. */
#include "kz_python.h"

#include <stdlib.h>
#include <string.h>

#include "kz_internal.h"

/* bytes for UTF-8, which the bridge decodes and complains about; str for UTF-16; None. */
static PyObject *to_python(kz_string string) {
    int order = PY_BIG_ENDIAN ? 1 : -1; /* given, so that a leading U+FEFF stays text */
    if (string.data == NULL) Py_RETURN_NONE;
    if (string.encoding == KZ_UTF8)
        return PyBytes_FromStringAndSize(string.data, (Py_ssize_t)string.bytes);
    return PyUnicode_DecodeUTF16(string.data, (Py_ssize_t)string.bytes, "surrogatepass", &order);
}

static kz_string utf8(const char *text) {
    kz_string string = {text, text != NULL ? strlen(text) : 0, KZ_UTF8};
    return string;
}

static void *copy(const void *data, size_t bytes) {
    void *out = malloc(bytes > 0 ? bytes : 1);
    if (out != NULL) memcpy(out, data, bytes);
    return out;
}

/* Copy the bridge's answer. The GIL is held. */
static int fill(PyObject *answer, kz_speech *speech) {
    const char *pcm, *codes, *voice, *language, *reason;
    Py_ssize_t pcm_bytes, codes_bytes, frames, codebooks;
    int rate;
    unsigned long long seed;
    kz_timings *t = &speech->timings;
    if (!PyArg_ParseTuple(answer, "y#iy#nnKsss(ddddddd)", &pcm, &pcm_bytes, &rate, &codes, &codes_bytes,
                          &frames, &codebooks, &seed, &voice, &language, &reason, &t->prefill_s, &t->talker_s,
                          &t->predictor_s, &t->decoder_s, &t->first_audio_s, &t->total_s, &t->audio_s))
        return kz_fail_python();
    speech->pcm = copy(pcm, (size_t)pcm_bytes);
    speech->samples = (size_t)pcm_bytes / sizeof(int16_t);
    speech->codes = copy(codes, (size_t)codes_bytes);
    speech->frames = (size_t)frames;
    speech->codebooks = (size_t)codebooks;
    speech->sample_rate = rate;
    speech->seed = seed;
    speech->voice = copy(voice, strlen(voice) + 1);
    speech->language = copy(language, strlen(language) + 1);
    speech->finish_reason = copy(reason, strlen(reason) + 1);
    if (speech->pcm && speech->codes && speech->voice && speech->language && speech->finish_reason)
        return KZ_OK;
    kz_speech_free(speech);
    return kz_fail("MemoryError", "out of memory for %zd samples", (Py_ssize_t)(pcm_bytes / 2));
}

kz_engine kz_load_string(kz_string model, kz_string options, const char *python) {
    PyGILState_STATE gil;
    long long engine = 0;
    if (kz_python_start(python) != KZ_OK || kz_enter(&gil) != KZ_OK) return 0;
    PyObject *answer =
        PyObject_CallMethod(kz_bridge, "load", "NN", to_python(model), to_python(options));
    if (answer != NULL) engine = PyLong_AsLongLong(answer);
    if (engine > 0) kz_end_first();
    if (PyErr_Occurred()) {
        kz_fail_python();
        engine = 0;
    }
    Py_XDECREF(answer);
    kz_leave(gil);
    return engine;
}

int kz_synthesize_string(kz_engine engine, kz_string text, kz_string options, kz_speech *speech) {
    if (speech == NULL) return kz_fail("OptionError", "speech is NULL; expected a kz_speech to fill");
    memset(speech, 0, sizeof *speech);
    PyGILState_STATE gil;
    if (kz_enter(&gil) != KZ_OK) return KZ_ERROR;
    PyObject *answer = PyObject_CallMethod(kz_bridge, "synthesize", "LNN", (long long)engine,
                                           to_python(text), to_python(options));
    int done = answer != NULL ? fill(answer, speech) : kz_fail_python();
    Py_XDECREF(answer);
    kz_leave(gil);
    return done;
}

/* Hand one piece to the caller, whose code runs without the GIL. Returns 1 to go on, 0, or KZ_ERROR. */
static int give(PyObject *chunk, kz_on_chunk on_chunk, void *user) {
    const char *pcm;
    Py_ssize_t bytes;
    int rate, more;
    if (!PyArg_ParseTuple(chunk, "y#i", &pcm, &bytes, &rate)) return kz_fail_python();
    PyThreadState *thread = kz_step_out(); /* `chunk` is ours: its bytes stay where they are */
    more = on_chunk((const int16_t *)(const void *)pcm, (size_t)bytes / sizeof(int16_t), rate, user) != 0;
    kz_step_in(thread);
    return more;
}

/* Run the bridge's generator to its end, or until the callback has had enough. The GIL is held. */
static int pump(PyObject *chunks, kz_on_chunk on_chunk, void *user, kz_speech *speech) {
    for (;;) {
        PyObject *item = NULL;
        PySendResult sent = PyIter_Send(chunks, Py_None, &item);
        if (sent == PYGEN_ERROR) return kz_fail_python();
        if (sent == PYGEN_RETURN) {
            int done = speech != NULL ? fill(item, speech) : KZ_OK;
            Py_DECREF(item);
            return done;
        }
        int more = give(item, on_chunk, user);
        Py_DECREF(item);
        if (more == 1) continue;
        PyObject *closed = PyObject_CallMethod(chunks, "close", NULL);
        if (closed == NULL) return kz_fail_python();
        Py_DECREF(closed);
        return more == 0 ? KZ_STOPPED : KZ_ERROR;
    }
}

int kz_stream_string(kz_engine engine, kz_string text, kz_string options, kz_on_chunk on_chunk, void *user,
                     kz_speech *speech) {
    if (speech != NULL) memset(speech, 0, sizeof *speech);
    if (on_chunk == NULL) return kz_fail("OptionError", "on_chunk is NULL; expected a function");
    PyGILState_STATE gil;
    if (kz_enter(&gil) != KZ_OK) return KZ_ERROR;
    PyObject *chunks = PyObject_CallMethod(kz_bridge, "stream", "LNN", (long long)engine, to_python(text),
                                           to_python(options));
    int done = chunks != NULL ? pump(chunks, on_chunk, user, speech) : kz_fail_python();
    Py_XDECREF(chunks);
    kz_leave(gil);
    return done;
}

kz_engine kz_load(const char *model, const char *options, const char *python) {
    return kz_load_string(utf8(model), utf8(options), python);
}

int kz_synthesize(kz_engine engine, const char *text, const char *options, kz_speech *speech) {
    return kz_synthesize_string(engine, utf8(text), utf8(options), speech);
}

int kz_stream(kz_engine engine, const char *text, const char *options, kz_on_chunk on_chunk, void *user,
              kz_speech *speech) {
    return kz_stream_string(engine, utf8(text), utf8(options), on_chunk, user, speech);
}

int kz_free(kz_engine engine) {
    if (engine == 0) return KZ_OK;
    PyGILState_STATE gil;
    if (kz_enter(&gil) != KZ_OK) return KZ_ERROR;
    PyObject *answer = PyObject_CallMethod(kz_bridge, "free", "L", (long long)engine);
    int done = answer != NULL ? KZ_OK : kz_fail_python();
    Py_XDECREF(answer);
    kz_leave(gil);
    return done;
}

void kz_speech_free(kz_speech *speech) {
    if (speech == NULL) return;
    free(speech->pcm);
    free(speech->codes);
    free(speech->voice);
    free(speech->language);
    free(speech->finish_reason);
    memset(speech, 0, sizeof *speech);
}

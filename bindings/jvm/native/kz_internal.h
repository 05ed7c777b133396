/* What the parts of the library share; nothing here is exported. */
#ifndef KZ_INTERNAL_H
#define KZ_INTERNAL_H

#include "kazeia_tts.h"

/* A string of the caller's. data NULL: not given. UTF-16 is the JVM's, in the machine's byte order. */
typedef struct {
    const void *data;
    size_t bytes;
    enum { KZ_UTF8, KZ_UTF16 } encoding;
} kz_string;

/* Set this thread's last error. Returns KZ_ERROR, to be returned in turn. */
int kz_fail(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Start Python and the bridge unless they run already; see kz_load for `asked`. KZ_OK or KZ_ERROR.
 * The caller must not hold the GIL, and does not hold it afterwards. */
int kz_python_start(const char *asked);

/* The C API with strings of either encoding. */
kz_engine kz_load_string(kz_string model, kz_string options, const char *python);
int kz_synthesize_string(kz_engine engine, kz_string text, kz_string options, kz_speech *speech);
int kz_stream_string(kz_engine engine, kz_string text, kz_string options, kz_on_chunk on_chunk, void *user,
                     kz_speech *speech);

#endif

/* What the test programs share. A check that fails says where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kazeia_tts.h"

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: %s is false; last error: %s: %s\n", __FILE__, __LINE__, #condition, \
                    kz_last_error_kind(), kz_last_error());                                           \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

#define CHECK_ERROR(kind, part)                              \
    do {                                                     \
        CHECK(strcmp(kz_last_error_kind(), (kind)) == 0);    \
        CHECK(strstr(kz_last_error(), (part)) != NULL);      \
    } while (0)

#define F32 "{\"quant\": \"f32\", \"threads\": 1}"

static inline kz_engine load(const char *model) {
    kz_engine engine = kz_load(model, F32, NULL);
    CHECK(engine > 0);
    return engine;
}

static inline int same(const kz_speech *a, const kz_speech *b) {
    return a->samples == b->samples && memcmp(a->pcm, b->pcm, a->samples * sizeof *a->pcm) == 0 &&
           a->frames == b->frames && a->codebooks == b->codebooks &&
           memcmp(a->codes, b->codes, a->frames * a->codebooks * sizeof *a->codes) == 0;
}

/* Resident memory in bytes. */
static inline long resident(void) {
    long pages = 0, ignored = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &ignored, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

#endif

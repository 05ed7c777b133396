/* The last error of each thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kz_internal.h"

static _Thread_local char last_error[4096];
static _Thread_local char last_kind[64];

/* A message that was cut in the middle of a character must stay UTF-8. */
static void drop_broken_tail(char *text) {
    size_t end = strlen(text);
    size_t start = end;
    while (start > 0 && end - start < 4 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) start--;
    if (start == 0) return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needed = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (end - (start - 1) < needed) text[start - 1] = '\0';
}

int kz_fail(const char *kind, const char *format, ...) {
    va_list arguments;
    snprintf(last_kind, sizeof last_kind, "%s", kind);
    va_start(arguments, format);
    int length = vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof last_error) drop_broken_tail(last_error);
    return KZ_ERROR;
}

const char *kz_last_error(void) { return last_error; }

const char *kz_last_error_kind(void) { return last_kind; }

const char *kz_version(void) { return KZ_VERSION; }

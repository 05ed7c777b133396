/* Which Python to start. */
#ifndef KZ_FIND_H
#define KZ_FIND_H

#include <stddef.h>

/* Find the interpreter's file: `asked`, else KAZEIA_PYTHON, else the one that built this library.
 * Writes its absolute path, links left as they are (a virtual environment is known by them), to
 * `path`. KZ_ERROR when there is none, or it is of another version than this library. */
int kz_find_python(const char *asked, char *path, size_t size);

/* The absolute path of the interpreter that a file or an environment's folder stands for. */
int kz_resolve_python(const char *given, const char *origin, char *path, size_t size);

#endif

/* Finding the Python environment, and refusing one that cannot work before anything is started. */
#include "kz_find.h"

#include <patchlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kz_internal.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define VERSION TEXT(PY_MAJOR_VERSION) "." TEXT(PY_MINOR_VERSION)
#define PATH_SIZE 4096

static int is_file(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static int is_folder(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Join two parts; 0 when they do not fit. */
static int join(char *out, const char *folder, const char *name) {
    int length = snprintf(out, PATH_SIZE, "%s/%s", folder, name);
    return length > 0 && length < PATH_SIZE;
}

static void parent(char *path) {
    char *slash = strrchr(path, '/');
    if (slash == path) path[1] = '\0';
    else if (slash != NULL) *slash = '\0';
}

int kz_resolve_python(const char *given, const char *origin, char *path, size_t size) {
    char absolute[PATH_SIZE], candidate[PATH_SIZE];
    if (given[0] == '/') {
        if (snprintf(absolute, sizeof absolute, "%s", given) >= (int)sizeof absolute) given = "";
    } else {
        char folder[PATH_SIZE];
        if (getcwd(folder, sizeof folder) == NULL || !join(absolute, folder, given)) given = "";
    }
    if (given[0] == '\0') return kz_fail("PythonError", "%s: the path is empty or too long", origin);
    const char *found = NULL;
    if (is_folder(absolute)) {
        static const char *const names[] = {"bin/python3", "bin/python"};
        for (size_t i = 0; i < 2 && found == NULL; i++)
            if (join(candidate, absolute, names[i]) && is_file(candidate)) found = candidate;
        if (found == NULL)
            return kz_fail("PythonError",
                           "%s is the folder %s, which holds no bin/python3; expected a Python environment "
                           "or its interpreter",
                           origin, absolute);
    } else if (is_file(absolute)) {
        found = absolute;
    } else {
        return kz_fail("PythonError",
                       "%s is %s, which is not there; expected a Python interpreter or an environment's "
                       "folder. Name the one that holds kazeia: as an argument, or in KAZEIA_PYTHON",
                       origin, absolute);
    }
    if (access(found, X_OK) != 0)
        return kz_fail("PythonError", "%s is %s, which cannot be executed", origin, found);
    if (snprintf(path, size, "%s", found) >= (int)size)
        return kz_fail("PythonError", "%s: the path is too long", origin);
    return KZ_OK;
}

/* The version that a virtual environment's pyvenv.cfg names, "" if it names none; 0 without a file. */
static int environment_version(const char *interpreter, char *version, size_t size) {
    char folder[PATH_SIZE], path[PATH_SIZE], line[PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", interpreter);
    version[0] = '\0';
    for (int up = 0; up < 2; up++) { /* beside the interpreter, or one folder up */
        parent(folder);
        if (!join(path, folder, "pyvenv.cfg")) continue;
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        while (fgets(line, sizeof line, file) != NULL) {
            char key[32], value[64];
            if (sscanf(line, " %31[a-z_] = %63s", key, value) == 2 &&
                (strcmp(key, "version") == 0 || strcmp(key, "version_info") == 0))
                snprintf(version, size, "%s", value);
        }
        fclose(file);
        return 1;
    }
    return 0;
}

/* Whether the interpreter's own standard library is of this library's version. */
static int has_standard_library(const char *interpreter) {
    char *real = realpath(interpreter, NULL), path[PATH_SIZE];
    if (real == NULL) return 0;
    parent(real);
    parent(real);
    int found = (join(path, real, "lib/python" VERSION "/os.py") && is_file(path)) ||
                (join(path, real, "lib64/python" VERSION "/os.py") && is_file(path));
    free(real);
    return found;
}

int kz_find_python(const char *asked, char *path, size_t size) {
    const char *variable = getenv("KAZEIA_PYTHON");
    const char *origin = "the Python that this library was built with";
    const char *given = KZ_PYTHON;
    if (asked != NULL) {
        origin = "the Python that was asked for", given = asked;
    } else if (variable != NULL && variable[0] != '\0') {
        origin = "KAZEIA_PYTHON", given = variable;
    }
    if (kz_resolve_python(given, origin, path, size) != KZ_OK) return KZ_ERROR;
    char version[64];
    int virtual = environment_version(path, version, sizeof version);
    if (virtual && version[0] != '\0' &&
        (strncmp(version, VERSION, strlen(VERSION)) != 0 ||
         (version[strlen(VERSION)] != '\0' && version[strlen(VERSION)] != '.')))
        return kz_fail("PythonError",
                       "%s is %s, an environment of Python %s; this library was built for Python " VERSION
                       ": build it with that Python, or name an environment of " VERSION,
                       origin, path, version);
    if ((!virtual || version[0] == '\0') && !has_standard_library(path))
        return kz_fail("PythonError",
                       "%s is %s, which has no lib/python" VERSION " beside it; this library was built for "
                       "Python " VERSION ": build it with that Python, or name one of " VERSION,
                       origin, path);
    return KZ_OK;
}

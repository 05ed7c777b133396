/* One Python per process: started by the first load, never ended, for engines may live until the end. */
#include "kz_python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kz_bridge.h" /* bridge.py as bytes, written by the build */
#include "kz_find.h"
#include "kz_internal.h"

PyObject *_Atomic kz_bridge = NULL;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int running = 0;
static char interpreter[4096];
static atomic_int calls; /* under way, those in the caller's own code not counted */
static atomic_int ending;

/* dlopen, and System.loadLibrary with it, hides our symbols and those of libpython from libraries
 * loaded later; the extension modules of numpy and others expect to see them. */
static int show_symbols(void) {
    Dl_info home;
    if (dladdr((void *)(uintptr_t)&Py_IsInitialized, &home) == 0 || home.dli_fname == NULL ||
        dlopen(home.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) == NULL) {
        const char *why = dlerror();
        return kz_fail("PythonError", "libpython's symbols cannot be made visible: %s", why ? why : "not found");
    }
    return KZ_OK;
}

static PyStatus initialise(const char *program) {
    PyPreConfig before;
    PyConfig config;
    PyPreConfig_InitPythonConfig(&before);
    before.parse_argv = 0;
    before.configure_locale = 0; /* the locale is the host program's */
    before.coerce_c_locale = 0;
    before.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status)) return status;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.install_signal_handlers = 0; /* signals, too, are the host's */
    config.configure_c_stdio = 0;
    status = PyConfig_SetBytesString(&config, &config.program_name, program);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(&config, &config.executable, program);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return status;
}

/* The process is a Python program, or another library has started one: it is the one to use. */
static void adopt(void) {
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *path = PySys_GetObject("executable"); /* borrowed */
    const char *text = path != NULL && PyUnicode_Check(path) ? PyUnicode_AsUTF8(path) : NULL;
    snprintf(interpreter, sizeof interpreter, "%s", text != NULL ? text : "of an unknown place");
    PyErr_Clear();
    PyGILState_Release(gil);
    running = 1;
}

static int start(const char *asked) {
    char path[sizeof interpreter];
    if (kz_find_python(asked, path, sizeof path) != KZ_OK || show_symbols() != KZ_OK) return KZ_ERROR;
    PyStatus status = initialise(path);
    if (PyStatus_Exception(status))
        return kz_fail("PythonError", "Python cannot be started for %s: %s", path,
                       status.err_msg != NULL ? status.err_msg : "it asked to exit");
    strcpy(interpreter, path);
    running = 1;
    PyEval_SaveThread(); /* from here on every call takes the GIL for itself */
    return KZ_OK;
}

static PyObject *describe(PyObject *error) {
    if (kz_bridge != NULL) return PyObject_CallMethod(kz_bridge, "describe", "O", error);
    return Py_BuildValue("(sN)", Py_TYPE(error)->tp_name, PyObject_Str(error));
}

/* The error that is set, normalised; cleared. */
static PyObject *take_error(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

int kz_fail_python(void) {
    const char *kind, *message;
    PyObject *error = take_error();
    PyObject *told = error != NULL ? describe(error) : NULL;
    if (told == NULL || !PyArg_ParseTuple(told, "ss", &kind, &message)) {
        PyErr_Clear();
        kz_fail("RuntimeError", "a Python error that cannot be told (out of memory?)");
    } else {
        kz_fail(kind, "%s", message);
    }
    Py_XDECREF(told);
    Py_XDECREF(error);
    return KZ_ERROR;
}

/* The process ends, and ONNX Runtime's globals are about to go: no call may still be computing with
 * them. Engines are closed, so that calls end within a frame; decoding may take longer: wait a while. */
static void end_calls(void) {
    const struct timespec pause = {0, 5000000};
    if (!Py_IsInitialized()) return; /* a Python program that has ended its Python */
    atomic_store(&ending, 1);
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_XDECREF(PyObject_CallMethod(kz_bridge, "close_all", NULL));
    PyErr_Clear();
    PyGILState_Release(gil);
    for (int i = 0; i < 600 && atomic_load(&calls) > 0; i++) nanosleep(&pause, NULL);
}

void kz_end_first(void) {
    static atomic_int registered;
    if (atomic_exchange(&registered, 1) == 0) atexit(end_calls);
}

int kz_enter(PyGILState_STATE *gil) {
    if (kz_bridge == NULL)
        return kz_fail("EngineClosedError", "no engine has been loaded in this process; call kz_load first");
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&ending)) {
        atomic_fetch_sub(&calls, 1);
        return kz_fail("EngineClosedError", "the process is ending");
    }
    *gil = PyGILState_Ensure();
    return KZ_OK;
}

void kz_leave(PyGILState_STATE gil) {
    PyGILState_Release(gil);
    atomic_fetch_sub(&calls, 1);
}

PyThreadState *kz_step_out(void) {
    PyThreadState *thread = PyEval_SaveThread();
    atomic_fetch_sub(&calls, 1);
    return thread;
}

void kz_step_in(PyThreadState *thread) {
    atomic_fetch_add(&calls, 1);
    PyEval_RestoreThread(thread);
}

/* The GIL is held. */
static int load_bridge(void) {
    PyObject *code = Py_CompileString((const char *)KZ_BRIDGE, "<kazeia bridge>", Py_file_input);
    PyObject *module = code != NULL ? PyImport_ExecCodeModule("_kazeia_tts_bridge", code) : NULL;
    Py_XDECREF(code);
    if (module != NULL) {
        kz_bridge = module;
        return KZ_OK;
    }
    kz_fail_python();
    char why[2048], kind[64];
    snprintf(why, sizeof why, "%s", kz_last_error());
    snprintf(kind, sizeof kind, "%s", kz_last_error_kind());
    return kz_fail("PythonError",
                   "the Python %s cannot use the package kazeia (%s: %s); install kazeia there, or name another "
                   "environment: as an argument, or in KAZEIA_PYTHON",
                   interpreter, kind, why);
}

/* Whether `asked` is the Python that runs. */
static int is_running(const char *asked) {
    char path[sizeof interpreter];
    if (kz_resolve_python(asked, "the Python that was asked for", path, sizeof path) != KZ_OK) return KZ_ERROR;
    if (strcmp(path, interpreter) == 0) return KZ_OK;
    return kz_fail("PythonError",
                   "the Python %s was asked for, but this process already runs %s; one process has one Python: "
                   "start another process, or leave the argument out",
                   path, interpreter);
}

int kz_python_start(const char *asked) {
    pthread_mutex_lock(&lock);
    int done = KZ_OK;
    if (!running && Py_IsInitialized()) adopt();
    if (!running) done = start(asked);
    else if (asked != NULL) done = is_running(asked);
    if (done == KZ_OK && kz_bridge == NULL) {
        PyGILState_STATE gil = PyGILState_Ensure();
        done = load_bridge();
        PyGILState_Release(gil);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

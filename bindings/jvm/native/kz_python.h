/* The running Python, for the parts that speak with it. Include before any other header. */
#ifndef KZ_PYTHON_H
#define KZ_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The module made of bridge.py; NULL until kz_python_start has succeeded. */
extern PyObject *_Atomic kz_bridge;

/* Take the GIL for a call; KZ_ERROR, with nothing taken, when no engine was ever loaded or the process
 * is ending. Whoever entered leaves. */
int kz_enter(PyGILState_STATE *gil);
void kz_leave(PyGILState_STATE gil);

/* Have calls end when the process does. What was registered last runs first: called after a model was
 * loaded, this comes before the destructors of ONNX Runtime's globals. */
void kz_end_first(void);

/* Let go of the GIL while the caller's own code runs, and take it back. */
PyThreadState *kz_step_out(void);
void kz_step_in(PyThreadState *thread);

/* Turn the Python error that is set into this thread's last error, and clear it. The GIL is held. */
int kz_fail_python(void);

#endif

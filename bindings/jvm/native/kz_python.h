/* The running Python, for the parts that speak with it. Include before any other header. */
#ifndef KZ_PYTHON_H
#define KZ_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The module made of bridge.py; NULL until kz_python_start has succeeded. */
extern PyObject *kz_bridge;

/* Turn the Python error that is set into this thread's last error, and clear it. The GIL is held. */
int kz_fail_python(void);

#endif

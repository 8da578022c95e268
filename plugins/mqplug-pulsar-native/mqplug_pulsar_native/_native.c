/* The compiled part of mqplug-pulsar: columns in, reports out, over pulsar-client's own library.
 *
 * It links nothing of the library. `load` opens the client's extension module, which has the library as a dependency,
 * and takes the functions from it, so that the process has one copy. Functions are called without Python's lock
 * wherever they may wait, and while bytes are copied.
 *
 * Sections: the library's functions; what both halves share; reading; sending; the module.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* -- The library's functions ------------------------------------------------------------------------------------- */


/* Each: result, name, arguments. The list declares a pointer for each function, and tells `load` what to look up. */
#define LIBRARY_FUNCTIONS(X) \
    X(const char *, pulsar_result_str, (int)) \

#define DECLARE(result, name, arguments) static result (*name) arguments;
LIBRARY_FUNCTIONS(DECLARE)
#undef DECLARE

static void *library;

static PyObject *load(PyObject *module, PyObject *argument)
{
    const char *path = PyUnicode_AsUTF8AndSize(argument, NULL);
    if (path == NULL)
        return NULL;
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL)
        return PyErr_Format(PyExc_ImportError, "%s cannot be opened: %s", path, dlerror());
#define LOOK_UP(result, name, arguments) \
    if (dlsym(opened, #name) == NULL) { \
        dlclose(opened); \
        return PyErr_Format(PyExc_ImportError, "%s lacks the function " #name, path); \
    }
    LIBRARY_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
#define TAKE(result, name, arguments) *(void **)(&name) = dlsym(opened, #name);
    LIBRARY_FUNCTIONS(TAKE)
#undef TAKE
    library = opened; /* never closed: its threads outlive any module */
    Py_RETURN_NONE;
}

/* -- What both halves share -------------------------------------------------------------------------------------- */

/* -- Reading ----------------------------------------------------------------------------------------------------- */

/* -- Sending ----------------------------------------------------------------------------------------------------- */

/* -- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Take the library's functions from the client's extension module at this path."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled part.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}

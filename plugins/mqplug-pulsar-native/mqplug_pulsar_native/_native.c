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

/* A C++ string, as functions that take `const std::string &` read it. Theirs is the layout of libstdc++ since GCC 5:
 * their names say `__cxx11`. Unlike C's strings it may hold NUL.
 */
struct text {
    const char *data;
    size_t size;
    char room[16];
};

/* Opaque: a message that is being built, and the id of one that was sent. */
struct library_message;
struct library_id;
struct library_producer;
typedef void (*send_callback)(int result, struct library_id *id, void *context);

/* Each: result, name, arguments. The list declares a pointer for each function, and tells `load` what to look up. */
#define LIBRARY_FUNCTIONS(X) \
    X(const char *, pulsar_result_str, (int)) \
    X(struct library_message *, pulsar_message_create, (void)) \
    X(void, pulsar_message_free, (struct library_message *)) \
    X(void, pulsar_message_set_content, (struct library_message *, const void *, size_t)) \
    X(void, pulsar_message_set_null_value, (struct library_message *)) \
    X(void, pulsar_message_set_event_timestamp, (struct library_message *, uint64_t)) \
    X(void, pulsar_message_id_free, (struct library_id *)) \
    X(void, pulsar_producer_send_async, (struct library_producer *, struct library_message *, send_callback, void *))

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/* What the C functions lack, as methods of the C++ classes: `this` comes first. A struct of the C functions begins with
 * the object of C++, so that a pointer to one is a pointer to the other. Each: result, name, symbol, arguments.
 */
#define LIBRARY_METHODS(X) \
    X(int64_t, id_ledger, "_ZNK6pulsar9MessageId8ledgerIdEv", (const struct library_id *)) \
    X(int64_t, id_entry, "_ZNK6pulsar9MessageId7entryIdEv", (const struct library_id *)) \
    X(int32_t, id_batch_index, "_ZNK6pulsar9MessageId10batchIndexEv", (const struct library_id *)) \
    X(int32_t, id_batch_size, "_ZNK6pulsar9MessageId9batchSizeEv", (const struct library_id *)) \
    X(void *, message_set_key, "_ZN6pulsar14MessageBuilder15setPartitionKeyERK" STRING, \
      (struct library_message *, const struct text *)) \
    X(void *, message_set_property, "_ZN6pulsar14MessageBuilder11setPropertyERK" STRING "S8_", \
      (struct library_message *, const struct text *, const struct text *))

#define DECLARE(result, name, arguments) static result (*name) arguments;
LIBRARY_FUNCTIONS(DECLARE)
#undef DECLARE
#define DECLARE(result, name, symbol, arguments) static result (*name) arguments;
LIBRARY_METHODS(DECLARE)
#undef DECLARE

static void *library;

static PyObject *load(PyObject *module, PyObject *argument)
{
    (void)module;
    const char *path = PyUnicode_AsUTF8AndSize(argument, NULL);
    if (path == NULL)
        return NULL;
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL)
        return PyErr_Format(PyExc_ImportError, "%s cannot be opened: %s", path, dlerror());
#define LOOK_UP(result, name, symbol, arguments) \
    if (dlsym(opened, symbol) == NULL) { \
        dlclose(opened); \
        return PyErr_Format(PyExc_ImportError, "%s lacks the function %s", path, symbol); \
    }
#define LOOK_UP_FUNCTION(result, name, arguments) LOOK_UP(result, name, #name, arguments)
    LIBRARY_FUNCTIONS(LOOK_UP_FUNCTION)
    LIBRARY_METHODS(LOOK_UP)
#undef LOOK_UP_FUNCTION
#undef LOOK_UP
#define TAKE(result, name, symbol, arguments) *(void **)(&name) = dlsym(opened, symbol);
#define TAKE_FUNCTION(result, name, arguments) TAKE(result, name, #name, arguments)
    LIBRARY_FUNCTIONS(TAKE_FUNCTION)
    LIBRARY_METHODS(TAKE)
#undef TAKE_FUNCTION
#undef TAKE
    library = opened; /* never closed: its threads outlive any module */
    Py_RETURN_NONE;
}

/* -- What both halves share -------------------------------------------------------------------------------------- */

#define PRODUCER_TYPE "_ZTIN6pulsar8ProducerE"
#define MESSAGE_ID_TYPE "_ZTIN6pulsar9MessageIdE"
#define MESSAGE_BUILDER_TYPE "_ZTIN6pulsar14MessageBuilderE"

/* How the client's extension was built. It gives its objects only to callers that were built alike. */
static const char PLATFORM[] = "system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1";

/* Return the C++ object in an object of the client's extension, which stays its owner; NULL with an exception set if it
 * holds none of this type. The extension is asked in the way that pybind11 defines for other extensions.
 */
static void *client_object(PyObject *wrapper, const char *type_symbol)
{
    static const char kind[] = "raw_pointer_ephemeral";
    void *type = dlsym(library, type_symbol);
    if (type == NULL)
        return PyErr_Format(PyExc_TypeError, "the client lacks the type %s", type_symbol);
    PyObject *wanted = PyCapsule_New(type, "St9type_info", NULL);
    if (wanted == NULL)
        return NULL;
    PyObject *found = PyObject_CallMethod(wrapper, "_pybind11_conduit_v1_", "y#Oy#", PLATFORM,
                                          (Py_ssize_t)sizeof PLATFORM - 1, wanted, kind, (Py_ssize_t)sizeof kind - 1);
    Py_DECREF(wanted);
    if (found == NULL)
        return NULL;
    void *object = NULL;
    if (PyCapsule_CheckExact(found))
        object = PyCapsule_GetPointer(found, PyCapsule_GetName(found));
    else
        PyErr_Format(PyExc_TypeError, "not an object of the type %s", type_symbol);
    Py_DECREF(found);
    return object;
}

/* Try the functions on objects of the client: return what the id holds, and give the builder a key and a property. */
static PyObject *try_out(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *id_wrapper, *builder_wrapper;
    struct text key, value;
    Py_ssize_t key_size, value_size;
    if (!PyArg_ParseTuple(arguments, "OOy#y#", &id_wrapper, &builder_wrapper, &key.data, &key_size, &value.data,
                          &value_size))
        return NULL;
    key.size = (size_t)key_size, value.size = (size_t)value_size;
    struct library_id *id = client_object(id_wrapper, MESSAGE_ID_TYPE);
    struct library_message *builder = id == NULL ? NULL : client_object(builder_wrapper, MESSAGE_BUILDER_TYPE);
    if (builder == NULL)
        return NULL;
    message_set_key(builder, &key);
    message_set_property(builder, &key, &value);
    return Py_BuildValue("LLii", (long long)id_ledger(id), (long long)id_entry(id), (int)id_batch_index(id),
                         (int)id_batch_size(id));
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

/* -- Sending ----------------------------------------------------------------------------------------------------- */

/* -- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Take the library's functions from the client's extension module at this path."},
    {"try_out", try_out, METH_VARARGS, "Return the numbers of an id, and give a builder a key, and a property."},
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

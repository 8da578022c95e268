/* Collecting: a submitted record becomes a row of the open run of its partition, in one call.
 *
 * These are the classes of the core in C. No lock is needed: each call holds Python's lock from its last check of the
 * room to the added row, and allocates no object in between.
 */

#define PY_SSIZE_T_CLEAN
#include "_collecting.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

/* How many forks lie between the first process and this one. */
static unsigned forks;

static void count_fork(void)
{
    forks++;
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *allocate(PyTypeObject *type)
{
    allocfunc make = PyType_GetSlot(type, Py_tp_alloc);
    return make(type, 0);
}

/* -- A row, the base of the handles --------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *run;
    unsigned int number;
} Row;

static PyObject *new_row(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *run;
    unsigned int number;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "OI", &run, &number))
        return NULL;
    Row *self = (Row *)allocate(type);
    if (self != NULL) {
        self->run = Py_NewRef(run);
        self->number = number;
    }
    return (PyObject *)self;
}

static int visit_row(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Row *)self)->run);
    return 0;
}

static int clear_row(PyObject *self)
{
    Py_CLEAR(((Row *)self)->run);
    return 0;
}

static void free_row(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_row(self);
    free_object(self);
}

static PyMemberDef row_members[] = {
    {"_run", T_OBJECT_EX, offsetof(Row, run), READONLY, NULL},
    {"_row", T_UINT, offsetof(Row, number), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot row_slots[] = {
    {Py_tp_doc, "A row of a run: Row(run, row)."},
    {Py_tp_new, new_row},
    {Py_tp_dealloc, free_row},
    {Py_tp_traverse, visit_row},
    {Py_tp_clear, clear_row},
    {Py_tp_members, row_members},
    {0, NULL},
};

PyType_Spec row_spec = {
    "mqplug_kafka_native.Row",
    sizeof(Row),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    row_slots,
};

/* -- The rows of an open run ---------------------------------------------------------------------------------------- */

enum { FIRST_ROWS = 64 };

typedef struct {
    PyObject_HEAD
    PyObject *run;
    PyObject **values;
    PyObject **keys; /* NULL while no row has a key; then None for a row without one */
    Py_ssize_t count, room, most, bytes_left;
} Rows;

static PyTypeObject *rows_type;

static PyObject *new_rows(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *run;
    Py_ssize_t most, most_bytes;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "Onn", &run, &most, &most_bytes))
        return NULL;
    Rows *self = (Rows *)allocate(type);
    if (self != NULL) {
        self->run = Py_NewRef(run);
        self->most = most;
        self->bytes_left = most_bytes;
    }
    return (PyObject *)self;
}

static int visit_rows(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Rows *)object)->run); /* the rows themselves are bytes */
    return 0;
}

static int clear_rows(PyObject *object)
{
    Py_CLEAR(((Rows *)object)->run);
    return 0;
}

static void free_rows(PyObject *object)
{
    Rows *self = (Rows *)object;
    PyObject_GC_UnTrack(object);
    for (Py_ssize_t row = 0; row < self->count; row++) {
        Py_DECREF(self->values[row]);
        if (self->keys != NULL)
            Py_DECREF(self->keys[row]);
    }
    PyMem_Free(self->values);
    PyMem_Free(self->keys);
    clear_rows(object);
    free_object(object);
}

/* Have memory for one more row, and for its key if it has one. False: an exception is set. */
static bool grow(Rows *self, bool keyed)
{
    if (self->count == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : FIRST_ROWS;
        PyObject **values = PyMem_Realloc(self->values, (size_t)room * sizeof *values);
        if (values != NULL)
            self->values = values;
        PyObject **keys = self->keys == NULL ? NULL : PyMem_Realloc(self->keys, (size_t)room * sizeof *keys);
        if (keys != NULL)
            self->keys = keys;
        if (values == NULL || (self->keys != NULL && keys == NULL)) {
            PyErr_NoMemory();
            return false;
        }
        self->room = room;
    }
    if (keyed && self->keys == NULL) {
        self->keys = PyMem_Malloc((size_t)self->room * sizeof *self->keys);
        if (self->keys == NULL) {
            PyErr_NoMemory();
            return false;
        }
        for (Py_ssize_t row = 0; row < self->count; row++)
            self->keys[row] = Py_NewRef(Py_None);
    }
    return true;
}

static bool has_room(const Rows *self, Py_ssize_t size)
{
    return self->count < self->most && size <= self->bytes_left;
}

/* Add a row for which there is room. False: an exception is set. */
static bool add_row(Rows *self, PyObject *value, PyObject *key, Py_ssize_t size)
{
    if ((self->count == self->room || (key != Py_None && self->keys == NULL)) && !grow(self, key != Py_None))
        return false;
    if (self->keys != NULL)
        self->keys[self->count] = Py_NewRef(key);
    self->values[self->count++] = Py_NewRef(value);
    self->bytes_left -= size;
    return true;
}

static PyObject *rows_add(PyObject *object, PyObject *arguments)
{
    Rows *self = (Rows *)object;
    PyObject *value, *key;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "OOn", &value, &key, &size) || !add_row(self, value, key, size))
        return NULL;
    return PyLong_FromSsize_t(self->count - 1);
}

static PyObject *rows_has_room(PyObject *self, PyObject *size)
{
    Py_ssize_t wanted = PyLong_AsSsize_t(size);
    return wanted == -1 && PyErr_Occurred() ? NULL : PyBool_FromLong(has_room((Rows *)self, wanted));
}

static PyObject *rows_seal(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((Rows *)self)->most = 0;
    Py_RETURN_NONE;
}

static PyObject *tuple_of(PyObject **objects, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t row = 0; made != NULL && row < count; row++)
        PyTuple_SetItem(made, row, Py_NewRef(objects[row]));
    return made;
}

static PyObject *rows_columns(PyObject *object, PyObject *unused)
{
    const Rows *self = (Rows *)object;
    (void)unused;
    PyObject *values = tuple_of(self->values, self->count);
    PyObject *keys = self->keys == NULL ? Py_NewRef(Py_None) : tuple_of(self->keys, self->count);
    PyObject *both = values == NULL || keys == NULL ? NULL : PyTuple_Pack(2, values, keys);
    Py_XDECREF(values);
    Py_XDECREF(keys);
    return both;
}

static Py_ssize_t rows_length(PyObject *self)
{
    return ((Rows *)self)->count;
}

static PyMemberDef rows_members[] = {
    {"bytes_left", T_PYSSIZET, offsetof(Rows, bytes_left), READONLY, "For how many bytes there is room."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef rows_methods[] = {
    {"add", rows_add, METH_VARARGS, "Add a value, a key and their size, for which there is room. Return the row."},
    {"has_room", rows_has_room, METH_O, "Return whether there is room for a row of this size."},
    {"seal", rows_seal, METH_NOARGS, "Have no room for more."},
    {"columns", rows_columns, METH_NOARGS, "Return the values, and the keys if a row has one."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, "The rows of an open run: Rows(run, most, most_bytes)."},
    {Py_tp_new, new_rows},
    {Py_tp_dealloc, free_rows},
    {Py_tp_traverse, visit_rows},
    {Py_tp_clear, clear_rows},
    {Py_tp_members, rows_members},
    {Py_tp_methods, rows_methods},
    {Py_sq_length, rows_length},
    {0, NULL},
};

PyType_Spec rows_spec = {
    "mqplug_kafka_native.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, rows_slots,
};

/* -- The collector of a producer ------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyTypeObject *handle;
    PyObject *rows;    /* a dict by partition */
    PyObject *keyless; /* an iterator of partitions, or the only partition */
    PyObject *keyed;   /* a function from a key to its partition, or the only partition */
    Py_ssize_t most_bytes;
    unsigned forks;
} Collector;

static PyObject *new_collector(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *handle, *lock;
    Py_ssize_t most_bytes;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "O!nO", &PyType_Type, &handle, &most_bytes, &lock))
        return NULL;
    Collector *self = (Collector *)allocate(type);
    if (self != NULL) {
        self->handle = (PyTypeObject *)Py_NewRef(handle);
        self->most_bytes = most_bytes;
        self->forks = forks;
    }
    return (PyObject *)self;
}

static int visit_collector(PyObject *object, visitproc visit, void *arg)
{
    Collector *self = (Collector *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->handle);
    Py_VISIT(self->rows);
    Py_VISIT(self->keyless);
    Py_VISIT(self->keyed);
    return 0;
}

static int clear_collector(PyObject *object)
{
    Collector *self = (Collector *)object;
    Py_CLEAR(self->handle);
    Py_CLEAR(self->rows);
    Py_CLEAR(self->keyless);
    Py_CLEAR(self->keyed);
    return 0;
}

static void free_collector(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    clear_collector(object);
    free_object(object);
}

static void replace(PyObject **place, PyObject *object)
{
    PyObject *former = *place;
    *place = Py_NewRef(object);
    Py_XDECREF(former); /* may run any Python code */
}

static PyObject *collector_follow(PyObject *object, PyObject *arguments)
{
    Collector *self = (Collector *)object;
    PyObject *rows, *keyless, *keyed;
    if (!PyArg_ParseTuple(arguments, "O!OO", &PyDict_Type, &rows, &keyless, &keyed))
        return NULL;
    replace(&self->rows, rows);
    replace(&self->keyless, keyless);
    replace(&self->keyed, keyed);
    Py_RETURN_NONE;
}

/* Return the partition of the next record without a key. Other threads may run meanwhile, and change the collector. */
static PyObject *next_partition(const Collector *self)
{
    if (PyLong_Check(self->keyless))
        return Py_NewRef(self->keyless);
    PyObject *partitions = Py_NewRef(self->keyless);
    PyObject *partition = PyIter_Next(partitions);
    if (partition == NULL && !PyErr_Occurred())
        PyErr_SetNone(PyExc_StopIteration);
    Py_DECREF(partitions);
    return partition;
}

static PyObject *partition_of_key(const Collector *self, PyObject *key)
{
    PyObject *keyed = Py_NewRef(self->keyed);
    if (PyLong_Check(keyed))
        return keyed;
    PyObject *partition = PyObject_CallFunctionObjArgs(keyed, key, NULL);
    Py_DECREF(keyed);
    return partition;
}

/* Add a record to rows and return its handle; NULL if they have no room, or with an exception set. */
static PyObject *add_with_handle(const Collector *self, Rows *rows, PyObject *value, PyObject *key, Py_ssize_t size)
{
    if (!has_room(rows, size))
        return NULL;
    Row *handle = (Row *)allocate(self->handle); /* may collect garbage, and so let other threads run */
    if (handle != NULL && has_room(rows, size)) {
        handle->run = Py_NewRef(rows->run);
        handle->number = (unsigned)rows->count;
        if (add_row(rows, value, key, size))
            return (PyObject *)handle;
    }
    Py_XDECREF((PyObject *)handle);
    return NULL;
}

/* Add the record to the rows of its partition. Return the handle, or the partition if there is no room. */
static PyObject *collect_in(const Collector *self, PyObject *partition, PyObject *value, PyObject *key, Py_ssize_t size)
{
    PyObject *rows = PyDict_GetItemWithError(self->rows, partition);
    if (rows == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(partition);
    if (Py_TYPE(rows) != rows_type)
        return PyErr_Format(PyExc_TypeError, "the rows of a collector must be Rows");
    Py_INCREF(rows);
    PyObject *taken = add_with_handle(self, (Rows *)rows, value, key, size);
    if (taken == NULL && !PyErr_Occurred())
        taken = Py_NewRef(partition);
    Py_DECREF(rows);
    return taken;
}

static PyObject *collector_collect(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Collector *self = (Collector *)object;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "collect() takes a value and a key");
    PyObject *value = arguments[0], *key = arguments[1];
    if (!PyBytes_CheckExact(value) || (key != Py_None && !PyBytes_CheckExact(key)) || self->forks != forks)
        Py_RETURN_NONE;
    Py_ssize_t size = PyBytes_Size(value) + (key == Py_None ? 0 : PyBytes_Size(key));
    if (size > self->most_bytes || self->rows == NULL)
        Py_RETURN_NONE;
    PyObject *partition = key == Py_None ? next_partition(self) : partition_of_key(self, key);
    if (partition == NULL)
        return NULL;
    PyObject *taken = collect_in(self, partition, value, key, size);
    Py_DECREF(partition);
    return taken;
}

static PyMethodDef collector_methods[] = {
    {"follow", collector_follow, METH_VARARGS,
     "Collect into these rows by partition, with these partitions of records without a key and with one."},
    {"collect", (PyCFunction)(void (*)(void))collector_collect, METH_FASTCALL,
     "Collect a value with a key or None. Return its handle, or the partition if its rows have no room. Return None if"
     " this is not a record to collect."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot collector_slots[] = {
    {Py_tp_doc, "Adds submitted records to the open runs of a topic: Collector(handle, most_bytes, lock)."},
    {Py_tp_new, new_collector},
    {Py_tp_dealloc, free_collector},
    {Py_tp_traverse, visit_collector},
    {Py_tp_clear, clear_collector},
    {Py_tp_methods, collector_methods},
    {0, NULL},
};

PyType_Spec collector_spec = {
    "mqplug_kafka_native.Collector",
    sizeof(Collector),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    collector_slots,
};

int prepare_collecting(PyTypeObject *rows)
{
    static bool counts;
    rows_type = rows;
    if (!counts && pthread_atfork(NULL, NULL, count_fork) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    counts = true;
    return 0;
}

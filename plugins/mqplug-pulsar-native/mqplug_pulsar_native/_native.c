/* The compiled part of mqplug-pulsar: columns in, reports out, over pulsar-client's own library.
 *
 * It does not link the library. `load` opens the client's extension module, which has the library as a dependency, and
 * takes the functions from it, so that the process has one copy. Functions are called without Python's lock wherever
 * they may wait, and while bytes are copied.
 *
 * It opens no connection of its own: it works on the client's Python objects, and uses the C++ object inside each. So
 * the client handles credentials, reconnects, closing and forks, and either path can serve a reader.
 *
 * Sections: the library's functions; shared parts; reading; sending; the module.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* -- The library's functions ------------------------------------------------------------------------------------- */

/* A C++ string, as functions with a `const std::string &` parameter read it. It has the layout of libstdc++ since
 * GCC 5, as `__cxx11` in their names says. Unlike C's strings it may hold NUL.
 */
struct text {
    const char *data;
    size_t size;
    char room[16];
};

/* A C++ map of strings, sorted by name, and its nodes, through which the C++ library steps. */
struct tree_node {
    int color;
    struct tree_node *parent, *left, *right;
};

struct text_map {
    void *compare;
    struct tree_node end; /* its `left` is the first node */
    size_t size;
};

struct text_map_entry {
    struct tree_node node;
    struct text name, value;
};

/* Opaque: a message that is being built, and the id of a sent message. */
struct library_message;
struct library_id;
struct library_producer;
struct received; /* a received message */
typedef void (*send_callback)(int result, struct library_id *id, void *context);
typedef void (*flush_callback)(int result, void *context);

/* Each: result, name, arguments. The list declares a pointer for each function, and names it for `load`. */
#define LIBRARY_FUNCTIONS(X) \
    X(const char *, pulsar_result_str, (int)) \
    X(struct library_message *, pulsar_message_create, (void)) \
    X(void, pulsar_message_free, (struct library_message *)) \
    X(void, pulsar_message_set_content, (struct library_message *, const void *, size_t)) \
    X(void, pulsar_message_set_null_value, (struct library_message *)) \
    X(void, pulsar_message_set_event_timestamp, (struct library_message *, uint64_t)) \
    X(void, pulsar_message_id_free, (struct library_id *)) \
    X(char *, pulsar_message_id_serialize, (const struct library_id *, int *length)) \
    X(void, pulsar_producer_send_async, (struct library_producer *, struct library_message *, send_callback, void *)) \
    X(void, pulsar_producer_flush_async, (struct library_producer *, flush_callback, void *))

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/* Methods of the C++ classes that have no C function: `this` comes first. A struct of the C functions begins with the
 * C++ object, so that a pointer to one is a pointer to the other. Each: result, name, symbol, arguments.
 */
#define LIBRARY_METHODS(X) \
    X(int64_t, id_ledger, "_ZNK6pulsar9MessageId8ledgerIdEv", (const struct library_id *)) \
    X(int64_t, id_entry, "_ZNK6pulsar9MessageId7entryIdEv", (const struct library_id *)) \
    X(int32_t, id_batch_index, "_ZNK6pulsar9MessageId10batchIndexEv", (const struct library_id *)) \
    X(int32_t, id_batch_size, "_ZNK6pulsar9MessageId9batchSizeEv", (const struct library_id *)) \
    X(void *, message_set_key, "_ZN6pulsar14MessageBuilder15setPartitionKeyERK" STRING, \
      (struct library_message *, const struct text *)) \
    X(void *, message_set_property, "_ZN6pulsar14MessageBuilder11setPropertyERK" STRING "S8_", \
      (struct library_message *, const struct text *, const struct text *)) \
    X(int, reader_read_next, "_ZN6pulsar6Reader8readNextERNS_7MessageEi", (void *reader, struct received *, int ms)) \
    X(int, consumer_receive, "_ZN6pulsar8Consumer7receiveERNS_7MessageEi", (void *consumer, struct received *, int ms)) \
    X(const void *, message_data, "_ZNK6pulsar7Message7getDataEv", (const struct received *)) \
    X(size_t, message_length, "_ZNK6pulsar7Message9getLengthEv", (const struct received *)) \
    X(bool, message_has_null, "_ZNK6pulsar7Message12hasNullValueEv", (const struct received *)) \
    X(const struct text *, message_key, "_ZNK6pulsar7Message15getPartitionKeyB5cxx11Ev", (const struct received *)) \
    X(const struct text_map *, message_properties, "_ZNK6pulsar7Message13getPropertiesB5cxx11Ev", (const struct received *)) \
    X(uint64_t, message_published, "_ZNK6pulsar7Message19getPublishTimestampEv", (const struct received *)) \
    X(uint64_t, message_event_time, "_ZNK6pulsar7Message17getEventTimestampEv", (const struct received *)) \
    X(int, message_redeliveries, "_ZNK6pulsar7Message18getRedeliveryCountEv", (const struct received *)) \
    X(int64_t, message_schema_version, "_ZNK6pulsar7Message20getLongSchemaVersionEv", (const struct received *)) \
    X(const struct library_id *, message_id, "_ZNK6pulsar7Message12getMessageIdEv", (const struct received *)) \
    X(const struct tree_node *, next_node, "_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base", (const struct tree_node *))

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

/* -- Shared parts ------------------------------------------------------------------------------------------------ */

#define PRODUCER_TYPE "_ZTIN6pulsar8ProducerE"
#define MESSAGE_ID_TYPE "_ZTIN6pulsar9MessageIdE"
#define MESSAGE_BUILDER_TYPE "_ZTIN6pulsar14MessageBuilderE"
#define READER_TYPE "_ZTIN6pulsar6ReaderE"
#define CONSUMER_TYPE "_ZTIN6pulsar8ConsumerE"
#define MESSAGE_TYPE "_ZTIN6pulsar7MessageE"

/* How the client's extension was built. It gives its objects only to callers that were built the same way. */
static const char PLATFORM[] = "system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1";

/* Return the C++ object in an object of the client's extension, which remains its owner; NULL with an exception set if
 * it holds none of this type. This uses pybind11's interface for other extensions.
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

/* Try the functions on objects of the client: return the id's numbers, and give the builder a key and a property. */
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

/* A growing block of memory. All lengths are in bytes. */
typedef struct {
    char *bytes;
    int64_t length, room;
} memory;

/* Return where to write `more` bytes, which count as written from now on; NULL without memory. */
static char *extend(memory *into, int64_t more)
{
    if (more > INT64_MAX / 2 - into->length)
        return NULL;
    int64_t needed = into->length + more;
    if (needed > into->room || into->bytes == NULL) {
        int64_t room = needed + needed / 2 + 64;
        char *moved = realloc(into->bytes, (size_t)room);
        if (moved == NULL)
            return NULL;
        into->bytes = moved;
        into->room = room;
    }
    char *place = into->bytes + into->length;
    into->length = needed;
    return place;
}

static bool put(memory *into, const void *bytes, int64_t length)
{
    char *place = extend(into, length);
    if (place == NULL)
        return false;
    if (length > 0)
        memcpy(place, bytes, (size_t)length);
    return true;
}

static PyTypeObject *make_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type != NULL && PyModule_AddType(module, (PyTypeObject *)type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type; /* the reference is kept forever */
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

/* The columns of received messages. Offsets have one more element than rows; headers are rows of their own, and
 * `header_offsets` has the first one of each message. */
#define NUMBER_COLUMNS(X) \
    X(ledger, int64_t) X(entry, int64_t) X(batch_index, int32_t) X(batch_size, int32_t) \
    X(chunk_ledger, int64_t) X(chunk_entry, int64_t) X(published, int64_t) X(timestamp, int64_t) \
    X(attempt, int32_t) X(schema_version, int64_t) X(flags, uint8_t)
#define TEXT_COLUMNS(X) \
    X(value) X(value_offsets) X(key) X(key_offsets) X(header_offsets) \
    X(name) X(name_offsets) X(header_value) X(header_value_offsets)

enum {
    NULL_VALUE = 1,
    NO_KEY = 2,
    ODD_KEY = 4,     /* may be escaped, or is not ASCII */
    ODD_HEADERS = 8, /* the same, or come with a schema's version */
    CHUNKED = 16,    /* found at its last chunk; chunk_ledger and chunk_entry name the first */
    HUGE_TIME = 32,  /* 2^63 or more, which Arrow does not have */
};

static const char SENDERS_PREFIX[] = "mqplug.";  /* of the properties that mqplug adds */
static const char EPOCH_NAME[] = "mqplug.epoch"; /* marks a timestamp of 0 */
static const char KEY_ESCAPE = 'm';              /* the first character of an escaped key */
static const int64_t LARGEST_BATCH = 64 << 20;   /* a batch ends at this size, so that all its offsets fit */
enum { NO_MEMORY = -1000, TOO_LARGE = -1001 };   /* in addition to the library's results */

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    unsigned char any; /* the flags of all rows together */
#define FIELD(name, ...) memory name;
    NUMBER_COLUMNS(FIELD)
    TEXT_COLUMNS(FIELD)
#undef FIELD
} Rows;

static PyTypeObject *rows_type, *buffer_type;

static int32_t int32_at(const memory *column, Py_ssize_t row)
{
    return ((const int32_t *)column->bytes)[row];
}

static int64_t int64_at(const memory *column, Py_ssize_t row)
{
    return ((const int64_t *)column->bytes)[row];
}

static unsigned char flags_at(const Rows *rows, Py_ssize_t row)
{
    return (unsigned char)rows->flags.bytes[row];
}

/* Append the current end of `of` to its offsets. */
static bool put_offset(memory *offsets, const memory *of)
{
    int32_t end = (int32_t)of->length;
    return of->length <= INT32_MAX && put(offsets, &end, sizeof end);
}

static bool put_header_end(Rows *rows)
{
    int32_t headers = (int32_t)(rows->name_offsets.length / (int64_t)sizeof(int32_t)) - 1;
    return put(&rows->header_offsets, &headers, sizeof headers);
}

static Rows *new_rows(void)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(rows_type, Py_tp_alloc);
    Rows *rows = (Rows *)allocate(rows_type, 0); /* zeroed */
    if (rows == NULL)
        return NULL;
    if (put_offset(&rows->value_offsets, &rows->value) && put_offset(&rows->key_offsets, &rows->key) &&
        put_offset(&rows->name_offsets, &rows->name) &&
        put_offset(&rows->header_value_offsets, &rows->header_value) && put_header_end(rows))
        return rows;
    Py_DECREF(rows);
    return (Rows *)PyErr_NoMemory();
}

static void rows_free(PyObject *self)
{
    Rows *rows = (Rows *)self;
    PyTypeObject *type = Py_TYPE(self);
#define FREE(name, ...) free(rows->name.bytes);
    NUMBER_COLUMNS(FREE)
    TEXT_COLUMNS(FREE)
#undef FREE
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static bool is_ascii(const char *text, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if ((unsigned char)text[at] >= 0x80)
            return false;
    return true;
}

static bool put_key(Rows *rows, const struct text *key, unsigned char *flags)
{
    if (key->size == 0)
        *flags |= NO_KEY;
    else if (key->data[0] == KEY_ESCAPE || !is_ascii(key->data, key->size))
        *flags |= ODD_KEY;
    return put(&rows->key, key->data, (int64_t)key->size) && put_offset(&rows->key_offsets, &rows->key);
}

static bool is_named(const struct text *name, const char *wanted, size_t length)
{
    return name->size == length && memcmp(name->data, wanted, length) == 0;
}

/* Copy a message's properties, which are sorted by name. Set `epoch` if they mark a timestamp of 0. */
static bool put_headers(Rows *rows, const struct text_map *properties, unsigned char *flags, bool *epoch)
{
    const size_t prefix = sizeof SENDERS_PREFIX - 1;
    for (const struct tree_node *at = properties->end.left; at != &properties->end; at = next_node(at)) {
        const struct text *name = &((const struct text_map_entry *)at)->name, *value = &((const struct text_map_entry *)at)->value;
        if ((name->size >= prefix && memcmp(name->data, SENDERS_PREFIX, prefix) == 0) ||
            !is_ascii(name->data, name->size) || !is_ascii(value->data, value->size))
            *flags |= ODD_HEADERS;
        *epoch |= is_named(name, EPOCH_NAME, sizeof EPOCH_NAME - 1);
        if (!put(&rows->name, name->data, (int64_t)name->size) || !put_offset(&rows->name_offsets, &rows->name) ||
            !put(&rows->header_value, value->data, (int64_t)value->size) ||
            !put_offset(&rows->header_value_offsets, &rows->header_value))
            return false;
    }
    return put_header_end(rows);
}

/* Read a number of a serialized id, and move past it. */
static uint64_t varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t number = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            break;
    }
    return number;
}

/* Find the first chunk's ledger and entry in a serialized id (field 7, an id with the fields 1 and 2). */
static bool find_first_chunk(const unsigned char *at, const unsigned char *end, int64_t *ledger, int64_t *entry)
{
    bool found = false;
    while (at < end) {
        uint64_t tag = varint(&at, end), number = varint(&at, end);
        if (tag == (7 << 3 | 2)) { /* continue inside it */
            found = true;
            if (number < (uint64_t)(end - at))
                end = at + number;
        } else if ((tag & 7) == 2)
            at = number < (uint64_t)(end - at) ? at + number : end;
        else if (found && tag == 1 << 3)
            *ledger = (int64_t)number;
        else if (found && tag == 2 << 3)
            *entry = (int64_t)number;
    }
    return found;
}

static bool put_id(Rows *rows, const struct library_id *id, unsigned char *flags)
{
    int64_t ledger = id_ledger(id), entry = id_entry(id), chunk_ledger = 0, chunk_entry = 0;
    int32_t index = id_batch_index(id), size = index < 0 ? 0 : id_batch_size(id);
    if (index < 0) {
        int length = 0;
        char *text = pulsar_message_id_serialize(id, &length);
        if (text == NULL)
            return false;
        const unsigned char *begin = (const unsigned char *)text;
        if (find_first_chunk(begin, begin + length, &chunk_ledger, &chunk_entry))
            *flags |= CHUNKED;
        free(text);
    }
    return put(&rows->ledger, &ledger, sizeof ledger) && put(&rows->entry, &entry, sizeof entry) &&
           put(&rows->batch_index, &index, sizeof index) && put(&rows->batch_size, &size, sizeof size) &&
           put(&rows->chunk_ledger, &chunk_ledger, sizeof chunk_ledger) &&
           put(&rows->chunk_entry, &chunk_entry, sizeof chunk_entry);
}

static bool put_value(Rows *rows, const struct received *message, unsigned char *flags)
{
    int64_t length = (int64_t)message_length(message);
    if (length == 0 && message_has_null(message))
        *flags |= NULL_VALUE;
    return put(&rows->value, length > 0 ? message_data(message) : NULL, length) &&
           put_offset(&rows->value_offsets, &rows->value);
}

/* Return the total bytes of the columns that have offsets. */
static int64_t text_bytes(const Rows *rows)
{
    return rows->value.length + rows->key.length + rows->name.length + rows->header_value.length;
}

/* Copy a message into a new row. Return 0, or NO_MEMORY or TOO_LARGE, after which the rows are unusable. */
static int add_row(Rows *rows, const struct received *message)
{
    if (message_length(message) > (size_t)(INT32_MAX - rows->value.length))
        return TOO_LARGE;
    unsigned char flags = 0;
    bool epoch = false;
    int64_t published = (int64_t)message_published(message), event_time = (int64_t)message_event_time(message);
    int64_t schema_version = message_schema_version(message);
    int32_t attempt = message_redeliveries(message) + 1;
    if (schema_version >= 0)
        flags |= ODD_HEADERS;
    if (!put_id(rows, message_id(message), &flags) || !put_value(rows, message, &flags) ||
        !put_key(rows, message_key(message), &flags) ||
        !put_headers(rows, message_properties(message), &flags, &epoch))
        return NO_MEMORY;
    int64_t timestamp = event_time != 0 || epoch ? event_time : published;
    if (timestamp < 0 || published < 0)
        flags |= HUGE_TIME;
    if (!put(&rows->published, &published, sizeof published) ||
        !put(&rows->timestamp, &timestamp, sizeof timestamp) || !put(&rows->attempt, &attempt, sizeof attempt) ||
        !put(&rows->schema_version, &schema_version, sizeof schema_version) || !put(&rows->flags, &flags, 1))
        return NO_MEMORY;
    rows->any |= flags;
    rows->count++;
    return 0;
}

static PyObject *refuse_row(int result)
{
    if (result == NO_MEMORY)
        return PyErr_NoMemory();
    PyErr_SetString(PyExc_OverflowError, "a message is too large for a column of Arrow");
    return NULL;
}

/* pybind11's layout of an instance with one C++ object. */
struct wrapper {
    PyObject base;
    struct received *object;
};

/* Return the C++ object of a message. The extension returns the first one; if that is at the expected place in the
 * instance, so are the others of its type. */
static struct received *message_in(PyObject *wrapper, PyTypeObject **known)
{
    struct received *message = Py_TYPE(wrapper) == *known ? ((struct wrapper *)wrapper)->object : NULL;
    if (message != NULL)
        return message;
    message = client_object(wrapper, MESSAGE_TYPE);
    if (message != NULL && message == ((struct wrapper *)wrapper)->object)
        *known = Py_TYPE(wrapper);
    return message;
}

static int collect_message(Rows *rows, PyObject *wrapper, PyTypeObject **known)
{
    const struct received *message = message_in(wrapper, known);
    if (message == NULL)
        return -1;
    int result = add_row(rows, message);
    if (result != 0)
        refuse_row(result);
    return result;
}

/* collect(messages): the columns of a list of the client's messages. */
static PyObject *collect(PyObject *module, PyObject *messages)
{
    (void)module;
    if (!PyList_Check(messages)) {
        PyErr_SetString(PyExc_TypeError, "messages must be a list");
        return NULL;
    }
    PyTypeObject *known = NULL;
    Py_ssize_t count = PyList_Size(messages);
    Rows *rows = new_rows();
    for (Py_ssize_t row = 0; rows != NULL && row < count; row++)
        if (collect_message(rows, PyList_GetItem(messages, row), &known) != 0)
            Py_CLEAR(rows);
    return (PyObject *)rows;
}

typedef int (*receive_function)(void *source, struct received *slot, int ms);

static int drain(Rows *rows, receive_function receive, void *source, struct received *slot, Py_ssize_t most)
{
    int result = 0;
    while (result == 0 && rows->count < most && text_bytes(rows) < LARGEST_BATCH)
        if ((result = receive(source, slot, 0)) == 0)
            result = add_row(rows, slot);
    return result;
}

/* take(reader, arrived, slot, most): the columns of the arrived messages, and of those that the reader or consumer has
 * now, up to `most`; with the library's result, which is 0 if there may be more. */
static PyObject *take(PyObject *module, PyObject *arguments)
{
    PyObject *wrapper, *arrived, *slot_wrapper;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(arguments, "OO!On:take", &wrapper, &PyList_Type, &arrived, &slot_wrapper, &most))
        return NULL;
    receive_function receive = reader_read_next;
    void *source = client_object(wrapper, READER_TYPE);
    if (source == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        receive = consumer_receive;
        source = client_object(wrapper, CONSUMER_TYPE);
    }
    struct received *slot = source == NULL ? NULL : client_object(slot_wrapper, MESSAGE_TYPE);
    Rows *rows = slot == NULL ? NULL : (Rows *)collect(module, arrived);
    if (rows == NULL)
        return NULL;
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = drain(rows, receive, source, slot, most);
    Py_END_ALLOW_THREADS
    if (result == NO_MEMORY || result == TOO_LARGE) {
        Py_DECREF(rows);
        return refuse_row(result);
    }
    return Py_BuildValue("(Ni)", rows, result);
}

/* The rows as Python objects. Each function makes one column. */

typedef PyObject *(*make_item)(const Rows *rows, Py_ssize_t row);

static PyObject *list_of(const Rows *rows, make_item make)
{
    PyObject *list = PyList_New(rows->count);
    for (Py_ssize_t row = 0; list != NULL && row < rows->count; row++) {
        PyObject *item = make(rows, row);
        if (item == NULL || PyList_SetItem(list, row, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *bytes_at(const memory *column, const memory *offsets, Py_ssize_t row)
{
    int32_t begin = int32_at(offsets, row), end = int32_at(offsets, row + 1);
    return PyBytes_FromStringAndSize(column->bytes == NULL ? "" : column->bytes + begin, end - begin);
}

static PyObject *text_at(const memory *column, const memory *offsets, Py_ssize_t row)
{
    int32_t begin = int32_at(offsets, row), end = int32_at(offsets, row + 1);
    return PyUnicode_DecodeUTF8(column->bytes == NULL ? "" : column->bytes + begin, end - begin, NULL);
}

static PyObject *value_of(const Rows *rows, Py_ssize_t row)
{
    if (flags_at(rows, row) & NULL_VALUE)
        Py_RETURN_NONE;
    return bytes_at(&rows->value, &rows->value_offsets, row);
}

static PyObject *key_of(const Rows *rows, Py_ssize_t row)
{
    unsigned char flags = flags_at(rows, row);
    if (flags & NO_KEY)
        Py_RETURN_NONE;
    if (flags & ODD_KEY)
        return text_at(&rows->key, &rows->key_offsets, row);
    return bytes_at(&rows->key, &rows->key_offsets, row);
}

static PyObject *properties_of(const Rows *rows, int32_t header, int32_t end)
{
    PyObject *properties = PyDict_New();
    for (; properties != NULL && header < end; header++) {
        PyObject *name = text_at(&rows->name, &rows->name_offsets, header);
        PyObject *value = text_at(&rows->header_value, &rows->header_value_offsets, header);
        if (name == NULL || value == NULL || PyDict_SetItem(properties, name, value) < 0)
            Py_CLEAR(properties);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return properties;
}

static PyObject *headers_of(const Rows *rows, Py_ssize_t row)
{
    int32_t first = int32_at(&rows->header_offsets, row), end = int32_at(&rows->header_offsets, row + 1);
    if (flags_at(rows, row) & ODD_HEADERS)
        return properties_of(rows, first, end);
    PyObject *headers = PyTuple_New(end - first);
    for (int32_t header = first; headers != NULL && header < end; header++) {
        PyObject *name = text_at(&rows->name, &rows->name_offsets, header);
        PyObject *value = bytes_at(&rows->header_value, &rows->header_value_offsets, header);
        PyObject *pair = name == NULL || value == NULL ? NULL : PyTuple_Pack(2, name, value);
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (pair == NULL || PyTuple_SetItem(headers, header - first, pair) < 0)
            Py_CLEAR(headers);
    }
    return headers;
}

static PyObject *coordinates_of(const Rows *rows, Py_ssize_t row)
{
    long long ledger = int64_at(&rows->ledger, row), entry = int64_at(&rows->entry, row);
    int index = int32_at(&rows->batch_index, row);
    if (flags_at(rows, row) & CHUNKED)
        return Py_BuildValue("(LLiLL)", ledger, entry, index, (long long)int64_at(&rows->chunk_ledger, row),
                             (long long)int64_at(&rows->chunk_entry, row));
    return Py_BuildValue("(LLi)", ledger, entry, index);
}

/* The same for a message that follows another one of its batch: it shares ledger and entry with the last tuple. */
static PyObject *coordinates_behind(PyObject *last, const Rows *rows, Py_ssize_t row)
{
    PyObject *ledger = PyTuple_GetItem(last, 0), *entry = PyTuple_GetItem(last, 1);
    PyObject *index = PyLong_FromLong(int32_at(&rows->batch_index, row));
    PyObject *place = ledger == NULL || entry == NULL || index == NULL ? NULL : PyTuple_Pack(3, ledger, entry, index);
    Py_XDECREF(index);
    return place;
}

static PyObject *detail_of(const Rows *rows, Py_ssize_t row)
{
    int size = int32_at(&rows->batch_size, row);
    return size == 0 ? PyTuple_New(0) : Py_BuildValue("(i)", size);
}

static bool is_of_last_batch(const Rows *rows, Py_ssize_t row)
{
    return row > 0 && int32_at(&rows->batch_size, row) > 0 &&
           int32_at(&rows->batch_size, row) == int32_at(&rows->batch_size, row - 1) &&
           int64_at(&rows->ledger, row) == int64_at(&rows->ledger, row - 1) &&
           int64_at(&rows->entry, row) == int64_at(&rows->entry, row - 1);
}

static PyObject *rows_values(PyObject *self, PyObject *none)
{
    (void)none;
    return list_of((Rows *)self, value_of);
}

static PyObject *rows_keys(PyObject *self, PyObject *none)
{
    (void)none;
    return list_of((Rows *)self, key_of);
}

static PyObject *rows_headers(PyObject *self, PyObject *none)
{
    (void)none;
    return list_of((Rows *)self, headers_of);
}

static PyObject *rows_coordinates(PyObject *self, PyObject *none)
{
    (void)none;
    const Rows *rows = (const Rows *)self;
    PyObject *list = PyList_New(rows->count), *last = NULL; /* borrowed from the list */
    for (Py_ssize_t row = 0; list != NULL && row < rows->count; row++) {
        last = is_of_last_batch(rows, row) ? coordinates_behind(last, rows, row) : coordinates_of(rows, row);
        if (last == NULL || PyList_SetItem(list, row, last) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *rows_details(PyObject *self, PyObject *none)
{
    (void)none;
    const Rows *rows = (const Rows *)self;
    PyObject *list = PyList_New(rows->count), *last = NULL; /* borrowed from the list */
    for (Py_ssize_t row = 0; list != NULL && row < rows->count; row++) {
        if (is_of_last_batch(rows, row))
            Py_INCREF(last); /* a batch has one detail */
        else
            last = detail_of(rows, row);
        if (last == NULL || PyList_SetItem(list, row, last) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Return the end row of a run: consecutive messages of one batch, or a message without a batch. */
static Py_ssize_t run_end(const Rows *rows, Py_ssize_t row)
{
    int64_t ledger = int64_at(&rows->ledger, row), entry = int64_at(&rows->entry, row);
    int32_t index = int32_at(&rows->batch_index, row), size = int32_at(&rows->batch_size, row);
    Py_ssize_t end = row + 1;
    while (size > 0 && end < rows->count && index + (end - row) < size && int64_at(&rows->ledger, end) == ledger &&
           int64_at(&rows->entry, end) == entry && int32_at(&rows->batch_index, end) == index + (end - row))
        end++;
    return end;
}

static PyObject *rows_runs(PyObject *self, PyObject *none)
{
    (void)none;
    const Rows *rows = (const Rows *)self;
    PyObject *runs = PyList_New(0);
    Py_ssize_t row = 0;
    while (runs != NULL && row < rows->count) {
        Py_ssize_t end = run_end(rows, row);
        PyObject *first = coordinates_of(rows, row), *detail = detail_of(rows, row);
        PyObject *run = first == NULL || detail == NULL ? NULL : Py_BuildValue("(OOn)", first, detail, end - row);
        if (run == NULL || PyList_Append(runs, run) < 0)
            Py_CLEAR(runs);
        Py_XDECREF(first);
        Py_XDECREF(detail);
        Py_XDECREF(run);
        row = end;
    }
    return runs;
}

/* A bitmap of the rows without a flag, in the form of Arrow's valid values; None if no row has it. */
static PyObject *rows_without(PyObject *self, PyObject *flag)
{
    const Rows *rows = (const Rows *)self;
    long wanted = PyLong_AsLong(flag);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    if (!(rows->any & wanted))
        Py_RETURN_NONE;
    PyObject *bitmap = PyBytes_FromStringAndSize(NULL, (rows->count + 7) / 8);
    char *bits = bitmap == NULL ? NULL : PyBytes_AsString(bitmap);
    if (bits == NULL)
        return NULL;
    memset(bits, 0, (size_t)(rows->count + 7) / 8);
    for (Py_ssize_t row = 0; row < rows->count; row++)
        if (!(flags_at(rows, row) & wanted))
            bits[row / 8] |= (char)(1 << row % 8);
    return bitmap;
}

/* The memory of a column. It keeps the rows, which no longer change. */
typedef struct {
    PyObject_HEAD
    PyObject *rows;
    memory *column;
} Buffer;

static PyObject *new_buffer(PyObject *rows, memory *column)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(buffer_type, Py_tp_alloc);
    Buffer *buffer = (Buffer *)allocate(buffer_type, 0);
    if (buffer != NULL) {
        Py_INCREF(rows);
        buffer->rows = rows;
        buffer->column = column;
    }
    return (PyObject *)buffer;
}

static void buffer_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Buffer *)self)->rows);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int buffer_get(PyObject *self, Py_buffer *view, int flags)
{
    static char nothing[8];
    memory *column = ((Buffer *)self)->column;
    void *bytes = column->bytes == NULL ? nothing : column->bytes;
    return PyBuffer_FillInfo(view, self, bytes, (Py_ssize_t)column->length, 1, flags);
}

static PyObject *rows_buffer(PyObject *self, PyObject *argument)
{
    Rows *rows = (Rows *)self;
    const char *wanted = PyUnicode_AsUTF8AndSize(argument, NULL);
    if (wanted == NULL)
        return NULL;
#define FIND(name, ...) \
    if (strcmp(wanted, #name) == 0) \
        return new_buffer(self, &rows->name);
    NUMBER_COLUMNS(FIND)
    TEXT_COLUMNS(FIND)
#undef FIND
    return PyErr_Format(PyExc_ValueError, "no column %s", wanted);
}

static bool copy_text(memory *to, memory *to_offsets, const memory *from, const memory *offsets, Py_ssize_t row)
{
    int32_t begin = int32_at(offsets, row), end = int32_at(offsets, row + 1);
    return put(to, from->bytes == NULL ? NULL : from->bytes + begin, end - begin) && put_offset(to_offsets, to);
}

static bool copy_row(Rows *to, const Rows *from, Py_ssize_t row)
{
#define COPY(name, type) \
    if (!put(&to->name, from->name.bytes + row * (Py_ssize_t)sizeof(type), sizeof(type))) \
        return false;
    NUMBER_COLUMNS(COPY)
#undef COPY
    if (!copy_text(&to->value, &to->value_offsets, &from->value, &from->value_offsets, row) ||
        !copy_text(&to->key, &to->key_offsets, &from->key, &from->key_offsets, row))
        return false;
    int32_t end = int32_at(&from->header_offsets, row + 1);
    for (int32_t header = int32_at(&from->header_offsets, row); header < end; header++)
        if (!copy_text(&to->name, &to->name_offsets, &from->name, &from->name_offsets, header) ||
            !copy_text(&to->header_value, &to->header_value_offsets, &from->header_value,
                       &from->header_value_offsets, header))
            return false;
    to->any |= flags_at(from, row);
    to->count++;
    return put_header_end(to);
}

/* rows.only(numbers): a copy of these rows. */
static PyObject *rows_only(PyObject *self, PyObject *numbers)
{
    const Rows *from = (const Rows *)self;
    Rows *chosen = new_rows();
    PyObject *iterator = chosen == NULL ? NULL : PyObject_GetIter(numbers), *number;
    while (iterator != NULL && (number = PyIter_Next(iterator)) != NULL) {
        Py_ssize_t row = PyLong_AsSsize_t(number);
        Py_DECREF(number);
        if (row < 0 || row >= from->count) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_IndexError, "no such row");
        } else if (copy_row(chosen, from, row))
            continue;
        else
            PyErr_NoMemory();
        break;
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred())
        Py_CLEAR(chosen);
    return (PyObject *)chosen;
}

static Py_ssize_t rows_length(PyObject *self)
{
    return ((Rows *)self)->count;
}

static PyObject *rows_any(PyObject *self, void *nothing)
{
    (void)nothing;
    return PyLong_FromLong(((Rows *)self)->any);
}

static PyMethodDef rows_methods[] = {
    {"values", rows_values, METH_NOARGS, "Return the values; None for a null value."},
    {"keys", rows_keys, METH_NOARGS, "Return the keys; None without one, text if it may be escaped."},
    {"headers", rows_headers, METH_NOARGS, "Return the headers; the properties if they may be escaped."},
    {"coordinates", rows_coordinates, METH_NOARGS, "Return the coordinates of the ids."},
    {"details", rows_details, METH_NOARGS, "Return the size of each message's batch, or an empty tuple."},
    {"runs", rows_runs, METH_NOARGS, "Return first coordinates, detail and length of each run."},
    {"without", rows_without, METH_O, "Return a bitmap of the rows without this flag; None for all."},
    {"buffer", rows_buffer, METH_O, "Return the memory of a column."},
    {"only", rows_only, METH_O, "Return a copy of these rows."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef rows_attributes[] = {
    {"any", rows_any, NULL, "The flags of all rows together.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_dealloc, rows_free},
    {Py_tp_methods, rows_methods},
    {Py_tp_getset, rows_attributes},
    {Py_sq_length, rows_length},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    "mqplug_pulsar_native._native.Rows", sizeof(Rows), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, rows_slots,
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, buffer_free},
    {Py_bf_getbuffer, buffer_get},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    "mqplug_pulsar_native._native.Buffer", sizeof(Buffer), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, buffer_slots,
};

static int add_reading(PyObject *module)
{
    if ((rows_type = make_type(module, &rows_spec)) == NULL || (buffer_type = make_type(module, &buffer_spec)) == NULL)
        return -1;
    if (PyModule_AddIntMacro(module, NULL_VALUE) < 0 || PyModule_AddIntMacro(module, NO_KEY) < 0 ||
        PyModule_AddIntMacro(module, ODD_KEY) < 0 || PyModule_AddIntMacro(module, ODD_HEADERS) < 0 ||
        PyModule_AddIntMacro(module, CHUNKED) < 0 || PyModule_AddIntMacro(module, HUGE_TIME) < 0)
        return -1;
    return 0;
}

/* -- Sending ----------------------------------------------------------------------------------------------------- */

/* A run is sent in one call: its columns are read with Python's lock, then its messages are built and sent without it.
 * The library's threads note the outcome of each message in an array, and the last one puts the run's number into the
 * box at which a Python thread waits. They never call Python.
 */

#define NOT_REPORTED (-1)

struct sent_run;

/* The outcome of one message. `result` is written last. */
struct report {
    struct sent_run *run;
    int64_t ledger, entry;
    int32_t batch_index, batch_size;
    _Atomic int result;
};

/* The finished runs. Owned by a ReportBox and by each run in flight. */
struct box {
    atomic_size_t owners;
    pthread_mutex_t lock;
    struct sent_run *finished, **last_link;
    sem_t bell; /* a signal also ends a wait for it */
};

/* Owned by a RunReport and, until all is reported, by the library; then by the box, until it is taken from there. */
struct sent_run {
    atomic_size_t owners;
    atomic_size_t on_their_way;
    struct box *box;
    struct sent_run *next;
    long long number;
    size_t count;
    struct report reports[];
};

static struct box *box_create(void)
{
    struct box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return NULL;
    if (sem_init(&box->bell, 0, 0) != 0 || pthread_mutex_init(&box->lock, NULL) != 0) {
        free(box);
        return NULL;
    }
    box->last_link = &box->finished;
    atomic_init(&box->owners, 1);
    return box;
}

static void run_leave(struct sent_run *run)
{
    if (atomic_fetch_sub(&run->owners, 1) == 1)
        free(run);
}

static void box_leave(struct box *box)
{
    if (atomic_fetch_sub(&box->owners, 1) != 1)
        return;
    while (box->finished != NULL) {
        struct sent_run *run = box->finished;
        box->finished = run->next;
        run_leave(run);
    }
    sem_destroy(&box->bell);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

static void box_ring(struct box *box)
{
    sem_post(&box->bell);
}

static void box_silence(struct box *box)
{
    while (sem_trywait(&box->bell) == 0)
        ;
}

static struct sent_run *run_create(struct box *box, long long number, size_t count)
{
    if (count > (SIZE_MAX - sizeof(struct sent_run)) / sizeof(struct report))
        return NULL;
    struct sent_run *run = malloc(sizeof *run + count * sizeof(struct report));
    if (run == NULL)
        return NULL;
    atomic_init(&run->owners, 2);
    atomic_init(&run->on_their_way, count);
    run->box = box;
    run->next = NULL;
    run->number = number;
    run->count = count;
    for (size_t row = 0; row < count; row++) {
        run->reports[row].run = run;
        atomic_init(&run->reports[row].result, NOT_REPORTED);
    }
    atomic_fetch_add(&box->owners, 1); /* until it is finished */
    return run;
}

/* Called once for each message, by the library's threads or within the sending call. */
static void on_report(int result, struct library_id *id, void *context)
{
    struct report *report = context;
    struct sent_run *run = report->run;
    if (id != NULL) {
        report->ledger = id_ledger(id);
        report->entry = id_entry(id);
        report->batch_index = id_batch_index(id);
        report->batch_size = id_batch_size(id);
        pulsar_message_id_free(id);
    }
    atomic_store_explicit(&report->result, result, memory_order_release);
    if (atomic_fetch_sub(&run->on_their_way, 1) != 1)
        return;
    struct box *box = run->box;
    pthread_mutex_lock(&box->lock);
    *box->last_link = run;
    box->last_link = &run->next;
    pthread_mutex_unlock(&box->lock); /* from here on the run may be freed */
    box_ring(box);
    box_leave(box);
}

/* -- Sending: the columns of a run */

/* Arrow's C data interface. */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

/* A column: absent, a tuple, or an array of Arrow. */
struct column {
    PyObject *items;
    PyObject *capsules; /* of schema and array; they own the array */
    const struct ArrowArray *array;
    char format; /* of the array: z binary, Z large binary, t timestamps */
};

static void column_close(struct column *column)
{
    Py_CLEAR(column->items);
    Py_CLEAR(column->capsules);
}

static int column_open_arrow(struct column *column, PyObject *given, const char *formats)
{
    column->capsules = PyObject_CallMethod(given, "__arrow_c_array__", NULL);
    if (column->capsules == NULL)
        return -1;
    PyObject *schema = PyTuple_GetItem(column->capsules, 0);
    PyObject *array = schema == NULL ? NULL : PyTuple_GetItem(column->capsules, 1);
    if (array == NULL)
        return -1;
    const struct ArrowSchema *described = PyCapsule_GetPointer(schema, "arrow_schema");
    column->array = described == NULL ? NULL : PyCapsule_GetPointer(array, "arrow_array");
    if (column->array == NULL)
        return -1;
    column->format = described->format[0];
    bool is_time = strncmp(described->format, "tsm:", 4) == 0;
    if (strchr(formats, column->format) == NULL || !(is_time || described->format[1] == '\0')) {
        PyErr_Format(PyExc_TypeError, "an Arrow array of the format %s cannot be sent", described->format);
        return -1;
    }
    return 0;
}

#define BYTES "zZ"
#define TIMES "t"
#define NEVER_ARROW ""

/* Open a column that is None, a sequence, or an Arrow array of one of these formats. */
static int column_open(struct column *column, PyObject *given, Py_ssize_t count, const char *formats)
{
    memset(column, 0, sizeof *column);
    if (given == Py_None)
        return 0;
    int64_t length;
    if (!PyObject_HasAttrString(given, "__arrow_c_array__")) {
        column->items = PySequence_Tuple(given); /* owns the items while their bytes are used without Python's lock */
        length = column->items == NULL ? -1 : PyTuple_Size(column->items);
    } else {
        length = column_open_arrow(column, given, formats) < 0 ? -1 : column->array->length;
    }
    if (length >= 0 && length != count)
        PyErr_Format(PyExc_ValueError, "a column has %lld rows, not %zd", (long long)length, count);
    if (length == count)
        return 0;
    column_close(column);
    return -1;
}

static bool arrow_is_null(const struct ArrowArray *array, int64_t place)
{
    const uint8_t *valid = array->buffers[0];
    return valid != NULL && array->null_count != 0 && !(valid[place >> 3] >> (place & 7) & 1);
}

static void arrow_bytes(const struct column *column, int64_t place, const char **data, size_t *size)
{
    const void *offsets = column->array->buffers[1];
    int64_t start, end;
    if (column->format == 'Z') {
        start = ((const int64_t *)offsets)[place];
        end = ((const int64_t *)offsets)[place + 1];
    } else {
        start = ((const int32_t *)offsets)[place];
        end = ((const int32_t *)offsets)[place + 1];
    }
    const char *bytes = column->array->buffers[2];
    *data = bytes == NULL ? "" : bytes + start;
    *size = (size_t)(end - start);
}

/* Set `data` to the bytes in a row, or to NULL if it has none. Return -1 with an exception set for another object. */
static int column_bytes(const struct column *column, Py_ssize_t row, const char **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    if (column->array != NULL) {
        int64_t place = column->array->offset + row;
        if (!arrow_is_null(column->array, place))
            arrow_bytes(column, place, data, size);
        return 0;
    }
    PyObject *item = column->items == NULL ? Py_None : PyTuple_GetItem(column->items, row);
    if (item == NULL || item == Py_None)
        return item == NULL ? -1 : 0;
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(item, &bytes, &length) < 0)
        return -1;
    *data = bytes;
    *size = (size_t)length;
    return 0;
}

#define NO_TIME 0 /* no event time, for Pulsar as well */

/* Set `time` to the event time in a row. Return -1 with an exception set for one that Pulsar cannot store. */
static int column_time(const struct column *column, Py_ssize_t row, uint64_t *time)
{
    long long milliseconds;
    *time = NO_TIME;
    if (column->array != NULL) {
        int64_t place = column->array->offset + row;
        if (arrow_is_null(column->array, place))
            return 0;
        milliseconds = ((const int64_t *)column->array->buffers[1])[place];
    } else {
        PyObject *item = column->items == NULL ? Py_None : PyTuple_GetItem(column->items, row);
        if (item == NULL || item == Py_None)
            return item == NULL ? -1 : 0;
        milliseconds = PyLong_AsLongLong(item);
        if (milliseconds == -1 && PyErr_Occurred())
            return -1;
    }
    if (milliseconds <= 0) {
        PyErr_Format(PyExc_ValueError, "%lld is not an event time", milliseconds);
        return -1;
    }
    *time = (uint64_t)milliseconds;
    return 0;
}

/* -- Sending: keys and headers as text */

/* Return the length in bytes of the UTF-8 character at the start of a text; 0 if there is no valid one. */
static size_t character_size(const unsigned char *text, size_t size)
{
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t wanted = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (wanted == 0 || wanted > size)
        return 0;
    for (size_t number = 1; number < wanted; number++)
        if ((text[number] & 0xC0) != 0x80)
            return 0;
    bool overlong = (first == 0xE0 && text[1] < 0xA0) || (first == 0xF0 && text[1] < 0x90);
    bool surrogate = first == 0xED && text[1] >= 0xA0;
    bool too_high = first == 0xF4 && text[1] >= 0x90;
    return overlong || surrogate || too_high ? 0 : wanted;
}

static bool is_text(const char *data, size_t size)
{
    const unsigned char *text = (const unsigned char *)data;
    size_t place = 0;
    while (place < size) {
        uint64_t eight;
        if (size - place >= sizeof eight) {
            memcpy(&eight, text + place, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                place += sizeof eight;
                continue;
            }
        }
        size_t length = character_size(text + place, size - place);
        if (length == 0)
            return false;
        place += length;
    }
    return true;
}

/* Text that begins like this has a meaning for mqplug, or must be escaped. */
static bool is_reserved(const char *data, size_t size)
{
    static const char start[] = "mqplug";
    return size >= sizeof start - 1 && memcmp(data, start, sizeof start - 1) == 0;
}

/* A message before it is sent. Its text belongs to columns, or to objects that its run keeps. */
struct outgoing {
    const char *value;
    size_t value_size;
    struct text key;
    uint64_t time;
    size_t first_property, properties;
};

struct property {
    struct text name, value;
};

/* The messages of a run that is being gathered and sent. */
struct outgoing_run {
    struct column values, keys, headers, times;
    Py_ssize_t count;
    struct outgoing *messages;
    struct property *properties;
    size_t properties_used, properties_room;
    PyObject *kept; /* a list of the objects that own used text */
};

static void outgoing_free(struct outgoing_run *run)
{
    column_close(&run->values);
    column_close(&run->keys);
    column_close(&run->headers);
    column_close(&run->times);
    Py_CLEAR(run->kept);
    free(run->messages);
    free(run->properties);
}

static struct property *property_add(struct outgoing_run *run)
{
    if (run->properties_used == run->properties_room) {
        size_t room = run->properties_room == 0 ? 64 : run->properties_room * 2;
        if (room > SIZE_MAX / sizeof(struct property)) {
            PyErr_NoMemory();
            return NULL;
        }
        struct property *moved = realloc(run->properties, room * sizeof *moved);
        if (moved == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        run->properties = moved;
        run->properties_room = room;
    }
    return memset(&run->properties[run->properties_used++], 0, sizeof(struct property));
}

static int text_of(PyObject *item, struct text *text)
{
    Py_ssize_t size;
    text->data = PyUnicode_AsUTF8AndSize(item, &size);
    text->size = text->data == NULL ? 0 : (size_t)size;
    return text->data == NULL ? -1 : 0;
}

/* Call a Python function, and keep its result as long as the run. Return a borrowed reference. */
static PyObject *kept_result(struct outgoing_run *run, PyObject *function, PyObject *argument)
{
    PyObject *result = argument == NULL ? NULL : PyObject_CallFunctionObjArgs(function, argument, NULL);
    if (result != NULL && PyList_Append(run->kept, result) < 0)
        Py_CLEAR(result);
    Py_XDECREF(result);
    return result;
}

static int gather_key(struct outgoing_run *run, Py_ssize_t row, PyObject *key_to_text)
{
    struct outgoing *message = &run->messages[row];
    if (column_bytes(&run->keys, row, &message->key.data, &message->key.size) < 0)
        return -1;
    if (message->key.data == NULL)
        return 0;
    if (message->key.size > 0 && is_text(message->key.data, message->key.size)
        && !is_reserved(message->key.data, message->key.size))
        return 0;
    PyObject *bytes = PyBytes_FromStringAndSize(message->key.data, (Py_ssize_t)message->key.size);
    PyObject *text = kept_result(run, key_to_text, bytes);
    Py_XDECREF(bytes);
    return text == NULL ? -1 : text_of(text, &message->key);
}

/* Compare like Python compares the two texts: UTF-8 sorts like its characters. */
static int text_order(const struct text *one, const struct text *other)
{
    size_t both = one->size < other->size ? one->size : other->size;
    int order = memcmp(one->data, other->data, both);
    return order != 0 ? order : (one->size > other->size) - (one->size < other->size);
}

/* Add a header as a property. Return 0 if a property by itself would lose its content, or its place after the last. */
static int header_add(struct outgoing_run *run, const struct outgoing *message, PyObject *pair)
{
    PyObject *name = PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, 0) : NULL;
    PyObject *value = name == NULL ? NULL : PyTuple_GetItem(pair, 1);
    if (value == NULL || !PyBytes_Check(value))
        return 0;
    struct property *added = property_add(run);
    char *bytes;
    Py_ssize_t size;
    if (added == NULL || text_of(name, &added->name) < 0 || PyBytes_AsStringAndSize(value, &bytes, &size) < 0)
        return -1;
    added->value.data = bytes;
    added->value.size = (size_t)size;
    if (added->name.size == 0 || is_reserved(added->name.data, added->name.size) || !is_text(bytes, (size_t)size))
        return 0;
    return run->properties_used - 1 == message->first_property || text_order(&added[-1].name, &added->name) < 0;
}

static int gather_properties(struct outgoing_run *run, struct outgoing *message, PyObject *properties)
{
    run->properties_used = message->first_property;
    Py_ssize_t place = 0;
    PyObject *name, *value;
    while (PyDict_Next(properties, &place, &name, &value)) {
        struct property *added = property_add(run);
        if (added == NULL || text_of(name, &added->name) < 0 || text_of(value, &added->value) < 0)
            return -1;
    }
    return 0;
}

static int gather_headers(struct outgoing_run *run, Py_ssize_t row, PyObject *headers_to_properties)
{
    struct outgoing *message = &run->messages[row];
    message->first_property = run->properties_used;
    PyObject *headers = run->headers.items == NULL ? NULL : PyTuple_GetItem(run->headers.items, row);
    if (headers == NULL)
        return PyErr_Occurred() ? -1 : 0;
    int plain = PyTuple_Check(headers);
    Py_ssize_t count = plain ? PyTuple_Size(headers) : 0;
    for (Py_ssize_t number = 0; plain > 0 && number < count; number++)
        plain = header_add(run, message, PyTuple_GetItem(headers, number));
    if (plain < 0)
        return -1;
    if (plain == 0) {
        PyObject *properties = kept_result(run, headers_to_properties, headers);
        if (properties == NULL || gather_properties(run, message, properties) < 0)
            return -1;
    }
    message->properties = run->properties_used - message->first_property;
    return 0;
}

/* Read the columns. Return -1 with an exception set for values that only the client itself can refuse. */
static int gather(struct outgoing_run *run, PyObject *key_to_text, PyObject *headers_to_properties)
{
    run->kept = PyList_New(0);
    run->messages = calloc(run->count > 0 ? (size_t)run->count : 1, sizeof *run->messages);
    if (run->kept == NULL || run->messages == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t row = 0; row < run->count; row++) {
        struct outgoing *message = &run->messages[row];
        if (column_bytes(&run->values, row, &message->value, &message->value_size) < 0
            || gather_key(run, row, key_to_text) < 0 || gather_headers(run, row, headers_to_properties) < 0
            || column_time(&run->times, row, &message->time) < 0)
            return -1;
    }
    return 0;
}

/* -- Sending: the hand-over */

static void send_message(struct library_producer *producer, const struct outgoing *message,
                         const struct property *properties, struct report *report)
{
    struct library_message *built = pulsar_message_create();
    if (message->value == NULL)
        pulsar_message_set_null_value(built);
    else
        pulsar_message_set_content(built, message->value, message->value_size);
    if (message->key.data != NULL)
        message_set_key(built, &message->key);
    for (size_t number = 0; number < message->properties; number++)
        message_set_property(built, &properties[number].name, &properties[number].value);
    if (message->time != NO_TIME)
        pulsar_message_set_event_timestamp(built, message->time);
    pulsar_producer_send_async(producer, built, on_report, report);
    pulsar_message_free(built);
}

typedef struct {
    PyObject_HEAD
    struct box *box;
    PyObject *key_to_text, *headers_to_properties;
} ReportBox;

typedef struct {
    PyObject_HEAD
    struct sent_run *run;
} RunReport;

static PyTypeObject *run_report_type;

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *report_box_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *key_to_text, *headers_to_properties;
    static char *names[] = {"key_to_text", "headers_to_properties", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO", names, &key_to_text, &headers_to_properties))
        return NULL;
    ReportBox *self = (ReportBox *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->key_to_text = Py_NewRef(key_to_text);
    self->headers_to_properties = Py_NewRef(headers_to_properties);
    self->box = box_create();
    if (self->box == NULL) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void report_box_free(PyObject *object)
{
    ReportBox *self = (ReportBox *)object;
    if (self->box != NULL)
        box_leave(self->box);
    Py_CLEAR(self->key_to_text);
    Py_CLEAR(self->headers_to_properties);
    free_object(object);
}

static int open_columns(struct outgoing_run *run, PyObject *values, PyObject *keys, PyObject *headers, PyObject *times)
{
    bool opened = column_open(&run->values, values, run->count, BYTES) == 0
                  && column_open(&run->keys, keys, run->count, BYTES) == 0
                  && column_open(&run->headers, headers, run->count, NEVER_ARROW) == 0
                  && column_open(&run->times, times, run->count, TIMES) == 0;
    return opened ? 0 : -1;
}

static PyObject *report_create(struct sent_run *run)
{
    RunReport *report = (RunReport *)((allocfunc)PyType_GetSlot(run_report_type, Py_tp_alloc))(run_report_type, 0);
    if (report != NULL)
        report->run = run;
    return (PyObject *)report;
}

static PyObject *report_box_send(PyObject *object, PyObject *arguments)
{
    ReportBox *self = (ReportBox *)object;
    PyObject *wrapper, *values, *keys, *headers, *times;
    long long number;
    struct outgoing_run gathered = {0};
    if (!PyArg_ParseTuple(arguments, "OLnOOOO", &wrapper, &number, &gathered.count, &values, &keys, &headers, &times))
        return NULL;
    if (gathered.count <= 0)
        return PyErr_Format(PyExc_ValueError, "a run must have at least one message, not %zd", gathered.count);
    struct library_producer *producer = client_object(wrapper, PRODUCER_TYPE);
    if (producer == NULL)
        return NULL;
    struct sent_run *run = NULL;
    PyObject *report = NULL;
    if (open_columns(&gathered, values, keys, headers, times) == 0
        && gather(&gathered, self->key_to_text, self->headers_to_properties) == 0) {
        run = run_create(self->box, number, (size_t)gathered.count);
        report = run == NULL ? PyErr_NoMemory() : report_create(run);
    }
    if (report != NULL) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; row < gathered.count; row++) {
            const struct outgoing *message = &gathered.messages[row];
            const struct property *properties = message->properties ? &gathered.properties[message->first_property] : NULL;
            send_message(producer, message, properties, &run->reports[row]);
        }
        Py_END_ALLOW_THREADS
    } else if (run != NULL) {
        free(run); /* none of its owners exists */
        box_leave(self->box);
    }
    outgoing_free(&gathered);
    return report;
}

static void on_flushed(int result, void *context)
{
    (void)result, (void)context; /* each message has its own report */
}

/* The library takes a lock that its threads hold while they wait for Python's. So Python's must be released. */
static PyObject *report_box_flush(PyObject *object, PyObject *wrapper)
{
    (void)object;
    struct library_producer *producer = client_object(wrapper, PRODUCER_TYPE);
    if (producer == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pulsar_producer_flush_async(producer, on_flushed, NULL);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

typedef int (*clock_wait)(sem_t *, clockid_t, const struct timespec *);

/* Wait for the bell, by the monotonic clock if the C library can. */
static int bell_wait(sem_t *bell, double seconds)
{
    clock_wait wait_by_clock;
    *(void **)(&wait_by_clock) = dlsym(RTLD_DEFAULT, "sem_clockwait");
    clockid_t clock = wait_by_clock == NULL ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec until;
    clock_gettime(clock, &until);
    time_t whole = (time_t)seconds;
    long rest = until.tv_nsec + (long)((seconds - (double)whole) * 1e9);
    until.tv_sec += whole + rest / 1000000000;
    until.tv_nsec = rest % 1000000000;
    return wait_by_clock == NULL ? sem_timedwait(bell, &until) : wait_by_clock(bell, clock, &until);
}

/* Wait for the bell up to a number of seconds. Return -1 with an exception set if a signal's handler raised one. */
static int box_wait(struct box *box, double seconds)
{
    int failed, reason;
    Py_BEGIN_ALLOW_THREADS
    failed = bell_wait(&box->bell, seconds);
    reason = errno;
    Py_END_ALLOW_THREADS
    return failed && reason == EINTR ? PyErr_CheckSignals() : 0;
}

static struct sent_run *box_take(struct box *box)
{
    pthread_mutex_lock(&box->lock);
    struct sent_run *finished = box->finished;
    box->finished = NULL;
    box->last_link = &box->finished;
    pthread_mutex_unlock(&box->lock);
    return finished;
}

static int append(PyObject *list, PyObject *item)
{
    int failed = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return failed;
}

/* Append number and report of each run that was taken from the box. */
static PyObject *append_runs(PyObject *list, struct sent_run *runs)
{
    int failed = 0;
    while (runs != NULL) {
        struct sent_run *run = runs;
        runs = run->next;
        long long number = run->number;
        PyObject *report = report_create(run);
        if (report == NULL)
            run_leave(run);
        failed |= append(list, report == NULL ? NULL : Py_BuildValue("LN", number, report));
    }
    return failed ? NULL : Py_NewRef(Py_None);
}

#define WAIT_MAX_S 3600.0

/* Taken runs are appended before an interrupt of Python code can lose them. */
static PyObject *report_box_wait(PyObject *object, PyObject *arguments)
{
    struct box *box = ((ReportBox *)object)->box;
    double timeout;
    PyObject *list;
    if (!PyArg_ParseTuple(arguments, "dO!", &timeout, &PyList_Type, &list))
        return NULL;
    box_silence(box);
    struct sent_run *finished = box_take(box);
    if (finished == NULL && timeout > 0) {
        if (box_wait(box, timeout < WAIT_MAX_S ? timeout : WAIT_MAX_S) < 0)
            return NULL;
        finished = box_take(box);
    }
    return append_runs(list, finished);
}

static PyObject *report_box_ring(PyObject *object, PyObject *none)
{
    (void)none;
    box_ring(((ReportBox *)object)->box);
    Py_RETURN_NONE;
}

static void run_report_free(PyObject *object)
{
    RunReport *self = (RunReport *)object;
    if (self->run != NULL)
        run_leave(self->run);
    free_object(object);
}

static PyObject *run_report_is_complete(PyObject *object, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(atomic_load(&((RunReport *)object)->run->on_their_way) == 0);
}

/* Return how many messages from a row on are stored and consecutive in one batch. */
static size_t span_length(const struct sent_run *run, size_t row)
{
    const struct report *first = &run->reports[row];
    size_t length = 1;
    while (row + length < run->count) {
        const struct report *next = &run->reports[row + length];
        if (atomic_load_explicit(&next->result, memory_order_acquire) != 0 || first->batch_index < 0
            || next->ledger != first->ledger || next->entry != first->entry
            || next->batch_size != first->batch_size || next->batch_index != first->batch_index + (int32_t)length)
            break;
        length++;
    }
    return length;
}

static PyObject *run_report_read(PyObject *object, PyObject *none)
{
    (void)none;
    const struct sent_run *run = ((RunReport *)object)->run;
    PyObject *spans = PyList_New(0), *others = PyList_New(0);
    int failed = spans == NULL || others == NULL ? -1 : 0;
    for (size_t row = 0, length = 1; failed == 0 && row < run->count; row += length) {
        const struct report *report = &run->reports[row];
        int result = atomic_load_explicit(&report->result, memory_order_acquire);
        length = result == 0 ? span_length(run, row) : 1;
        if (result != 0)
            failed = append(others, Py_BuildValue("ni", (Py_ssize_t)row, result));
        else
            failed = append(spans, Py_BuildValue("nnLLii", (Py_ssize_t)row, (Py_ssize_t)length,
                                                 (long long)report->ledger, (long long)report->entry,
                                                 (int)report->batch_index, (int)report->batch_size));
    }
    if (failed == 0)
        return Py_BuildValue("NN", spans, others);
    Py_XDECREF(spans);
    Py_XDECREF(others);
    return NULL;
}

static PyMethodDef report_box_methods[] = {
    {"send", report_box_send, METH_VARARGS,
     "Send a run with a client's producer: its number, the number of messages, values, keys, headers and event times. "
     "Return its RunReport. Exceptions are raised before anything is sent."},
    {"wait", report_box_wait, METH_VARARGS,
     "Append number and RunReport of each fully reported run to a list, once. If there is none, wait for one, or for "
     "ring, up to a number of seconds."},
    {"flush", report_box_flush, METH_O, "Make a client's producer send its batch now, without waiting for that."},
    {"ring", report_box_ring, METH_NOARGS, "Make a call of wait return."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot report_box_slots[] = {
    {Py_tp_new, report_box_new},
    {Py_tp_dealloc, report_box_free},
    {Py_tp_methods, report_box_methods},
    {Py_tp_doc, "The box where the library's threads put fully reported runs."},
    {0, NULL},
};

static PyType_Spec report_box_spec = {
    "mqplug_pulsar_native._native.ReportBox", sizeof(ReportBox), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    report_box_slots,
};

static PyMethodDef run_report_methods[] = {
    {"is_complete", run_report_is_complete, METH_NOARGS, "Return whether each message of the run was reported."},
    {"read", run_report_read, METH_NOARGS,
     "Return the stored messages as spans of one batch (row, count, ledger, entry, batch index, batch size), and row "
     "and result of every other one; the result is -1 if it is not reported yet."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot run_report_slots[] = {
    {Py_tp_dealloc, run_report_free},
    {Py_tp_methods, run_report_methods},
    {Py_tp_doc, "The outcome of each message of a run."},
    {0, NULL},
};

static PyType_Spec run_report_spec = {
    "mqplug_pulsar_native._native.RunReport", sizeof(RunReport), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, run_report_slots,
};

static int add_sending(PyObject *module)
{
    run_report_type = make_type(module, &run_report_spec);
    return run_report_type == NULL || make_type(module, &report_box_spec) == NULL ? -1 : 0;
}

/* -- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Take the library's functions from the client's extension module at this path."},
    {"try_out", try_out, METH_VARARGS, "Return the numbers of an id, and give a builder a key and a property."},
    {"collect", collect, METH_O, "Return the columns of a list of the client's messages."},
    {"take", take, METH_VARARGS, "Return the columns of a reader's or consumer's messages, and its result."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_reading},
    {Py_mod_exec, add_sending},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled part.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}

/* The compiled part of mqplug-kafka: columns in, reports out, over confluent-kafka's own library.
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
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The library's functions ------------------------------------------------------------------------------------- */

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_event_s rd_kafka_event_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;

/* A message, or an error of a partition if `err` is not 0. */
typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *value; /* NULL for a tombstone */
    size_t value_size;
    void *key; /* NULL for no key */
    size_t key_size;
    int64_t offset;
    void *opaque; /* of the library when receiving, of the sender in a report */
} rd_kafka_message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    int err;
    void *private_part;
} rd_kafka_topic_partition_t;

typedef struct {
    int count;
    int size;
    rd_kafka_topic_partition_t *elements;
} rd_kafka_topic_partition_list_t;

typedef void (*token_refresh)(rd_kafka_t *, const char *, void *);

enum { KIND_PRODUCER = 0, KIND_CONSUMER = 1 };
enum { EVENT_REPORT = 0x1, EVENT_LOG = 0x4, EVENT_ERROR = 0x8 };
enum { ERROR_INVALID_ARGUMENT = -186 };
enum { DESTROY_WITHOUT_LEAVING = 0x8 };

/* Each: result, name, arguments. The list declares a pointer for each function, and tells `load` what to look up. */
#define LIBRARY_FUNCTIONS(X) \
    X(int, rd_kafka_version, (void)) \
    X(const char *, rd_kafka_version_str, (void)) \
    X(const char *, rd_kafka_err2str, (int)) \
    X(int, rd_kafka_error_code, (const rd_kafka_error_t *)) \
    X(const char *, rd_kafka_error_string, (const rd_kafka_error_t *)) \
    X(int, rd_kafka_error_is_fatal, (const rd_kafka_error_t *)) \
    X(int, rd_kafka_error_is_retriable, (const rd_kafka_error_t *)) \
    X(int, rd_kafka_error_txn_requires_abort, (const rd_kafka_error_t *)) \
    X(void, rd_kafka_error_destroy, (rd_kafka_error_t *)) \
    X(int, rd_kafka_fatal_error, (rd_kafka_t *, char *, size_t)) \
    X(rd_kafka_conf_t *, rd_kafka_conf_new, (void)) \
    X(void, rd_kafka_conf_destroy, (rd_kafka_conf_t *)) \
    X(int, rd_kafka_conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t)) \
    X(void, rd_kafka_conf_set_opaque, (rd_kafka_conf_t *, void *)) \
    X(void, rd_kafka_conf_set_events, (rd_kafka_conf_t *, int)) \
    X(void, rd_kafka_conf_set_oauthbearer_token_refresh_cb, (rd_kafka_conf_t *, token_refresh)) \
    X(void, rd_kafka_conf_enable_sasl_queue, (rd_kafka_conf_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_sasl_background_callbacks_enable, (rd_kafka_t *)) \
    X(int, rd_kafka_oauthbearer_set_token, \
      (rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t)) \
    X(int, rd_kafka_oauthbearer_set_token_failure, (rd_kafka_t *, const char *)) \
    X(rd_kafka_t *, rd_kafka_new, (int, rd_kafka_conf_t *, char *, size_t)) \
    X(void, rd_kafka_destroy_flags, (rd_kafka_t *, int)) \
    X(const char *, rd_kafka_name, (const rd_kafka_t *)) \
    X(const char *, rd_kafka_topic_name, (const rd_kafka_topic_t *)) \
    X(int, rd_kafka_set_log_queue, (rd_kafka_t *, rd_kafka_queue_t *)) \
    X(rd_kafka_queue_t *, rd_kafka_queue_get_main, (rd_kafka_t *)) \
    X(rd_kafka_queue_t *, rd_kafka_queue_get_consumer, (rd_kafka_t *)) \
    X(size_t, rd_kafka_queue_length, (rd_kafka_queue_t *)) \
    X(void, rd_kafka_queue_yield, (rd_kafka_queue_t *)) \
    X(void, rd_kafka_queue_destroy, (rd_kafka_queue_t *)) \
    X(rd_kafka_event_t *, rd_kafka_queue_poll, (rd_kafka_queue_t *, int)) \
    X(int, rd_kafka_event_type, (const rd_kafka_event_t *)) \
    X(int, rd_kafka_event_error, (rd_kafka_event_t *)) \
    X(const char *, rd_kafka_event_error_string, (rd_kafka_event_t *)) \
    X(int, rd_kafka_event_error_is_fatal, (rd_kafka_event_t *)) \
    X(int, rd_kafka_event_log, (rd_kafka_event_t *, const char **, const char **, int *)) \
    X(void, rd_kafka_event_destroy, (rd_kafka_event_t *)) \
    X(rd_kafka_topic_partition_list_t *, rd_kafka_topic_partition_list_new, (int)) \
    X(rd_kafka_topic_partition_t *, rd_kafka_topic_partition_list_add, \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t)) \
    X(void, rd_kafka_topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *)) \
    X(rd_kafka_error_t *, rd_kafka_incremental_assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
    X(rd_kafka_error_t *, rd_kafka_incremental_unassign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
    X(int, rd_kafka_pause_partitions, (rd_kafka_t *, rd_kafka_topic_partition_list_t *)) \
    X(int, rd_kafka_resume_partitions, (rd_kafka_t *, rd_kafka_topic_partition_list_t *)) \
    X(rd_kafka_message_t *, rd_kafka_consume_queue, (rd_kafka_queue_t *, int)) \
    X(ssize_t, rd_kafka_consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t)) \
    X(void, rd_kafka_message_destroy, (rd_kafka_message_t *)) \
    X(const char *, rd_kafka_message_errstr, (const rd_kafka_message_t *)) \
    X(int64_t, rd_kafka_message_timestamp, (const rd_kafka_message_t *, int *)) \
    X(int, rd_kafka_message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **)) \
    X(int, rd_kafka_header_get_all, \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))

#define DECLARE(result, name, arguments) static result (*name) arguments;
LIBRARY_FUNCTIONS(DECLARE)
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

static PyObject *library_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyUnicode_FromString(rd_kafka_version_str());
}

/* Errors are those of confluent_kafka, so that callers treat both paths alike. */

typedef struct {
    bool is_fatal, is_retriable, requires_abort;
} ErrorKind;

static PyObject *new_of_client(const char *class_name, PyObject *arguments)
{
    PyObject *client = PyImport_ImportModule("confluent_kafka");
    PyObject *class = client == NULL ? NULL : PyObject_GetAttrString(client, class_name);
    PyObject *made = class == NULL || arguments == NULL ? NULL : PyObject_CallObject(class, arguments);
    Py_XDECREF(client);
    Py_XDECREF(class);
    Py_XDECREF(arguments);
    return made;
}

/* Return a KafkaError. Its text is that of the code if `text` is NULL. */
static PyObject *kafka_error(int code, const char *text, ErrorKind kind)
{
    PyObject *words
        = text == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (words == NULL)
        return NULL;
    return new_of_client("KafkaError", Py_BuildValue("(iNNNN)", code, words, PyBool_FromLong(kind.is_fatal),
                                                     PyBool_FromLong(kind.is_retriable),
                                                     PyBool_FromLong(kind.requires_abort)));
}

/* Raise a KafkaException of this error, and drop the reference. Returns NULL. */
static PyObject *raise_error(PyObject *error)
{
    PyObject *exception = error == NULL ? NULL : new_of_client("KafkaException", Py_BuildValue("(N)", error));
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

static PyObject *raise_code(int code, const char *text)
{
    return raise_error(kafka_error(code, text, (ErrorKind){0}));
}

/* Raise what a call of the library returned, and destroy it. NULL is success: then return None. */
static PyObject *none_or_raise(rd_kafka_error_t *returned)
{
    if (returned == NULL)
        Py_RETURN_NONE;
    ErrorKind kind = {
        rd_kafka_error_is_fatal(returned) != 0,
        rd_kafka_error_is_retriable(returned) != 0,
        rd_kafka_error_txn_requires_abort(returned) != 0,
    };
    PyObject *error = kafka_error(rd_kafka_error_code(returned), rd_kafka_error_string(returned), kind);
    rd_kafka_error_destroy(returned);
    return raise_error(error);
}

/* A client of the library: what readers and senders begin with.
 *
 * Methods enter it and leave it. One that was closed meanwhile is destroyed by the last that leaves. After a fork the
 * child has no threads of the library, so that it leaves the client alone.
 */
typedef struct {
    rd_kafka_t *handle;       /* NULL before it was opened, and after its end */
    rd_kafka_queue_t *events; /* errors, log lines and reports */
    rd_kafka_queue_t *messages; /* of a consumer, else NULL */
    PyObject *on_error;       /* these three are NULL if there are none */
    PyObject *logger;
    PyObject *on_token;
    pid_t owner;
    int users;
    bool is_closed;
} Client;

static bool is_foreign(const Client *client)
{
    return client->owner != getpid();
}

static void destroy_client(Client *client)
{
    rd_kafka_t *handle = client->handle;
    client->handle = NULL;
    if (handle == NULL || is_foreign(client))
        return;
    Py_BEGIN_ALLOW_THREADS
    if (client->events != NULL)
        rd_kafka_queue_destroy(client->events);
    if (client->messages != NULL)
        rd_kafka_queue_destroy(client->messages);
    rd_kafka_destroy_flags(handle, DESTROY_WITHOUT_LEAVING);
    Py_END_ALLOW_THREADS
    client->events = client->messages = NULL;
}

/* Return 0, or -1 with an error set if the client cannot be used. */
static int enter_client(Client *client)
{
    if (client->handle == NULL || client->is_closed) {
        PyErr_SetString(PyExc_RuntimeError, "the native client is closed");
        return -1;
    }
    if (is_foreign(client)) {
        PyErr_SetString(PyExc_RuntimeError, "the native client belongs to the process before the fork");
        return -1;
    }
    client->users++;
    return 0;
}

static void leave_client(Client *client)
{
    if (--client->users == 0 && client->is_closed)
        destroy_client(client);
}

/* Destroy the client, or let the last method under way do so. Wake that with a yield. */
static void close_client(Client *client)
{
    client->is_closed = true;
    if (client->users == 0)
        destroy_client(client);
}

static int visit_client(Client *client, visitproc visit, void *arg)
{
    Py_VISIT(client->on_error);
    Py_VISIT(client->logger);
    Py_VISIT(client->on_token);
    return 0;
}

static void clear_client(Client *client)
{
    Py_CLEAR(client->on_error);
    Py_CLEAR(client->logger);
    Py_CLEAR(client->on_token);
}

/* Tokens: the provider returns (token, seconds since 1970, principal, extensions). */

/* Return pairs of texts that the mapping holds, or NULL with an error set. */
static const char **token_extensions(PyObject *mapping, size_t *count)
{
    PyObject *name, *text;
    Py_ssize_t next = 0, size = 0;
    const char **found = calloc(2 * (size_t)PyDict_Size(mapping) + 1, sizeof *found);
    if (found == NULL)
        return (const char **)PyErr_NoMemory();
    while (PyDict_Next(mapping, &next, &name, &text)) {
        found[size++] = PyUnicode_AsUTF8AndSize(name, NULL);
        found[size++] = PyUnicode_AsUTF8AndSize(text, NULL);
        if (found[size - 2] == NULL || found[size - 1] == NULL) {
            free(found);
            return NULL;
        }
    }
    *count = (size_t)size;
    return found;
}

/* Ask the provider for a token and give it to the library. Return 0, or -1 with an error set. */
static int renew_token(rd_kafka_t *handle, PyObject *provider, const char *config)
{
    const char *token, *principal = "";
    double expires_at;
    PyObject *mapping;
    size_t count = 0;
    char text[512] = "";
    PyObject *answer = PyObject_CallFunction(provider, "s", config);
    if (answer == NULL)
        return -1;
    const char **extensions = NULL;
    if (PyArg_ParseTuple(answer, "sdsO!", &token, &expires_at, &principal, &PyDict_Type, &mapping))
        extensions = token_extensions(mapping, &count);
    if (extensions != NULL
        && rd_kafka_oauthbearer_set_token(handle, token, (int64_t)(expires_at * 1000), principal, extensions, count,
                                          text, sizeof text)
            != 0)
        PyErr_SetString(PyExc_ValueError, text);
    free(extensions);
    Py_DECREF(answer);
    return PyErr_Occurred() ? -1 : 0;
}

/* Called by a thread of the library when a token gets old. */
static void on_token_refresh(rd_kafka_t *handle, const char *config, void *opaque)
{
    Client *client = opaque;
    PyGILState_STATE state = PyGILState_Ensure();
    if (client->on_token != NULL && renew_token(handle, client->on_token, config) < 0) {
        PyObject *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        PyObject *words = error == NULL ? NULL : PyObject_Str(error);
        const char *text = words == NULL ? NULL : PyUnicode_AsUTF8AndSize(words, NULL);
        rd_kafka_oauthbearer_set_token_failure(handle, text == NULL ? "no token" : text);
        PyErr_Clear();
        Py_XDECREF(words);
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    }
    PyGILState_Release(state);
}

/* Options: a dict as confluent_kafka takes it. `error_cb`, `logger` and `oauth_cb` are functions, the others texts. */

static PyObject **function_of(Client *client, const char *name)
{
    if (strcmp(name, "error_cb") == 0)
        return &client->on_error;
    if (strcmp(name, "logger") == 0)
        return &client->logger;
    return strcmp(name, "oauth_cb") == 0 ? &client->on_token : NULL;
}

static int set_option(Client *client, rd_kafka_conf_t *conf, PyObject *key, PyObject *value)
{
    char text[512];
    int refused = 0;
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    if (name == NULL)
        return -1;
    PyObject **function = function_of(client, name);
    if (function != NULL) {
        *function = value == Py_None ? NULL : Py_NewRef(value);
        return 0;
    }
    PyObject *words = value == Py_None ? Py_NewRef(Py_None) : PyObject_Str(value);
    const char *chosen = words == NULL || value == Py_None ? NULL : PyUnicode_AsUTF8AndSize(words, NULL);
    if (chosen != NULL || value == Py_None)
        refused = rd_kafka_conf_set(conf, name, chosen, text, sizeof text);
    Py_XDECREF(words);
    if (refused != 0)
        raise_code(ERROR_INVALID_ARGUMENT, text);
    return PyErr_Occurred() ? -1 : 0;
}

static int set_options(Client *client, rd_kafka_conf_t *conf, PyObject *options, int events)
{
    PyObject *key, *value;
    Py_ssize_t next = 0;
    while (PyDict_Next(options, &next, &key, &value))
        if (set_option(client, conf, key, value) < 0)
            return -1;
    rd_kafka_conf_set_opaque(conf, client);
    rd_kafka_conf_set_events(conf, events | EVENT_ERROR | EVENT_LOG);
    if (client->logger != NULL)
        rd_kafka_conf_set(conf, "log.queue", "true", NULL, 0);
    if (client->on_token != NULL) {
        rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, on_token_refresh);
        rd_kafka_conf_enable_sasl_queue(conf, 1);
    }
    return 0;
}

/* Start the library's client. Its events are errors and log lines, and those that `events` adds. */
static int open_client(Client *client, int kind, PyObject *options, int events)
{
    char text[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    client->owner = getpid();
    if (set_options(client, conf, options, events) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    client->handle = rd_kafka_new(kind, conf, text, sizeof text);
    Py_END_ALLOW_THREADS
    if (client->handle == NULL) {
        rd_kafka_conf_destroy(conf);
        raise_code(ERROR_INVALID_ARGUMENT, text);
        return -1;
    }
    client->events = rd_kafka_queue_get_main(client->handle);
    if (kind == KIND_CONSUMER)
        client->messages = rd_kafka_queue_get_consumer(client->handle);
    if (client->logger != NULL)
        rd_kafka_set_log_queue(client->handle, NULL);
    if (client->on_token == NULL)
        return 0;
    rd_kafka_error_t *failed = rd_kafka_sasl_background_callbacks_enable(client->handle);
    if (failed != NULL) {
        none_or_raise(failed);
        return -1;
    }
    return renew_token(client->handle, client->on_token, "");
}

/* Events: errors go to `error_cb`, log lines to `logger`, as confluent_kafka does it. */

static PyObject *tell_error(Client *client, rd_kafka_event_t *event)
{
    char text[512];
    if (client->on_error == NULL)
        Py_RETURN_NONE;
    bool is_fatal = rd_kafka_event_error_is_fatal(event) != 0;
    int code = is_fatal ? rd_kafka_fatal_error(client->handle, text, sizeof text) : rd_kafka_event_error(event);
    PyObject *error
        = kafka_error(code, is_fatal ? text : rd_kafka_event_error_string(event), (ErrorKind){.is_fatal = is_fatal});
    PyObject *done = error == NULL ? NULL : PyObject_CallFunctionObjArgs(client->on_error, error, NULL);
    Py_XDECREF(error);
    return done;
}

static PyObject *tell_log_line(Client *client, rd_kafka_event_t *event)
{
    static const int python_levels[] = {50, 50, 50, 40, 30, 20, 20, 10}; /* of those that syslog counts from 0 */
    const char *facility, *text;
    int level;
    if (client->logger == NULL || rd_kafka_event_log(event, &facility, &text, &level) != 0)
        Py_RETURN_NONE;
    return PyObject_CallMethod(client->logger, "log", "issss", python_levels[level & 7], "%s [%s] %s", facility,
                               rd_kafka_name(client->handle), text);
}

/* Call the functions for one event, and destroy it. Return 0, or -1 with an error set. */
static int tell_event(Client *client, rd_kafka_event_t *event)
{
    int type = rd_kafka_event_type(event);
    PyObject *done = type == EVENT_ERROR ? tell_error(client, event)
        : type == EVENT_LOG              ? tell_log_line(client, event)
                                         : Py_NewRef(Py_None);
    rd_kafka_event_destroy(event);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Call the functions for the events that have come. Return 0, or -1 if one raised an error. For a user of the client. */
static int tell_events(Client *client)
{
    while (rd_kafka_queue_length(client->events) > 0) {
        rd_kafka_event_t *event;
        Py_BEGIN_ALLOW_THREADS
        event = rd_kafka_queue_poll(client->events, 0);
        Py_END_ALLOW_THREADS
        if (event == NULL)
            break;
        if (tell_event(client, event) < 0)
            return -1;
    }
    return 0;
}

/* Seconds as the milliseconds that the library takes. */
static int milliseconds(double seconds)
{
    double wanted = seconds * 1000;
    return wanted >= INT_MAX ? INT_MAX : wanted > 0 ? (int)wanted : 0;
}

/* Return the partitions of a sequence of (topic, partition, offset), or NULL with an error set. */
static rd_kafka_topic_partition_list_t *partitions_of(PyObject *sequence)
{
    PyObject *each, *partitions = PySequence_List(sequence);
    if (partitions == NULL)
        return NULL;
    Py_ssize_t count = PyList_Size(partitions);
    rd_kafka_topic_partition_list_t *found = rd_kafka_topic_partition_list_new((int)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *topic;
        int partition;
        long long offset;
        each = PyList_GetItem(partitions, i);
        if (!PyArg_ParseTuple(each, "siL", &topic, &partition, &offset)) {
            rd_kafka_topic_partition_list_destroy(found);
            found = NULL;
            break;
        }
        rd_kafka_topic_partition_list_add(found, topic, partition)->offset = offset;
    }
    Py_DECREF(partitions);
    return found;
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

/* A run: messages of one partition as columns in Arrow's layout, in one block of memory.
 *
 * ENDS are int32, one more than there are rows: each row of bytes begins where the one before ends. BITS have a 1 for
 * each row that is not null. HEADER_ENDS count headers, the rest of the header columns has a row for each header.
 */
enum {
    OFFSETS, /* int64 */
    TIMES,   /* int64, milliseconds */
    KINDS,   /* int32: whose time it is, as Kafka counts: 0 of the producer, 1 of the log, -1 unknown */
    KEY_BITS,
    KEY_ENDS,
    KEY_BYTES,
    VALUE_BITS,
    VALUE_ENDS,
    VALUE_BYTES,
    HEADER_ENDS,
    NAME_ENDS,
    NAME_BYTES,
    CONTENT_BITS,
    CONTENT_ENDS,
    CONTENT_BYTES,
    SECTIONS,
};

typedef struct {
    int64_t rows, headers, key_bytes, value_bytes, name_bytes, content_bytes;
} Sizes;

typedef struct {
    Sizes sizes;
    bool has_plain_names;         /* all header names are ASCII */
    int64_t starts[SECTIONS + 1]; /* where each section begins, and the end of the last */
    char *block;
} Columns;

/* A run while its messages are counted and copied. */
typedef struct {
    rd_kafka_topic_t *topic;
    int32_t partition;
    Sizes filled;
    Columns columns;
} Draft;

typedef struct {
    rd_kafka_message_t **messages;
    int64_t *draft_of; /* of each message */
    size_t count, room;
    Draft *drafts;
    int64_t draft_count, draft_room;
} Fetched;

static int64_t bytes_in(const Sizes *sizes)
{
    return sizes->key_bytes + sizes->value_bytes + sizes->name_bytes + sizes->content_bytes;
}

/* Counting what the messages hold. */

static void count_headers(const rd_kafka_message_t *message, Sizes *sizes, bool *has_plain_names)
{
    rd_kafka_headers_t *headers;
    const char *name;
    const void *content;
    size_t size;
    if (rd_kafka_message_headers(message, &headers) != 0)
        return;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &content, &size) == 0; i++) {
        sizes->headers++;
        sizes->content_bytes += content == NULL ? 0 : (int64_t)size;
        for (; *name != '\0'; name++, sizes->name_bytes++)
            if ((unsigned char)*name >= 0x80)
                *has_plain_names = false;
    }
}

/* Return the number of the draft for a message, or -1 without memory. Neighbours mostly share one. */
static int64_t find_draft(Fetched *fetched, const rd_kafka_message_t *message, int64_t bytes, int64_t most_bytes)
{
    for (int64_t i = fetched->draft_count - 1; i >= 0; i--) {
        Draft *draft = &fetched->drafts[i];
        if (draft->topic != message->topic || draft->partition != message->partition)
            continue;
        if (bytes <= most_bytes - bytes_in(&draft->columns.sizes))
            return i;
        break;
    }
    if (fetched->draft_count == fetched->draft_room) {
        int64_t room = fetched->draft_room == 0 ? 4 : 2 * fetched->draft_room;
        Draft *drafts = realloc(fetched->drafts, (size_t)room * sizeof *drafts);
        if (drafts == NULL)
            return -1;
        fetched->drafts = drafts;
        fetched->draft_room = room;
    }
    fetched->drafts[fetched->draft_count]
        = (Draft){.topic = message->topic, .partition = message->partition, .columns = {.has_plain_names = true}};
    return fetched->draft_count++;
}

static int count_message(Fetched *fetched, size_t number, int64_t most_bytes)
{
    const rd_kafka_message_t *message = fetched->messages[number];
    bool has_plain_names = true;
    Sizes found = {
        .key_bytes = message->key == NULL ? 0 : (int64_t)message->key_size,
        .value_bytes = message->value == NULL ? 0 : (int64_t)message->value_size,
    };
    count_headers(message, &found, &has_plain_names);
    int64_t chosen = find_draft(fetched, message, bytes_in(&found), most_bytes);
    if (chosen < 0)
        return -1;
    fetched->draft_of[number] = chosen;
    Columns *columns = &fetched->drafts[chosen].columns;
    columns->has_plain_names &= has_plain_names;
    columns->sizes.rows++;
    columns->sizes.headers += found.headers;
    columns->sizes.key_bytes += found.key_bytes;
    columns->sizes.value_bytes += found.value_bytes;
    columns->sizes.name_bytes += found.name_bytes;
    columns->sizes.content_bytes += found.content_bytes;
    return 0;
}

/* Giving each section its place. */

static int lay_out(Columns *columns)
{
    const Sizes *sizes = &columns->sizes;
    const int64_t lengths[SECTIONS] = {
        [OFFSETS] = 8 * sizes->rows,
        [TIMES] = 8 * sizes->rows,
        [KINDS] = 4 * sizes->rows,
        [KEY_BITS] = sizes->rows / 8 + 1,
        [KEY_ENDS] = 4 * (sizes->rows + 1),
        [KEY_BYTES] = sizes->key_bytes,
        [VALUE_BITS] = sizes->rows / 8 + 1,
        [VALUE_ENDS] = 4 * (sizes->rows + 1),
        [VALUE_BYTES] = sizes->value_bytes,
        [HEADER_ENDS] = 4 * (sizes->rows + 1),
        [NAME_ENDS] = 4 * (sizes->headers + 1),
        [NAME_BYTES] = sizes->name_bytes,
        [CONTENT_BITS] = sizes->headers / 8 + 1,
        [CONTENT_ENDS] = 4 * (sizes->headers + 1),
        [CONTENT_BYTES] = sizes->content_bytes,
    };
    int64_t end = 0;
    for (int i = 0; i < SECTIONS; i++) {
        columns->starts[i] = end;
        end += (lengths[i] + 7) / 8 * 8;
    }
    columns->starts[SECTIONS] = end;
    columns->block = malloc((size_t)end);
    if (columns->block == NULL)
        return -1;
    static const int bits[] = {KEY_BITS, VALUE_BITS, CONTENT_BITS};
    static const int ends[] = {KEY_ENDS, VALUE_ENDS, HEADER_ENDS, NAME_ENDS, CONTENT_ENDS};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        memset(columns->block + columns->starts[bits[i]], 0, (size_t)lengths[bits[i]]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        memset(columns->block + columns->starts[ends[i]], 0, 4);
    return 0;
}

static int64_t *longs(const Columns *columns, int section)
{
    return (int64_t *)(void *)(columns->block + columns->starts[section]);
}

static int32_t *ints(const Columns *columns, int section)
{
    return (int32_t *)(void *)(columns->block + columns->starts[section]);
}

static bool is_set(const Columns *columns, int section, int64_t row)
{
    return columns->block[columns->starts[section] + row / 8] >> (row % 8) & 1;
}

/* Copying the messages. */

/* Append bytes to a column whose sections are BITS, ENDS and BYTES, one after the other. */
static void put(const Columns *columns, int bits, int64_t row, int64_t *filled, const void *bytes, size_t size)
{
    if (bytes != NULL) {
        columns->block[columns->starts[bits] + row / 8] |= (char)(1 << (row % 8));
        memcpy(columns->block + columns->starts[bits + 2] + *filled, bytes, size);
        *filled += (int64_t)size;
    }
    ints(columns, bits + 1)[row + 1] = (int32_t)*filled;
}

static void put_headers(Draft *draft, const rd_kafka_message_t *message)
{
    const Columns *columns = &draft->columns;
    Sizes *filled = &draft->filled;
    rd_kafka_headers_t *headers;
    const char *name;
    const void *content;
    size_t size;
    if (columns->sizes.headers > 0 && rd_kafka_message_headers(message, &headers) == 0)
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &content, &size) == 0; i++) {
            size_t name_size = strlen(name);
            memcpy(columns->block + columns->starts[NAME_BYTES] + filled->name_bytes, name, name_size);
            filled->name_bytes += (int64_t)name_size;
            ints(columns, NAME_ENDS)[filled->headers + 1] = (int32_t)filled->name_bytes;
            put(columns, CONTENT_BITS, filled->headers, &filled->content_bytes, content, size);
            filled->headers++;
        }
    ints(columns, HEADER_ENDS)[filled->rows + 1] = (int32_t)filled->headers;
}

static void put_message(Draft *draft, const rd_kafka_message_t *message)
{
    const Columns *columns = &draft->columns;
    Sizes *filled = &draft->filled;
    int kind;
    longs(columns, OFFSETS)[filled->rows] = message->offset;
    longs(columns, TIMES)[filled->rows] = rd_kafka_message_timestamp(message, &kind);
    ints(columns, KINDS)[filled->rows] = kind - 1; /* the library counts from 1 */
    put(columns, KEY_BITS, filled->rows, &filled->key_bytes, message->key, message->key_size);
    put(columns, VALUE_BITS, filled->rows, &filled->value_bytes, message->value, message->value_size);
    put_headers(draft, message);
    filled->rows++;
}

/* Fill the drafts from the messages that are no errors. Return 0, or -1 without memory. Needs no Python. */
static int fill_drafts(Fetched *fetched, int64_t most_bytes)
{
    for (size_t i = 0; i < fetched->count; i++)
        if (fetched->messages[i]->err == 0 && count_message(fetched, i, most_bytes) < 0)
            return -1;
    for (int64_t i = 0; i < fetched->draft_count; i++)
        if (lay_out(&fetched->drafts[i].columns) < 0)
            return -1;
    for (size_t i = 0; i < fetched->count; i++)
        if (fetched->messages[i]->err == 0)
            put_message(&fetched->drafts[fetched->draft_of[i]], fetched->messages[i]);
    return 0;
}

/* Return the bytes of messages from number `first` on. */
static int64_t bytes_from(const Fetched *fetched, size_t first)
{
    int64_t bytes = 0;
    for (size_t i = first; i < fetched->count; i++)
        if (fetched->messages[i]->err == 0)
            bytes += (int64_t)(fetched->messages[i]->key_size + fetched->messages[i]->value_size);
    return bytes;
}

/* Wait for one message, and take others that are there, until they have about `most_bytes`. Needs no Python. */
static void receive(rd_kafka_queue_t *queue, Fetched *fetched, int64_t most_bytes, int timeout)
{
    rd_kafka_message_t *first = rd_kafka_consume_queue(queue, timeout);
    if (first == NULL)
        return;
    fetched->messages[fetched->count++] = first;
    int64_t bytes = bytes_from(fetched, 0);
    while (fetched->count < fetched->room && bytes < most_bytes) {
        size_t before = fetched->count, wanted = fetched->room - before;
        size_t fitting = (size_t)((most_bytes - bytes) / (bytes / (int64_t)before + 1)) + 1;
        if (wanted > fitting)
            wanted = fitting;
        ssize_t more = rd_kafka_consume_batch_queue(queue, 0, fetched->messages + before, wanted);
        if (more > 0)
            fetched->count += (size_t)more;
        if (more < (ssize_t)wanted)
            break;
        bytes += bytes_from(fetched, before);
    }
}

static int open_fetched(Fetched *fetched, Py_ssize_t most)
{
    *fetched = (Fetched){.room = most < 1 ? 1 : (size_t)most};
    fetched->messages = calloc(fetched->room, sizeof *fetched->messages);
    fetched->draft_of = calloc(fetched->room, sizeof *fetched->draft_of);
    return fetched->messages == NULL || fetched->draft_of == NULL ? -1 : 0;
}

static void close_fetched(Fetched *fetched)
{
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < fetched->count; i++)
        rd_kafka_message_destroy(fetched->messages[i]);
    for (int64_t i = 0; i < fetched->draft_count; i++)
        free(fetched->drafts[i].columns.block);
    free(fetched->drafts);
    free(fetched->draft_of);
    free(fetched->messages);
    Py_END_ALLOW_THREADS
}

/* The type Run. It offers its block as a buffer, and its columns as lists. */

typedef struct {
    PyObject_HEAD
    Columns columns;
} Run;

static PyTypeObject *run_type;

/* Return a run that takes over the block of a draft. */
static PyObject *new_run(Columns *columns)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(run_type, Py_tp_alloc);
    Run *run = (Run *)allocate(run_type, 0);
    if (run == NULL)
        return NULL;
    run->columns = *columns;
    columns->block = NULL;
    return (PyObject *)run;
}

static void free_run(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Run *)self)->columns.block);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Py_ssize_t run_length(PyObject *self)
{
    return (Py_ssize_t)((Run *)self)->columns.sizes.rows;
}

static int run_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const Columns *columns = &((Run *)self)->columns;
    return PyBuffer_FillInfo(view, self, columns->block, (Py_ssize_t)columns->starts[SECTIONS], 1, flags);
}

static PyObject *run_layout(PyObject *self, PyObject *unused)
{
    (void)unused;
    const Columns *columns = &((Run *)self)->columns;
    PyObject *starts = PyTuple_New(SECTIONS + 1);
    for (int i = 0; starts != NULL && i <= SECTIONS; i++) {
        PyObject *start = PyLong_FromLongLong(columns->starts[i]);
        if (start == NULL || PyTuple_SetItem(starts, i, start) < 0)
            Py_CLEAR(starts);
    }
    return Py_BuildValue("(NLN)", starts, (long long)columns->sizes.headers,
                         PyBool_FromLong(columns->has_plain_names));
}

typedef PyObject *(*cell_maker)(const Columns *, int, int64_t);

/* Return a list of what `make` returns for each row. */
static PyObject *list_of(PyObject *self, cell_maker make, int section)
{
    const Columns *columns = &((Run *)self)->columns;
    PyObject *list = PyList_New((Py_ssize_t)columns->sizes.rows);
    for (int64_t row = 0; list != NULL && row < columns->sizes.rows; row++) {
        PyObject *cell = make(columns, section, row);
        if (cell == NULL || PyList_SetItem(list, (Py_ssize_t)row, cell) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *bytes_or_none(const Columns *columns, int bits, int64_t row)
{
    const int32_t *ends = ints(columns, bits + 1);
    if (!is_set(columns, bits, row))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(columns->block + columns->starts[bits + 2] + ends[row], ends[row + 1] - ends[row]);
}

static PyObject *number(const Columns *columns, int section, int64_t row)
{
    return PyLong_FromLongLong(longs(columns, section)[row]);
}

static PyObject *number_in_tuple(const Columns *columns, int section, int64_t row)
{
    PyObject *made = PyTuple_New(1), *cell = number(columns, section, row);
    if (made == NULL || cell == NULL || PyTuple_SetItem(made, 0, cell) < 0)
        Py_CLEAR(made);
    return made;
}

/* Return (name, content) of a header. */
static PyObject *header_pair(const Columns *columns, int64_t header)
{
    const int32_t *ends = ints(columns, NAME_ENDS);
    PyObject *name = PyUnicode_DecodeUTF8(columns->block + columns->starts[NAME_BYTES] + ends[header],
                                          ends[header + 1] - ends[header], NULL);
    PyObject *content = bytes_or_none(columns, CONTENT_BITS, header);
    return name == NULL || content == NULL ? (Py_XDECREF(name), Py_XDECREF(content), NULL)
                                           : Py_BuildValue("(NN)", name, content);
}

static PyObject *headers_of_row(const Columns *columns, int section, int64_t row)
{
    const int32_t *ends = ints(columns, section);
    PyObject *made = PyTuple_New(ends[row + 1] - ends[row]);
    for (int32_t i = ends[row]; made != NULL && i < ends[row + 1]; i++) {
        PyObject *pair = header_pair(columns, i);
        if (pair == NULL || PyTuple_SetItem(made, i - ends[row], pair) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *run_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, bytes_or_none, KEY_BITS);
}

static PyObject *run_values(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, bytes_or_none, VALUE_BITS);
}

static PyObject *run_headers(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, headers_of_row, HEADER_ENDS);
}

static PyObject *run_coordinates(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, number_in_tuple, OFFSETS);
}

static PyObject *run_times(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, number, TIMES);
}

static PyObject *run_next_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    const Columns *columns = &((Run *)self)->columns;
    return PyLong_FromLongLong(longs(columns, OFFSETS)[columns->sizes.rows - 1] + 1);
}

static PyMethodDef run_methods[] = {
    {"layout", run_layout, METH_NOARGS, "Return where the sections of the block begin, the number of headers, and"
                                        " whether their names are ASCII."},
    {"keys", run_keys, METH_NOARGS, "Return the keys."},
    {"values", run_values, METH_NOARGS, "Return the values."},
    {"headers", run_headers, METH_NOARGS, "Return the headers of each message."},
    {"coordinates", run_coordinates, METH_NOARGS, "Return the offset of each message, alone in a tuple."},
    {"times", run_times, METH_NOARGS, "Return the timestamps in milliseconds."},
    {"next_offset", run_next_offset, METH_NOARGS, "Return the offset behind the last message."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, "Messages of one partition, in columns."},
    {Py_tp_dealloc, free_run},
    {Py_sq_length, run_length},
    {Py_bf_getbuffer, run_buffer},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

static PyType_Spec run_spec = {
    "mqplug_kafka_native._native.Run", sizeof(Run), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, run_slots,
};

/* The type Reader: a consumer that is told which partitions to fetch. */

enum { WAIT_SLICE_MS = 100 }; /* between two looks for signals */

typedef struct {
    PyObject_HEAD
    Client client;
    int64_t most_bytes, run_bytes;
} Reader;

static PyObject *new_reader(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    static char *names[] = {"options", "most_bytes", "run_bytes", NULL};
    PyObject *options;
    long long most_bytes, run_bytes = INT32_MAX;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!L|L", names, &PyDict_Type, &options, &most_bytes, &run_bytes))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *reader = (Reader *)allocate(type, 0);
    if (reader == NULL)
        return NULL;
    reader->most_bytes = most_bytes;
    reader->run_bytes = run_bytes < INT32_MAX ? run_bytes : INT32_MAX;
    if (open_client(&reader->client, KIND_CONSUMER, options, 0) < 0) {
        Py_DECREF(reader);
        return NULL;
    }
    return (PyObject *)reader;
}

static int visit_reader(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return visit_client(&((Reader *)self)->client, visit, arg);
}

static int clear_reader(PyObject *self)
{
    clear_client(&((Reader *)self)->client);
    return 0;
}

static void free_reader(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    destroy_client(&((Reader *)self)->client);
    clear_reader(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Wait for messages, in slices between which events are told and signals are heard. Return 0, or -1 with an error. */
static int wait_for_messages(Reader *reader, Fetched *fetched, int timeout)
{
    Client *client = &reader->client;
    for (int left = timeout;; left -= WAIT_SLICE_MS) {
        int slice = left < WAIT_SLICE_MS ? left : WAIT_SLICE_MS;
        if (tell_events(client) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        receive(client->messages, fetched, reader->most_bytes, slice < 0 ? 0 : slice);
        Py_END_ALLOW_THREADS
        if (fetched->count > 0 || left <= WAIT_SLICE_MS || client->is_closed)
            return 0;
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}

/* Return (topic, partition, run) of a draft, which gives its block away. */
static PyObject *name_and_run(Draft *draft)
{
    PyObject *run = new_run(&draft->columns);
    return run == NULL ? NULL : Py_BuildValue("(siN)", rd_kafka_topic_name(draft->topic), draft->partition, run);
}

/* Return (topic, partition, offset, error) of a message that is an error. */
static PyObject *error_of_partition(const rd_kafka_message_t *message)
{
    PyObject *error = kafka_error(message->err, rd_kafka_message_errstr(message), (ErrorKind){0});
    const char *topic = message->topic == NULL ? "" : rd_kafka_topic_name(message->topic);
    return error == NULL ? NULL
                         : Py_BuildValue("(siLN)", topic, message->partition, (long long)message->offset, error);
}

static int append(PyObject *list, PyObject *made)
{
    int failed = list == NULL || made == NULL ? -1 : PyList_Append(list, made);
    Py_XDECREF(made);
    return failed;
}

/* Return (runs, errors), each in the order in which they came. */
static PyObject *runs_and_errors(Fetched *fetched)
{
    PyObject *runs = PyList_New(0), *errors = PyList_New(0);
    int failed = runs == NULL || errors == NULL ? -1 : 0;
    for (int64_t i = 0; failed == 0 && i < fetched->draft_count; i++)
        failed = append(runs, name_and_run(&fetched->drafts[i]));
    for (size_t i = 0; failed == 0 && i < fetched->count; i++)
        if (fetched->messages[i]->err != 0)
            failed = append(errors, error_of_partition(fetched->messages[i]));
    if (failed == 0)
        return Py_BuildValue("(NN)", runs, errors);
    Py_XDECREF(runs);
    Py_XDECREF(errors);
    return NULL;
}

static PyObject *fetch(Reader *reader, Py_ssize_t most, int timeout)
{
    Fetched fetched;
    PyObject *result = NULL;
    int failed = open_fetched(&fetched, most);
    if (failed == 0 && wait_for_messages(reader, &fetched, timeout) == 0) {
        Py_BEGIN_ALLOW_THREADS
        failed = fill_drafts(&fetched, reader->run_bytes);
        Py_END_ALLOW_THREADS
        if (failed == 0)
            result = runs_and_errors(&fetched);
    }
    close_fetched(&fetched);
    return failed != 0 ? PyErr_NoMemory() : result;
}

static PyObject *reader_poll(PyObject *self, PyObject *arguments)
{
    Reader *reader = (Reader *)self;
    Py_ssize_t most;
    double timeout;
    if (!PyArg_ParseTuple(arguments, "nd", &most, &timeout) || enter_client(&reader->client) < 0)
        return NULL;
    PyObject *result = fetch(reader, most, milliseconds(timeout));
    leave_client(&reader->client);
    return result;
}

/* Change the assignment by one of the library's functions. */
static PyObject *reassign(PyObject *self, PyObject *argument,
                          rd_kafka_error_t *(*change)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *))
{
    Client *client = &((Reader *)self)->client;
    rd_kafka_topic_partition_list_t *partitions = partitions_of(argument);
    if (partitions == NULL || enter_client(client) < 0) {
        if (partitions != NULL)
            rd_kafka_topic_partition_list_destroy(partitions);
        return NULL;
    }
    rd_kafka_error_t *returned;
    Py_BEGIN_ALLOW_THREADS
    returned = change(client->handle, partitions);
    rd_kafka_topic_partition_list_destroy(partitions);
    Py_END_ALLOW_THREADS
    leave_client(client);
    return none_or_raise(returned);
}

static PyObject *reader_assign(PyObject *self, PyObject *argument)
{
    return reassign(self, argument, rd_kafka_incremental_assign);
}

static PyObject *reader_unassign(PyObject *self, PyObject *argument)
{
    return reassign(self, argument, rd_kafka_incremental_unassign);
}

/* Pause or resume partitions by one of the library's functions. */
static PyObject *change_flow(PyObject *self, PyObject *argument,
                             int (*change)(rd_kafka_t *, rd_kafka_topic_partition_list_t *))
{
    Client *client = &((Reader *)self)->client;
    rd_kafka_topic_partition_list_t *partitions = partitions_of(argument);
    if (partitions == NULL || enter_client(client) < 0) {
        if (partitions != NULL)
            rd_kafka_topic_partition_list_destroy(partitions);
        return NULL;
    }
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = change(client->handle, partitions);
    rd_kafka_topic_partition_list_destroy(partitions);
    Py_END_ALLOW_THREADS
    leave_client(client);
    if (failed != 0)
        return raise_code(failed, NULL);
    Py_RETURN_NONE;
}

static PyObject *reader_pause(PyObject *self, PyObject *argument)
{
    return change_flow(self, argument, rd_kafka_pause_partitions);
}

static PyObject *reader_resume(PyObject *self, PyObject *argument)
{
    return change_flow(self, argument, rd_kafka_resume_partitions);
}

static PyObject *reader_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    Client *client = &((Reader *)self)->client;
    if (client->users > 0 && client->handle != NULL && !is_foreign(client))
        rd_kafka_queue_yield(client->messages);
    close_client(client);
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"poll", reader_poll, METH_VARARGS,
     "Return up to `most` messages that come within `timeout` seconds: a list of (topic, partition, run), and one of"
     " errors as (topic, partition, offset, error)."},
    {"assign", reader_assign, METH_O, "Fetch these (topic, partition, offset) too."},
    {"unassign", reader_unassign, METH_O, "Stop fetching these (topic, partition, offset), whatever the offset."},
    {"pause", reader_pause, METH_O, "Pause these (topic, partition, offset), whatever the offset."},
    {"resume", reader_resume, METH_O, "Resume these (topic, partition, offset), whatever the offset."},
    {"close", reader_close, METH_NOARGS, "End the client, and a poll that is under way."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "A consumer that is told which partitions to fetch, and from where."},
    {Py_tp_new, new_reader},
    {Py_tp_dealloc, free_reader},
    {Py_tp_traverse, visit_reader},
    {Py_tp_clear, clear_reader},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    "mqplug_kafka_native._native.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, reader_slots,
};

/* -- Sending ----------------------------------------------------------------------------------------------------- */

/* -- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Take the library's functions from the client's extension module at this path."},
    {"library_version", library_version, METH_NOARGS, "Return the version of the library."},
    {NULL, NULL, 0, NULL},
};

static int add_types(PyObject *module)
{
    run_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &run_spec, NULL);
    PyObject *reader_type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    int failed = run_type == NULL || PyModule_AddType(module, run_type) < 0 || reader_type == NULL
        || PyModule_AddType(module, (PyTypeObject *)reader_type) < 0;
    Py_XDECREF(reader_type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled part.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}

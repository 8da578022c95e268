/* The compiled part of mqplug-kafka: columns in, reports out, over confluent-kafka's own library.
 *
 * It does not link the library. `load` opens the client's extension module, which has the library as a dependency, and
 * takes the functions from it, so that the process has one copy. Functions are called without Python's lock wherever
 * they may wait, and while messages are copied.
 *
 * Sections: the library's functions; shared parts; reading; sending; the module. `_collecting.c` has the classes that do
 * without the library.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_collecting.h"

/* -- The library's functions ------------------------------------------------------------------------------------- */

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_event_s rd_kafka_event_t;
typedef struct rd_kafka_consumer_group_metadata_s rd_kafka_consumer_group_metadata_t;
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

/* A field of a sent record. */
typedef struct {
    int kind;
    union {
        rd_kafka_topic_t *topic;
        int32_t partition;
        int64_t time;
        struct {
            void *start;
            size_t size;
        } bytes;
        rd_kafka_headers_t *headers;
        void *opaque;
        char room[64];
    };
} rd_kafka_vu_t;

enum { FIELD_TOPIC = 2, FIELD_PARTITION, FIELD_VALUE, FIELD_KEY, FIELD_OPAQUE, FIELD_TIME = 8, FIELD_HEADERS = 10 };

typedef void (*token_refresh)(rd_kafka_t *, const char *, void *);
typedef void (*error_callback)(rd_kafka_t *, int, const char *, void *);
typedef void (*log_callback)(const rd_kafka_t *, int, const char *, const char *);
typedef void (*delivery_callback)(rd_kafka_t *, const rd_kafka_message_t *, void *);

enum { KIND_PRODUCER = 0, KIND_CONSUMER = 1 };
enum { EVENT_LOG = 0x4, EVENT_ERROR = 0x8 };
enum { ERROR_INVALID_ARGUMENT = -186, ERROR_QUEUE_FULL = -184, ERROR_FATAL = -150 };
enum { PURGE_QUEUED = 0x1, PURGE_IN_FLIGHT = 0x2 };
enum { DESTROY_WITHOUT_LEAVING = 0x8 };

/* Each: result, name, arguments. The list declares a pointer for each function, and names it for `load`. */
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
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *)) \
    X(void *, rd_kafka_opaque, (const rd_kafka_t *)) \
    X(int, rd_kafka_last_error, (void)) \
    X(void, rd_kafka_conf_set_error_cb, (rd_kafka_conf_t *, error_callback)) \
    X(void, rd_kafka_conf_set_log_cb, (rd_kafka_conf_t *, log_callback)) \
    X(void, rd_kafka_conf_set_dr_msg_cb, (rd_kafka_conf_t *, delivery_callback)) \
    X(rd_kafka_topic_t *, rd_kafka_topic_new, (rd_kafka_t *, const char *, void *)) \
    X(void, rd_kafka_topic_destroy, (rd_kafka_topic_t *)) \
    X(rd_kafka_headers_t *, rd_kafka_headers_new, (size_t)) \
    X(int, rd_kafka_header_add, (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t)) \
    X(void, rd_kafka_headers_destroy, (rd_kafka_headers_t *)) \
    X(int, rd_kafka_produce_batch, (rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t)) \
    X(int, rd_kafka_poll, (rd_kafka_t *, int)) \
    X(int, rd_kafka_flush, (rd_kafka_t *, int)) \
    X(int, rd_kafka_purge, (rd_kafka_t *, int)) \
    X(int, rd_kafka_outq_len, (rd_kafka_t *)) \
    X(int, rd_kafka_metadata, (rd_kafka_t *, int, rd_kafka_topic_t *, const void **, int)) \
    X(void, rd_kafka_metadata_destroy, (const void *)) \
    X(void *, rd_kafka_mem_malloc, (rd_kafka_t *, size_t)) \
    X(rd_kafka_error_t *, rd_kafka_init_transactions, (rd_kafka_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_begin_transaction, (rd_kafka_t *)) \
    X(rd_kafka_error_t *, rd_kafka_commit_transaction, (rd_kafka_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_abort_transaction, (rd_kafka_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_send_offsets_to_transaction, \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *, const rd_kafka_consumer_group_metadata_t *, int)) \
    X(rd_kafka_error_t *, rd_kafka_consumer_group_metadata_read, \
      (rd_kafka_consumer_group_metadata_t **, const void *, size_t)) \
    X(void, rd_kafka_consumer_group_metadata_destroy, (rd_kafka_consumer_group_metadata_t *))

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

/* -- Shared parts ------------------------------------------------------------------------------------------------ */

static PyObject *library_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyUnicode_FromString(rd_kafka_version_str());
}

/* Errors are confluent_kafka's, so that callers treat both paths alike. */

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

/* Return a KafkaError. If `text` is NULL, it has the code's own text. */
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

/* Raise the error that a call of the library returned, and destroy it. NULL means success: then return None. */
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

/* A client of the library: the common head of readers and senders.
 *
 * Methods enter and leave it. If it is closed in between, the last method to leave destroys it. After a fork the child
 * has no threads of the library, so it does not touch the client.
 */
typedef struct {
    rd_kafka_t *handle;         /* NULL before it was opened, and after its end */
    rd_kafka_queue_t *events;   /* errors, log lines and reports */
    rd_kafka_queue_t *messages; /* of a consumer, else NULL */
    PyObject *on_error;         /* these three may be NULL */
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

static void take_messages_back(Client *client);

static void destroy_client(Client *client)
{
    rd_kafka_t *handle = client->handle;
    client->handle = NULL;
    if (handle == NULL || is_foreign(client))
        return;
    if (client->messages != NULL)
        take_messages_back(client);
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
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
        return -1;
    }
    if (is_foreign(client)) {
        PyErr_SetString(PyExc_RuntimeError, "the client belongs to the process before the fork");
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

/* Destroy the client, or leave it to the last running method, which a yield wakes. */
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

/* Return the mapping as pairs of texts, or NULL with an error set. */
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

/* Get a token from the provider and give it to the library. Return 0, or -1 with an error set. */
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

/* Called by a thread of the library when a token is about to expire. */
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

/* Options: a dict in confluent_kafka's form. `error_cb`, `logger` and `oauth_cb` are functions, the others texts. */

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

static int set_options(Client *client, rd_kafka_conf_t *conf, PyObject *options)
{
    PyObject *key, *value;
    Py_ssize_t next = 0;
    while (PyDict_Next(options, &next, &key, &value))
        if (set_option(client, conf, key, value) < 0)
            return -1;
    rd_kafka_conf_set_opaque(conf, client);
    rd_kafka_conf_set_events(conf, EVENT_ERROR | EVENT_LOG);
    if (client->logger != NULL)
        rd_kafka_conf_set(conf, "log.queue", "true", NULL, 0);
    if (client->on_token != NULL) {
        rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, on_token_refresh);
        rd_kafka_conf_enable_sasl_queue(conf, 1);
    }
    return 0;
}

/* Start the library's client. Its events are errors and log lines; `set_callbacks`, if given, adds more. */
static int open_client(Client *client, int kind, PyObject *options, void (*set_callbacks)(rd_kafka_conf_t *))
{
    char text[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    client->owner = getpid();
    if (set_options(client, conf, options) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    if (set_callbacks != NULL)
        set_callbacks(conf);
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

/* Events: errors go to `error_cb`, log lines to `logger`, as in confluent_kafka. */

static int tell_error(Client *client, int code, const char *text, bool is_fatal)
{
    if (client->on_error == NULL)
        return 0;
    PyObject *error = kafka_error(code, text, (ErrorKind){.is_fatal = is_fatal});
    PyObject *done = error == NULL ? NULL : PyObject_CallFunctionObjArgs(client->on_error, error, NULL);
    Py_XDECREF(error);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int tell_log_line(Client *client, int level, const char *facility, const char *text)
{
    static const int python_levels[] = {50, 50, 50, 40, 30, 20, 20, 10}; /* by syslog's levels, which begin at 0 */
    if (client->logger == NULL)
        return 0;
    PyObject *done = PyObject_CallMethod(client->logger, "log", "issss", python_levels[level & 7], "%s [%s] %s",
                                         facility, rd_kafka_name(client->handle), text);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int tell_error_event(Client *client, rd_kafka_event_t *event)
{
    char text[512] = "";
    if (!rd_kafka_event_error_is_fatal(event))
        return tell_error(client, rd_kafka_event_error(event), rd_kafka_event_error_string(event), false);
    int code = rd_kafka_fatal_error(client->handle, text, sizeof text);
    return tell_error(client, code, text, true);
}

static int tell_log_event(Client *client, rd_kafka_event_t *event)
{
    const char *facility, *text;
    int level;
    return rd_kafka_event_log(event, &facility, &text, &level) ? 0 : tell_log_line(client, level, facility, text);
}

/* Call the functions for one event, and destroy it. Return 0, or -1 with an error set. */
static int tell_event(Client *client, rd_kafka_event_t *event)
{
    int type = rd_kafka_event_type(event), told = 0;
    if (type == EVENT_ERROR)
        told = tell_error_event(client, event);
    else if (type == EVENT_LOG)
        told = tell_log_event(client, event);
    rd_kafka_event_destroy(event);
    return told;
}

/* Call the functions for the arrived events. Return 0, or -1 if one raised. The caller has entered the client. */
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

/* Convert seconds to the library's milliseconds. */
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

/* A run: messages of one partition. At first it has the library's messages, from which lists of keys, values and offsets
 * are made. Everything else comes from columns in Arrow's layout, in one block of memory, into which the messages are
 * copied on demand. A reader copies the messages of its runs before it polls again and before it ends, so that the
 * library gets all messages back.
 *
 * ENDS are int32, one more than the number of rows: each row of bytes begins where the previous one ends. BITS have a 1
 * for each row that is not null. HEADER_ENDS count headers; the other header columns have a row for each header.
 */
enum {
    OFFSETS, /* int64 */
    TIMES,   /* int64, milliseconds */
    KINDS,   /* int32: whose time it is, in Kafka's numbers: 0 the producer's, 1 the log's, -1 unknown */
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

/* A run whose messages are being gathered. */
typedef struct {
    rd_kafka_topic_t *topic;
    int32_t partition;
    int64_t bytes; /* of keys and values */
    int64_t count;
    rd_kafka_message_t **messages;
} Draft;

typedef struct {
    rd_kafka_message_t **messages; /* NULL for each message that is in a draft */
    size_t count, room;
    Draft *drafts;
    int64_t draft_count, draft_room;
} Fetched;

/* Counting the bytes and headers of messages. */

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

static void count_message(const rd_kafka_message_t *message, Columns *columns)
{
    Sizes *sizes = &columns->sizes;
    sizes->rows++;
    sizes->key_bytes += message->key == NULL ? 0 : (int64_t)message->key_size;
    sizes->value_bytes += message->value == NULL ? 0 : (int64_t)message->value_size;
    count_headers(message, sizes, &columns->has_plain_names);
}

/* Placing the sections. */

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

static void put_headers(const Columns *columns, Sizes *filled, const rd_kafka_message_t *message)
{
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

static void put_message(const Columns *columns, Sizes *filled, const rd_kafka_message_t *message)
{
    int kind;
    longs(columns, OFFSETS)[filled->rows] = message->offset;
    longs(columns, TIMES)[filled->rows] = rd_kafka_message_timestamp(message, &kind);
    ints(columns, KINDS)[filled->rows] = kind - 1; /* the library numbers from 1 */
    put(columns, KEY_BITS, filled->rows, &filled->key_bytes, message->key, message->key_size);
    put(columns, VALUE_BITS, filled->rows, &filled->value_bytes, message->value, message->value_size);
    put_headers(columns, filled, message);
    filled->rows++;
}

/* Copy messages into columns. Return 0, or -1 without memory or without room in 32 bits. Needs no Python. */
static int copy_messages(rd_kafka_message_t **messages, int64_t count, Columns *columns)
{
    Sizes filled = {0};
    *columns = (Columns){.has_plain_names = true};
    for (int64_t i = 0; i < count; i++)
        count_message(messages[i], columns);
    const Sizes *sizes = &columns->sizes;
    if (sizes->name_bytes > INT32_MAX || sizes->content_bytes > INT32_MAX || lay_out(columns) < 0)
        return -1;
    for (int64_t i = 0; i < count; i++)
        put_message(columns, &filled, messages[i]);
    return 0;
}

/* Gathering the messages of each partition. */

static int64_t bytes_of(const rd_kafka_message_t *message)
{
    return (int64_t)(message->key_size + message->value_size);
}

/* Return a new draft with room for this many messages, or NULL without memory. */
static Draft *add_draft(Fetched *fetched, const rd_kafka_message_t *message, size_t room)
{
    if (fetched->draft_count == fetched->draft_room) {
        int64_t drafts_room = fetched->draft_room == 0 ? 4 : 2 * fetched->draft_room;
        Draft *drafts = realloc(fetched->drafts, (size_t)drafts_room * sizeof *drafts);
        if (drafts == NULL)
            return NULL;
        fetched->drafts = drafts;
        fetched->draft_room = drafts_room;
    }
    Draft *draft = &fetched->drafts[fetched->draft_count];
    *draft = (Draft){.topic = message->topic, .partition = message->partition};
    draft->messages = malloc(room * sizeof *draft->messages);
    if (draft->messages == NULL)
        return NULL;
    fetched->draft_count++;
    return draft;
}

/* Return the draft to which a message belongs, or NULL if it needs a new one. Neighbours mostly share one. */
static Draft *find_draft(Fetched *fetched, const rd_kafka_message_t *message, int64_t most_bytes)
{
    for (int64_t i = fetched->draft_count - 1; i >= 0; i--) {
        Draft *draft = &fetched->drafts[i];
        if (draft->topic == message->topic && draft->partition == message->partition)
            return bytes_of(message) <= most_bytes - draft->bytes ? draft : NULL;
    }
    return NULL;
}

/* Put the messages, except errors, into drafts. Return 0, or -1 without memory. Needs no Python. */
static int gather(Fetched *fetched, int64_t most_bytes)
{
    for (size_t i = 0; i < fetched->count; i++) {
        rd_kafka_message_t *message = fetched->messages[i];
        if (message->err != 0)
            continue;
        Draft *draft = find_draft(fetched, message, most_bytes);
        if (draft == NULL)
            draft = add_draft(fetched, message, fetched->count - i);
        if (draft == NULL)
            return -1;
        draft->messages[draft->count++] = message;
        draft->bytes += bytes_of(message);
        fetched->messages[i] = NULL;
    }
    return 0;
}

/* Return the bytes of messages from number `first` on. */
static int64_t bytes_from(const Fetched *fetched, size_t first)
{
    int64_t bytes = 0;
    for (size_t i = first; i < fetched->count; i++)
        if (fetched->messages[i]->err == 0)
            bytes += bytes_of(fetched->messages[i]);
    return bytes;
}

/* Wait for one message, then take others that have arrived, up to about `most_bytes`. Needs no Python. */
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
    return fetched->messages == NULL ? -1 : 0;
}

/* Give messages back to the library, and free their array. Messages that are elsewhere are NULL in it. */
static void give_back(rd_kafka_message_t **messages, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (messages[i] != NULL)
            rd_kafka_message_destroy(messages[i]);
    free(messages);
}

static void close_fetched(Fetched *fetched)
{
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < fetched->draft_count; i++)
        give_back(fetched->drafts[i].messages, fetched->drafts[i].count);
    free(fetched->drafts);
    give_back(fetched->messages, (int64_t)fetched->count);
    Py_END_ALLOW_THREADS
}

/* The type Run. It offers its block as a buffer, and its columns as lists. Python's lock is held everywhere except for
 * copying. During a copy the run keeps its messages, and other threads that need the columns wait. */

typedef struct Reader Reader;

typedef struct Run {
    PyObject_HEAD
    int64_t rows;
    rd_kafka_message_t **messages; /* NULL once they are copied */
    Columns columns;               /* without a block until then */
    Reader *reader;                /* while this run has messages of the reader */
    pid_t copier;                  /* the process that is copying them, or 0 */
    struct Run *before, *after;    /* among the reader's runs that have messages */
} Run;

struct Reader {
    PyObject_HEAD
    Client client;
    int64_t most_bytes, run_bytes;
    Run *runs; /* the ones that have messages */
};

static PyTypeObject *run_type;

/* Return a run that takes the messages of a draft. */
static PyObject *new_run(Reader *reader, Draft *draft)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(run_type, Py_tp_alloc);
    Run *run = (Run *)allocate(run_type, 0);
    if (run == NULL)
        return NULL;
    run->rows = draft->count;
    run->messages = draft->messages;
    draft->messages = NULL;
    draft->count = 0;
    run->reader = reader;
    run->after = reader->runs;
    if (run->after != NULL)
        run->after->before = run;
    reader->runs = run;
    return (PyObject *)run;
}

/* Give the messages of a run back. A child process does not touch them. */
static void part_from_messages(Run *run)
{
    Reader *reader = run->reader;
    rd_kafka_message_t **messages = run->messages;
    run->messages = NULL;
    run->reader = NULL;
    if (reader == NULL)
        return;
    *(run->before == NULL ? &reader->runs : &run->before->after) = run->after;
    if (run->after != NULL)
        run->after->before = run->before;
    if (!is_foreign(&reader->client))
        give_back(messages, run->rows);
}

/* Wait while another thread copies the messages of a run. After a fork that thread does not exist. */
static void wait_for_copier(const Run *run)
{
    while (run->copier == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        sched_yield();
        Py_END_ALLOW_THREADS
    }
}

/* Copy the messages of a run, unless already done. Return 0, or -1 with an error set. The caller has a reference. */
static int ensure_columns(Run *run)
{
    Columns columns;
    int failed = -1;
    wait_for_copier(run);
    if (run->columns.block != NULL)
        return 0;
    if (run->messages != NULL) {
        run->copier = getpid();
        Py_BEGIN_ALLOW_THREADS
        failed = copy_messages(run->messages, run->rows, &columns);
        Py_END_ALLOW_THREADS
        run->copier = 0;
    }
    if (failed < 0) {
        PyErr_NoMemory();
        return -1;
    }
    run->columns = columns;
    part_from_messages(run);
    return 0;
}

/* Copy all messages that the runs of a reader still have, and give them back. */
static void take_messages_back(Client *client)
{
    Reader *reader = (Reader *)((char *)client - offsetof(Reader, client));
    while (reader->runs != NULL) {
        Run *run = reader->runs;
        Py_INCREF((PyObject *)run); /* its user may drop it during the copy */
        if (ensure_columns(run) < 0) {
            PyErr_Clear(); /* the run raises it again at its next use */
            part_from_messages(run);
        }
        Py_DECREF((PyObject *)run);
    }
}

static void free_run(PyObject *self)
{
    Run *run = (Run *)self;
    PyTypeObject *type = Py_TYPE(self);
    part_from_messages(run);
    free(run->columns.block);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Py_ssize_t run_length(PyObject *self)
{
    return (Py_ssize_t)((Run *)self)->rows;
}

static int run_buffer(PyObject *self, Py_buffer *view, int flags)
{
    if (ensure_columns((Run *)self) < 0)
        return -1;
    const Columns *columns = &((Run *)self)->columns;
    return PyBuffer_FillInfo(view, self, columns->block, (Py_ssize_t)columns->starts[SECTIONS], 1, flags);
}

static PyObject *run_layout(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (ensure_columns((Run *)self) < 0)
        return NULL;
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

typedef PyObject *(*cell_maker)(const Run *, int, int64_t);

/* Return a list of the results of `make` for each row. */
static PyObject *list_of(PyObject *self, cell_maker make, int section)
{
    const Run *run = (Run *)self;
    PyObject *list = PyList_New((Py_ssize_t)run->rows);
    for (int64_t row = 0; list != NULL && row < run->rows; row++) {
        PyObject *cell = make(run, section, row);
        if (cell == NULL || PyList_SetItem(list, (Py_ssize_t)row, cell) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Return such a list, made from the columns. */
static PyObject *list_of_columns(PyObject *self, cell_maker make, int section)
{
    return ensure_columns((Run *)self) < 0 ? NULL : list_of(self, make, section);
}

static PyObject *bytes_or_none(const Columns *columns, int bits, int64_t row)
{
    const int32_t *ends = ints(columns, bits + 1);
    if (!is_set(columns, bits, row))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(columns->block + columns->starts[bits + 2] + ends[row], ends[row + 1] - ends[row]);
}

/* Return a key or a value. */
static PyObject *bytes_of_row(const Run *run, int bits, int64_t row)
{
    if (run->messages == NULL)
        return run->columns.block == NULL ? PyErr_NoMemory() : bytes_or_none(&run->columns, bits, row);
    const rd_kafka_message_t *message = run->messages[row];
    const void *bytes = bits == KEY_BITS ? message->key : message->value;
    if (bytes == NULL)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)(bits == KEY_BITS ? message->key_size : message->value_size));
}

static PyObject *time_of_row(const Run *run, int section, int64_t row)
{
    return PyLong_FromLongLong(longs(&run->columns, section)[row]);
}

/* Return 0, or -1 with an error set. */
static int find_offset(const Run *run, int64_t row, int64_t *offset)
{
    if (run->messages == NULL && run->columns.block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *offset = run->messages == NULL ? longs(&run->columns, OFFSETS)[row] : run->messages[row]->offset;
    return 0;
}

static PyObject *offset_in_tuple(const Run *run, int section, int64_t row)
{
    int64_t offset;
    (void)section;
    return find_offset(run, row, &offset) < 0 ? NULL : Py_BuildValue("(L)", (long long)offset);
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

static PyObject *headers_of_row(const Run *run, int section, int64_t row)
{
    const Columns *columns = &run->columns;
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
    return list_of(self, bytes_of_row, KEY_BITS);
}

static PyObject *run_values(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, bytes_of_row, VALUE_BITS);
}

static PyObject *run_headers(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of_columns(self, headers_of_row, HEADER_ENDS);
}

static PyObject *run_coordinates(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, offset_in_tuple, OFFSETS);
}

static PyObject *run_times(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of_columns(self, time_of_row, TIMES);
}

static PyObject *run_next_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t offset;
    return find_offset((Run *)self, ((Run *)self)->rows - 1, &offset) < 0 ? NULL : PyLong_FromLongLong(offset + 1);
}

static PyMethodDef run_methods[] = {
    {"layout", run_layout, METH_NOARGS, "Return the starts of the block's sections, the number of headers, and"
                                        " whether their names are ASCII."},
    {"keys", run_keys, METH_NOARGS, "Return the keys."},
    {"values", run_values, METH_NOARGS, "Return the values."},
    {"headers", run_headers, METH_NOARGS, "Return the headers of each message."},
    {"coordinates", run_coordinates, METH_NOARGS, "Return the offset of each message, in a tuple of one."},
    {"times", run_times, METH_NOARGS, "Return the timestamps in milliseconds."},
    {"next_offset", run_next_offset, METH_NOARGS, "Return the offset after the last message."},
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

/* The type Reader: a consumer with an explicit assignment. */

enum { WAIT_SLICE_MS = 100 }; /* between two checks for signals */

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
    if (open_client(&reader->client, KIND_CONSUMER, options, NULL) < 0) {
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
    Reader *reader = (Reader *)self;
    destroy_client(&reader->client);
    take_messages_back(&reader->client); /* in a child process, which does not destroy the client */
    clear_reader(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Wait for messages, in slices between which events and signals are handled. Return 0, or -1 with an error set. */
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

/* Return (topic, partition, run) of a draft, which gives its messages away. */
static PyObject *name_and_run(Reader *reader, Draft *draft)
{
    PyObject *run = new_run(reader, draft);
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

/* Return (runs, errors), each in the order of arrival. */
static PyObject *runs_and_errors(Reader *reader, Fetched *fetched)
{
    PyObject *runs = PyList_New(0), *errors = PyList_New(0);
    int failed = runs == NULL || errors == NULL ? -1 : 0;
    for (int64_t i = 0; failed == 0 && i < fetched->draft_count; i++)
        failed = append(runs, name_and_run(reader, &fetched->drafts[i]));
    for (size_t i = 0; failed == 0 && i < fetched->count; i++)
        if (fetched->messages[i] != NULL)
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
        failed = gather(&fetched, reader->run_bytes);
        if (failed == 0)
            result = runs_and_errors(reader, &fetched);
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
    take_messages_back(&reader->client); /* from runs that are still in use; the others need no copy */
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
     "Return up to `most` messages that arrive within `timeout` seconds: a list of (topic, partition, run), and a list"
     " of errors as (topic, partition, offset, error)."},
    {"assign", reader_assign, METH_O, "Fetch these (topic, partition, offset) as well."},
    {"unassign", reader_unassign, METH_O, "Stop fetching these (topic, partition, offset). The offset is ignored."},
    {"pause", reader_pause, METH_O, "Pause these (topic, partition, offset). The offset is ignored."},
    {"resume", reader_resume, METH_O, "Resume these (topic, partition, offset). The offset is ignored."},
    {"close", reader_close, METH_NOARGS, "End the client and a running poll."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "A consumer with an explicit assignment of partitions and offsets."},
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

/* A sender takes runs of records, and returns one report for each run. Each record's opaque pointer is its row in the
 * run's array, where the library's thread notes partition, offset and error: nothing is matched afterwards. The bytes of
 * values are not copied before they are sent; a run holds the objects that own them until all its reports are in.
 */

#define MOST_AT_ONCE (1 << 20) /* records for one call of the library, which counts them in an int */
#define SEND_SLICE_MS 10       /* a wait is interrupted this often, to check for signals */
#define NO_TIME 0              /* "now" for the library */

enum { ON_ITS_WAY, REPORTED, REFUSED };

typedef struct {
    int64_t offset;
    int32_t partition;
    int32_t error;
    uint32_t number; /* of this row; finds its run */
    uint32_t state;
} SentRow;

typedef struct SentRun {
    struct SentRun *before, *after; /* among the runs of the sender; changed with Python's lock held */
    struct SentRun *next_news;      /* among the runs with news; changed with the sender's lock held */
    PyObject *owner;
    PyObject *held; /* the owners of the values' bytes */
    uint32_t count;
    uint32_t waiting; /* for this many reports, plus one while the run is being handed over */
    int32_t partition;
    int32_t error; /* the latest */
    bool has_news;
    bool twice; /* whether a row was reported twice */
    SentRow rows[];
} SentRun;

typedef struct {
    PyObject_HEAD
    Client client;
    pthread_mutex_t lock;
    SentRun *runs;
    SentRun *first_news, *last_news;
    PyObject *raised; /* by a callback; the next method that polls raises it */
    bool has_failed;  /* for good; the next method that polls raises the error */
} Sender;

static Sender *sender_of(Client *client)
{
    return (Sender *)((char *)client - offsetof(Sender, client));
}

/* Records: the columns of a run before its hand-over. */

typedef struct {
    const char *name, *value;
    size_t name_size, value_size;
} SentHeader;

typedef struct {
    uint32_t count;
    rd_kafka_message_t *messages;
    int64_t *times; /* NULL if no record has one */
    SentHeader *headers;
    size_t header_count, header_room;
    size_t *header_ends; /* by record; NULL if no record has headers */
    bool storable;       /* whether the library would send everything unchanged */
} SentRecords;

/* A column: a tuple of Python objects, or an array of Arrow's C data interface. */

typedef struct ArrowArray {
    int64_t length, null_count, offset, buffer_count, child_count;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
} ArrowArray;

typedef struct ArrowSchema {
    const char *format;
    const char *name, *metadata;
    int64_t flags, child_count;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
} ArrowSchema;

typedef struct {
    PyObject *objects;       /* a tuple: of the records, or of Arrow's schema and array; NULL without a column */
    const ArrowArray *array; /* NULL for a tuple of records */
    const ArrowSchema *schema;
} Column;

static const char EMPTY[] = "";

static void close_column(Column *column)
{
    Py_CLEAR(column->objects);
}

static bool open_arrow(Column *column)
{
    PyObject *schema = PyTuple_GetItem(column->objects, 0), *array = PyTuple_GetItem(column->objects, 1);
    if (schema == NULL || array == NULL)
        return false;
    column->schema = PyCapsule_GetPointer(schema, "arrow_schema");
    column->array = column->schema == NULL ? NULL : PyCapsule_GetPointer(array, "arrow_array");
    return column->array != NULL;
}

/* Open a column of this many records. False: an exception is set. */
static bool open_column(Column *column, PyObject *given, int64_t count)
{
    *column = (Column){NULL, NULL, NULL};
    if (given == Py_None)
        return true;
    int64_t length;
    if (PyList_Check(given) || PyTuple_Check(given)) {
        column->objects = PySequence_Tuple(given); /* a list might change */
        if (column->objects == NULL)
            return false;
        length = PyTuple_Size(column->objects);
    } else {
        column->objects = PyObject_CallMethod(given, "__arrow_c_array__", NULL);
        if (column->objects == NULL || !open_arrow(column)) {
            close_column(column);
            return false;
        }
        length = column->array->length;
    }
    if (length != count) {
        close_column(column);
        PyErr_Format(PyExc_ValueError, "a column has %lld records, another %lld", (long long)length, (long long)count);
        return false;
    }
    return true;
}

static bool is_null(const ArrowArray *array, int64_t place)
{
    const uint8_t *valid = array->buffers[0];
    return valid != NULL && !(valid[place >> 3] >> (place & 7) & 1);
}

/* Find the bytes in a row of a binary array or a string array. NULL for null. */
static const char *arrow_bytes(const ArrowArray *array, const ArrowSchema *schema, int64_t row, size_t *size)
{
    int64_t place = array->offset + row, start, end;
    *size = 0;
    if (is_null(array, place))
        return NULL;
    if (schema->format[0] == 'Z' || schema->format[0] == 'U') {
        const int64_t *offsets = array->buffers[1];
        start = offsets[place], end = offsets[place + 1];
    } else {
        const int32_t *offsets = array->buffers[1];
        start = offsets[place], end = offsets[place + 1];
    }
    *size = (size_t)(end - start);
    return *size == 0 ? EMPTY : (const char *)array->buffers[2] + start;
}

/* Find the bytes of an object that is bytes or None. False: an exception is set. */
static bool object_bytes(PyObject *object, const char **start, size_t *size)
{
    char *found = NULL;
    Py_ssize_t length = 0;
    if (object == NULL || (object != Py_None && PyBytes_AsStringAndSize(object, &found, &length) < 0))
        return false;
    *start = found;
    *size = (size_t)length;
    return true;
}

static bool column_bytes(const Column *column, uint32_t row, const char **start, size_t *size)
{
    if (column->array == NULL)
        return object_bytes(PyTuple_GetItem(column->objects, row), start, size);
    *start = arrow_bytes(column->array, column->schema, row, size);
    return true;
}

static void free_records(SentRecords *records)
{
    free(records->messages);
    free(records->times);
    free(records->headers);
    free(records->header_ends);
}

/* Take a header, which must not have NUL in its name. False: an exception is set. */
static bool add_header(SentRecords *records, SentHeader header)
{
    if (records->header_count == records->header_room) {
        size_t room = records->header_room ? 2 * records->header_room : 64;
        SentHeader *grown = room > SIZE_MAX / sizeof *grown ? NULL : realloc(records->headers, room * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            return false;
        }
        records->headers = grown;
        records->header_room = room;
    }
    if (memchr(header.name, 0, header.name_size) != NULL)
        records->storable = false;
    records->headers[records->header_count++] = header;
    return true;
}

static bool add_object_header(SentRecords *records, PyObject *pair)
{
    SentHeader header;
    Py_ssize_t size = 0;
    if (pair == NULL)
        return false;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "a header is a tuple of a name and a value");
        return false;
    }
    header.name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), &size);
    header.name_size = (size_t)size;
    return header.name != NULL && object_bytes(PyTuple_GetItem(pair, 1), &header.value, &header.value_size)
        && add_header(records, header);
}

static bool add_object_headers(SentRecords *records, PyObject *pairs)
{
    if (pairs == NULL)
        return false;
    if (!PyTuple_Check(pairs)) {
        PyErr_SetString(PyExc_TypeError, "the headers of a record are a tuple");
        return false;
    }
    Py_ssize_t count = PyTuple_Size(pairs);
    for (Py_ssize_t each = 0; each < count; each++)
        if (!add_object_header(records, PyTuple_GetItem(pairs, each)))
            return false;
    return true;
}

/* Take the headers in a row of a list of structs of a name and a value. */
static bool add_arrow_headers(SentRecords *records, const Column *column, uint32_t row)
{
    const ArrowArray *pairs = column->array->children[0];
    const ArrowSchema *kind = column->schema->children[0];
    const int32_t *offsets = column->array->buffers[1];
    int64_t place = column->array->offset + row;
    for (int64_t each = pairs->offset + offsets[place]; each < pairs->offset + offsets[place + 1]; each++) {
        SentHeader header;
        header.name = arrow_bytes(pairs->children[0], kind->children[0], each, &header.name_size);
        header.value = arrow_bytes(pairs->children[1], kind->children[1], each, &header.value_size);
        if (header.name == NULL) {
            PyErr_SetString(PyExc_TypeError, "a header has no name");
            return false;
        }
        if (!add_header(records, header))
            return false;
    }
    return true;
}

static bool take_headers(SentRecords *records, const Column *column)
{
    if (column->objects == NULL)
        return true;
    records->header_ends = malloc(records->count * sizeof *records->header_ends);
    if (records->header_ends == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t row = 0; row < records->count; row++) {
        bool taken = column->array == NULL ? add_object_headers(records, PyTuple_GetItem(column->objects, row))
                                           : add_arrow_headers(records, column, row);
        if (!taken)
            return false;
        records->header_ends[row] = records->header_count;
    }
    return true;
}

/* Find the time in a row, or NO_TIME. False: an exception is set. */
static bool column_time(SentRecords *records, const Column *column, uint32_t row, int64_t latest, int64_t *time)
{
    *time = NO_TIME;
    if (column->array != NULL) {
        int64_t place = column->array->offset + row;
        if (is_null(column->array, place))
            return true;
        *time = ((const int64_t *)column->array->buffers[1])[place];
    } else {
        PyObject *object = PyTuple_GetItem(column->objects, row);
        if (object == Py_None)
            return true;
        *time = object == NULL ? -1 : PyLong_AsLongLong(object);
        if (*time == -1 && PyErr_Occurred())
            return false;
    }
    if (*time == NO_TIME || *time > latest)
        records->storable = false;
    return true;
}

static bool take_times(SentRecords *records, const Column *column, int64_t latest)
{
    if (column->objects == NULL)
        return true;
    records->times = malloc(records->count * sizeof *records->times);
    if (records->times == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t row = 0; row < records->count; row++)
        if (!column_time(records, column, row, latest, &records->times[row]))
            return false;
    return true;
}

static bool take_bytes(SentRecords *records, const Column *values, const Column *keys, SentRun *run)
{
    records->messages = calloc(records->count, sizeof *records->messages);
    if (records->messages == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t row = 0; row < records->count; row++) {
        rd_kafka_message_t *message = &records->messages[row];
        const char *value, *key = NULL;
        if (!column_bytes(values, row, &value, &message->value_size)
            || (keys->objects != NULL && !column_bytes(keys, row, &key, &message->key_size)))
            return false;
        message->value = (void *)value;
        message->key = (void *)key;
        message->opaque = &run->rows[row];
    }
    return true;
}

/* Handing over, without Python's lock. */

static rd_kafka_headers_t *library_headers(const SentRecords *records, uint32_t row)
{
    size_t first = row ? records->header_ends[row - 1] : 0, end = records->header_ends[row];
    rd_kafka_headers_t *made = rd_kafka_headers_new(end - first);
    for (const SentHeader *each = records->headers + first; made != NULL && each < records->headers + end; each++) {
        if (rd_kafka_header_add(made, each->name, (ssize_t)each->name_size, each->value, (ssize_t)each->value_size)) {
            rd_kafka_headers_destroy(made);
            made = NULL;
        }
    }
    return made;
}

static bool has_headers(const SentRecords *records, uint32_t row)
{
    return records->header_ends != NULL && records->header_ends[row] > (row ? records->header_ends[row - 1] : 0);
}

/* Hand over a record that has more than value and key. Return the library's error. */
static int produce_one(rd_kafka_t *client, rd_kafka_topic_t *topic, int32_t partition, const SentRecords *records,
                       uint32_t row)
{
    const rd_kafka_message_t *message = &records->messages[row];
    rd_kafka_headers_t *headers = NULL;
    if (has_headers(records, row) && (headers = library_headers(records, row)) == NULL)
        return ERROR_QUEUE_FULL; /* out of memory */
    rd_kafka_vu_t fields[] = {
        {.kind = FIELD_TOPIC, .topic = topic},
        {.kind = FIELD_PARTITION, .partition = partition},
        {.kind = FIELD_VALUE, .bytes = {message->value, message->value_size}},
        {.kind = FIELD_KEY, .bytes = {message->key, message->key_size}},
        {.kind = FIELD_OPAQUE, .opaque = message->opaque},
        {.kind = FIELD_TIME, .time = records->times == NULL ? NO_TIME : records->times[row]},
        {.kind = FIELD_HEADERS, .headers = headers},
    };
    rd_kafka_error_t *error = rd_kafka_produceva(client, fields, sizeof fields / sizeof *fields - (headers == NULL));
    if (error == NULL)
        return 0;
    int code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (headers != NULL)
        rd_kafka_headers_destroy(headers);
    return code;
}

static void produce_all(rd_kafka_t *client, rd_kafka_topic_t *topic, int32_t partition, SentRecords *records)
{
    if (records->times == NULL && records->header_ends == NULL) {
        for (uint32_t first = 0; first < records->count; first += MOST_AT_ONCE) {
            uint32_t rest = records->count - first;
            rd_kafka_produce_batch(topic, partition, 0, records->messages + first,
                                   (int)(rest < MOST_AT_ONCE ? rest : MOST_AT_ONCE));
        }
        return;
    }
    for (uint32_t row = 0; row < records->count; row++)
        records->messages[row].err = produce_one(client, topic, partition, records, row);
}

/* Note that a run has news to report. The sender's lock is held. */
static void add_news(Sender *self, SentRun *run)
{
    if (run->has_news)
        return;
    run->has_news = true;
    run->next_news = NULL;
    if (self->last_news == NULL)
        self->first_news = run;
    else
        self->last_news->next_news = run;
    self->last_news = run;
}

/* Note which records were refused at once: they get no report. */
static void note_refused(Sender *self, SentRun *run, const SentRecords *records)
{
    pthread_mutex_lock(&self->lock);
    for (uint32_t row = 0; row < run->count; row++) {
        int error = records->messages[row].err;
        if (error == 0)
            continue;
        run->rows[row].state = REFUSED;
        run->rows[row].error = error;
        run->waiting--;
    }
    if (--run->waiting == 0)
        add_news(self, run);
    pthread_mutex_unlock(&self->lock);
}

/* Take a delivery report, in the polling thread. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    Sender *self = sender_of(opaque);
    SentRow *row = message->opaque;
    SentRun *run = (SentRun *)((char *)(row - row->number) - offsetof(SentRun, rows));
    pthread_mutex_lock(&self->lock);
    if (row->state != ON_ITS_WAY) {
        run->twice = true;
    } else {
        *row = (SentRow){message->offset, message->partition, message->err, row->number, REPORTED};
        run->waiting--;
        if (message->err)
            run->error = message->err;
        if (run->waiting == 0 || message->err)
            add_news(self, run);
    }
    pthread_mutex_unlock(&self->lock);
}

/* Runs. */

static SentRun *add_run(Sender *self, PyObject *owner, PyObject *held, uint32_t count, int32_t partition)
{
    SentRun *run = calloc(1, sizeof *run + count * sizeof *run->rows);
    if (run == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    run->owner = Py_NewRef(owner);
    run->held = Py_NewRef(held);
    run->count = count;
    run->waiting = count + 1;
    run->partition = partition;
    for (uint32_t row = 0; row < count; row++)
        run->rows[row].number = row;
    run->after = self->runs;
    if (run->after != NULL)
        run->after->before = run;
    self->runs = run;
    return run;
}

static void drop_run(Sender *self, SentRun *run)
{
    if (run->before == NULL)
        self->runs = run->after;
    else
        run->before->after = run->after;
    if (run->after != NULL)
        run->after->before = run->before;
    PyObject *owner = run->owner, *held = run->held;
    free(run);
    Py_XDECREF(owner); /* may run any Python code */
    Py_XDECREF(held);
}

static bool take_records(SentRecords *records, Column columns[4], SentRun *run, int64_t latest)
{
    return take_bytes(records, &columns[0], &columns[1], run) && take_headers(records, &columns[2])
        && take_times(records, &columns[3], latest);
}

/* Hand over the records of a run. Return False if the library would not send them unchanged. */
static PyObject *send_records(Sender *self, SentRun *run, const char *topic, Column columns[4], int64_t latest)
{
    SentRecords records = {.count = run->count, .storable = true};
    if (!take_records(&records, columns, run, latest) || !records.storable) {
        free_records(&records);
        drop_run(self, run);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
    bool known;
    Py_BEGIN_ALLOW_THREADS
    rd_kafka_topic_t *handle = rd_kafka_topic_new(self->client.handle, topic, NULL);
    known = handle != NULL;
    if (known) {
        produce_all(self->client.handle, handle, run->partition, &records);
        rd_kafka_topic_destroy(handle);
        note_refused(self, run, &records);
    }
    Py_END_ALLOW_THREADS
    free_records(&records);
    if (!known) {
        drop_run(self, run);
        return raise_code(rd_kafka_last_error(), NULL);
    }
    Py_RETURN_TRUE;
}

static void close_columns(Column columns[4])
{
    for (int each = 0; each < 4; each++)
        close_column(&columns[each]);
}

static bool open_columns(Column columns[4], PyObject *given[4], int64_t count)
{
    memset(columns, 0, 4 * sizeof *columns);
    for (int each = 0; each < 4; each++)
        if (!open_column(&columns[each], given[each], count)) {
            close_columns(columns);
            return false;
        }
    return true;
}

static PyObject *send_run(PyObject *object, PyObject *arguments)
{
    Sender *self = (Sender *)object;
    PyObject *owner, *given[4];
    const char *topic;
    int partition;
    long long latest, count;
    if (!PyArg_ParseTuple(arguments, "OsiLOOOOL", &owner, &topic, &partition, &count, &given[0], &given[1], &given[2],
                          &given[3], &latest))
        return NULL;
    if (count <= 0 || count >= UINT32_MAX || given[0] == Py_None)
        return PyErr_Format(PyExc_ValueError, "a run of %lld records cannot be sent", count);
    Column columns[4];
    if (!open_columns(columns, given, count))
        return NULL;
    PyObject *sent = NULL;
    if (enter_client(&self->client) == 0) {
        SentRun *run = add_run(self, owner, columns[0].objects, (uint32_t)count, partition);
        sent = run == NULL ? NULL : send_records(self, run, topic, columns, latest);
        leave_client(&self->client);
    }
    close_columns(columns);
    return sent;
}

/* Reports, with Python's lock. */

static PyTypeObject *report_type;

static PyStructSequence_Field report_fields[] = {
    {"owner", "the owner that was given to send()"},
    {"error", "the code of the latest failure; 0 if there is none"},
    {"is_complete", "whether all records are reported; otherwise only the error is valid"},
    {"is_sound", "whether the reports are consistent: each row once, in the requested partition, offsets ascending"},
    {"coordinates", "of each record, if all are stored in the requested partition; otherwise None"},
    {"offsets", "the offset of each record, -1 if it has none; empty if coordinates is set"},
    {"partitions", "the partition of each record; None if all are in the requested one"},
    {"failures", "row, code, and whether it was sent, of each record that was not stored"},
    {NULL, NULL},
};

static PyStructSequence_Desc report_description = {
    "mqplug_kafka_native.Report", "The outcome of a run.", report_fields, 8,
};

static bool has_failed(const SentRow *row)
{
    return row->state != REPORTED || row->error != 0;
}

/* Return whether the reports of rows of one partition are consistent. */
static bool is_sound(const SentRun *run)
{
    int64_t last = -1;
    for (const SentRow *row = run->rows; row < run->rows + run->count; row++) {
        if (row->state == ON_ITS_WAY || run->twice)
            return false;
        if (run->partition >= 0 && row->state == REPORTED && row->partition != run->partition)
            return false;
        if (run->partition < 0 || has_failed(row) || row->offset < 0)
            continue;
        if (row->offset <= last)
            return false;
        last = row->offset;
    }
    return true;
}

static PyObject *numbers(size_t size, uint32_t count, const char *format, char **start)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * size));
    PyObject *view = bytes == NULL ? NULL : PyMemoryView_FromObject(bytes);
    PyObject *made = view == NULL ? NULL : PyObject_CallMethod(view, "cast", "s", format);
    if (made != NULL)
        *start = PyBytes_AsString(bytes);
    Py_XDECREF(bytes);
    Py_XDECREF(view);
    return made;
}

/* The ids of a wholly stored run: a sequence of tuples of one offset, each made on demand. */
typedef struct {
    PyObject_HEAD
    int64_t first;
    int64_t *offsets; /* NULL if they are consecutive */
    Py_ssize_t count;
} Coordinates;

static PyTypeObject *coordinates_type;

static Py_ssize_t count_coordinates(PyObject *self)
{
    return ((Coordinates *)self)->count;
}

static PyObject *coordinates_of_row(PyObject *object, Py_ssize_t row)
{
    Coordinates *self = (Coordinates *)object;
    if (row < 0 || row >= self->count) {
        PyErr_SetString(PyExc_IndexError, "there are fewer records");
        return NULL;
    }
    PyObject *offset = PyLong_FromLongLong(self->offsets == NULL ? self->first + row : self->offsets[row]);
    PyObject *made = offset == NULL ? NULL : PyTuple_New(1);
    if (made == NULL)
        Py_XDECREF(offset);
    else
        PyTuple_SetItem(made, 0, offset);
    return made;
}

static void free_coordinates(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Coordinates *)self)->offsets);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyType_Slot coordinates_slots[] = {
    {Py_tp_doc, "The offsets of records, as coordinates of ids."},
    {Py_tp_dealloc, free_coordinates},
    {Py_sq_length, count_coordinates},
    {Py_sq_item, coordinates_of_row},
    {0, NULL},
};

static PyType_Spec coordinates_spec = {
    "mqplug_kafka_native.Coordinates", sizeof(Coordinates), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, coordinates_slots,
};

static bool is_stored(const SentRun *run)
{
    if (run->partition < 0)
        return false;
    for (const SentRow *row = run->rows; row < run->rows + run->count; row++)
        if (has_failed(row) || row->offset < 0)
            return false;
    return true;
}

static bool are_consecutive(const SentRun *run)
{
    const SentRow *row = run->rows;
    while (row < run->rows + run->count && row->offset == run->rows->offset + row->number)
        row++;
    return row == run->rows + run->count;
}

static PyObject *coordinates_of(const SentRun *run)
{
    if (!is_stored(run))
        return Py_NewRef(Py_None);
    allocfunc allocate = PyType_GetSlot(coordinates_type, Py_tp_alloc);
    Coordinates *made = (Coordinates *)allocate(coordinates_type, 0);
    if (made == NULL)
        return NULL;
    made->first = run->rows->offset;
    made->count = run->count;
    if (are_consecutive(run))
        return (PyObject *)made;
    made->offsets = malloc(run->count * sizeof *made->offsets);
    if (made->offsets == NULL) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    for (uint32_t row = 0; row < run->count; row++)
        made->offsets[row] = run->rows[row].offset;
    return (PyObject *)made;
}

static PyObject *sent_offsets(const SentRun *run)
{
    char *start;
    PyObject *made = numbers(sizeof(int64_t), run->count, "q", &start);
    for (uint32_t each = 0; made != NULL && each < run->count; each++) {
        int64_t offset = has_failed(&run->rows[each]) || run->rows[each].offset < 0 ? -1 : run->rows[each].offset;
        memcpy(start + each * sizeof offset, &offset, sizeof offset);
    }
    return made;
}

static PyObject *sent_partitions(const SentRun *run)
{
    if (run->partition >= 0)
        return Py_NewRef(Py_None);
    char *start;
    PyObject *made = numbers(sizeof(int32_t), run->count, "i", &start);
    for (uint32_t each = 0; made != NULL && each < run->count; each++)
        memcpy(start + each * sizeof(int32_t), &run->rows[each].partition, sizeof(int32_t));
    return made;
}

static PyObject *failures_of(const SentRun *run)
{
    PyObject *made = PyList_New(0);
    for (const SentRow *row = run->rows; made != NULL && row < run->rows + run->count; row++) {
        if (!has_failed(row))
            continue;
        PyObject *failure = Py_BuildValue("IiN", row->number, row->error, PyBool_FromLong(row->state == REPORTED));
        if (failure == NULL || PyList_Append(made, failure) < 0)
            Py_CLEAR(made);
        Py_XDECREF(failure);
    }
    return made;
}

/* Until a run is complete, another thread may complete and drop it wherever Python code can run. */
static PyObject *report_of(const SentRun *run, bool complete)
{
    PyObject *owner = Py_NewRef(run->owner ? run->owner : Py_None);
    int error = run->error;
    PyObject *report = PyStructSequence_New(report_type); /* may collect garbage, which runs Python code */
    if (report == NULL) {
        Py_DECREF(owner);
        return NULL;
    }
    PyObject *coordinates = complete ? coordinates_of(run) : Py_NewRef(Py_None);
    bool has_offsets = complete && coordinates == Py_None;
    PyObject *fields[] = {
        owner,
        PyLong_FromLong(error),
        PyBool_FromLong(complete),
        PyBool_FromLong(!complete || is_sound(run)),
        coordinates,
        has_offsets ? sent_offsets(run) : PyTuple_New(0),
        has_offsets ? sent_partitions(run) : Py_NewRef(Py_None),
        has_offsets ? failures_of(run) : PyList_New(0),
    };
    bool whole = true;
    for (int each = 0; each < 8; each++) {
        whole = whole && fields[each] != NULL;
        PyStructSequence_SetItem(report, each, fields[each] ? fields[each] : Py_NewRef(Py_None));
    }
    if (!whole)
        Py_CLEAR(report);
    return report;
}

/* Take the first run with news; NULL if there is none. */
static SentRun *next_news(Sender *self, bool *complete)
{
    pthread_mutex_lock(&self->lock);
    SentRun *run = self->first_news;
    if (run != NULL) {
        self->first_news = run->next_news;
        if (self->first_news == NULL)
            self->last_news = NULL;
        run->has_news = false;
        *complete = run->waiting == 0;
    }
    pthread_mutex_unlock(&self->lock);
    return run;
}

/* Append the available reports to a list. Return their number, or -1 with an exception set. */
static Py_ssize_t take_reports(Sender *self, PyObject *into)
{
    SentRun *run;
    bool complete;
    Py_ssize_t taken = 0;
    while ((run = next_news(self, &complete)) != NULL) {
        PyObject *report = report_of(run, complete);
        if (report == NULL || PyList_Append(into, report) < 0) {
            Py_XDECREF(report);
            if (complete) { /* leave it to the next call; an incomplete one will be reported again */
                pthread_mutex_lock(&self->lock);
                add_news(self, run);
                pthread_mutex_unlock(&self->lock);
            }
            return -1;
        }
        Py_DECREF(report);
        if (complete)
            drop_run(self, run);
        taken++;
    }
    return taken;
}

/* Callbacks, in the polling thread. Errors go to `error_cb`, log lines to `logger`. */

static void keep_raised(Sender *self)
{
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (error != NULL && trace != NULL)
        PyException_SetTraceback(error, trace);
    if (self->raised == NULL && error != NULL)
        self->raised = Py_NewRef(error);
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

static void on_sender_error(rd_kafka_t *handle, int code, const char *text, void *opaque)
{
    Sender *self = sender_of(opaque);
    (void)handle;
    PyGILState_STATE state = PyGILState_Ensure();
    if (code == ERROR_FATAL)
        self->has_failed = true;
    else if (tell_error(&self->client, code, text, false) < 0)
        keep_raised(self);
    PyGILState_Release(state);
}

static void on_sender_log(const rd_kafka_t *handle, int level, const char *facility, const char *text)
{
    Sender *self = sender_of(rd_kafka_opaque(handle));
    if (self->client.logger == NULL)
        return; /* without a logger, lines come in any thread of the library; with one, in polling threads */
    PyGILState_STATE state = PyGILState_Ensure();
    if (tell_log_line(&self->client, level, facility, text) < 0)
        keep_raised(self);
    PyGILState_Release(state);
}

static void set_sender_callbacks(rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_error_cb(conf, on_sender_error);
    rd_kafka_conf_set_log_cb(conf, on_sender_log);
}

/* Raise a callback's error or the fatal error, once. Return 0 if there is none. */
static int raise_left(Sender *self)
{
    char text[512] = "";
    if (self->raised != NULL) {
        PyObject *raised = self->raised;
        self->raised = NULL;
        PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
        Py_DECREF(raised);
        return -1;
    }
    if (!self->has_failed)
        return 0;
    self->has_failed = false;
    int code = rd_kafka_fatal_error(self->client.handle, text, sizeof text);
    raise_error(kafka_error(code, text, (ErrorKind){.is_fatal = true}));
    return -1;
}

/* Serving: each method appends the arrived reports to the given list. */

/* Return the number of the library's records and events, or 1 if some runs have no report. */
static Py_ssize_t waiting_count(const Sender *self)
{
    int there = rd_kafka_outq_len(self->client.handle);
    return there > 0 ? there : self->runs != NULL;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef enum { UNTIL_A_REPORT, UNTIL_ALL_REPORTS } Patience;

static void serve_slice(rd_kafka_t *handle, Patience until, double left)
{
    int slice = milliseconds(left);
    slice = slice < SEND_SLICE_MS ? slice : SEND_SLICE_MS;
    Py_BEGIN_ALLOW_THREADS
    if (until == UNTIL_A_REPORT)
        rd_kafka_poll(handle, slice);
    else
        rd_kafka_flush(handle, slice); /* this also sends lingering records */
    Py_END_ALLOW_THREADS
}

static int serve(Sender *self, Patience until, double timeout, PyObject *into)
{
    double end = seconds_now() + timeout;
    Py_ssize_t taken = take_reports(self, into);
    bool goes_on = taken >= 0;
    while (goes_on) {
        double left = until == UNTIL_A_REPORT && taken > 0 ? 0 : end - seconds_now();
        serve_slice(self->client.handle, until, left);
        Py_ssize_t more = take_reports(self, into);
        if (more < 0 || raise_left(self) < 0 || PyErr_CheckSignals() < 0)
            return -1;
        taken += more;
        goes_on = left > 0 && waiting_count(self) > 0 && (until == UNTIL_ALL_REPORTS || taken == 0);
    }
    return taken < 0 ? -1 : 0;
}

static PyObject *serve_method(Sender *self, Patience until, PyObject *arguments)
{
    double timeout;
    PyObject *into;
    if (!PyArg_ParseTuple(arguments, "dO!", &timeout, &PyList_Type, &into) || enter_client(&self->client) < 0)
        return NULL;
    Py_ssize_t waiting = serve(self, until, timeout, into) < 0 ? -1 : waiting_count(self);
    leave_client(&self->client);
    return waiting < 0 ? NULL : PyLong_FromSsize_t(waiting);
}

static PyObject *poll_sender(PyObject *self, PyObject *arguments)
{
    return serve_method((Sender *)self, UNTIL_A_REPORT, arguments);
}

static PyObject *flush_sender(PyObject *self, PyObject *arguments)
{
    return serve_method((Sender *)self, UNTIL_ALL_REPORTS, arguments);
}

static Py_ssize_t sender_length(PyObject *self)
{
    Sender *sender = (Sender *)self;
    return sender->client.handle == NULL || is_foreign(&sender->client) ? 0 : waiting_count(sender);
}

static PyObject *purge_sender(PyObject *self, PyObject *unused)
{
    Client *client = &((Sender *)self)->client;
    (void)unused;
    if (enter_client(client) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rd_kafka_purge(client->handle, PURGE_QUEUED | PURGE_IN_FLIGHT);
    Py_END_ALLOW_THREADS
    leave_client(client);
    Py_RETURN_NONE;
}

static PyObject *look_at_topic(PyObject *self, PyObject *arguments)
{
    Client *client = &((Sender *)self)->client;
    const char *topic;
    double timeout;
    const void *metadata = NULL;
    if (!PyArg_ParseTuple(arguments, "sd", &topic, &timeout) || enter_client(client) < 0)
        return NULL;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client->handle, topic, NULL);
    failed = handle == NULL ? rd_kafka_last_error()
                            : rd_kafka_metadata(client->handle, 0, handle, &metadata, milliseconds(timeout));
    if (metadata != NULL)
        rd_kafka_metadata_destroy(metadata);
    if (handle != NULL)
        rd_kafka_topic_destroy(handle);
    Py_END_ALLOW_THREADS
    leave_client(client);
    if (failed)
        return raise_code(failed, NULL);
    Py_RETURN_NONE;
}

/* Transactions: calls that may wait. The next poll takes the reports that arrive during one. */

typedef rd_kafka_error_t *(*transaction_call)(rd_kafka_t *, int);

static PyObject *call_with_timeout(PyObject *self, PyObject *timeout, transaction_call call)
{
    Client *client = &((Sender *)self)->client;
    double seconds = PyFloat_AsDouble(timeout);
    if ((seconds == -1 && PyErr_Occurred()) || enter_client(client) < 0)
        return NULL;
    rd_kafka_error_t *failed;
    Py_BEGIN_ALLOW_THREADS
    failed = call(client->handle, milliseconds(seconds));
    Py_END_ALLOW_THREADS
    leave_client(client);
    return none_or_raise(failed);
}

static PyObject *init_transactions(PyObject *self, PyObject *timeout)
{
    return call_with_timeout(self, timeout, rd_kafka_init_transactions);
}

static PyObject *commit_transaction(PyObject *self, PyObject *timeout)
{
    return call_with_timeout(self, timeout, rd_kafka_commit_transaction);
}

static PyObject *abort_transaction(PyObject *self, PyObject *timeout)
{
    return call_with_timeout(self, timeout, rd_kafka_abort_transaction);
}

static PyObject *begin_transaction(PyObject *self, PyObject *unused)
{
    Client *client = &((Sender *)self)->client;
    (void)unused;
    if (enter_client(client) < 0)
        return NULL;
    rd_kafka_error_t *failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rd_kafka_begin_transaction(client->handle);
    Py_END_ALLOW_THREADS
    leave_client(client);
    return none_or_raise(failed);
}

/* Add a position of a group: topic, partition, offset, and a text or None. False: an exception is set. */
static bool add_position(rd_kafka_topic_partition_list_t *positions, PyObject *given)
{
    const char *topic, *note;
    int partition;
    long long offset;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(given, "siLz#", &topic, &partition, &offset, &note, &size))
        return false;
    rd_kafka_topic_partition_t *position = rd_kafka_topic_partition_list_add(positions, topic, partition);
    position->offset = offset;
    if (note == NULL)
        return true;
    position->metadata = rd_kafka_mem_malloc(NULL, (size_t)size + 1); /* the library frees it */
    if (position->metadata == NULL) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(position->metadata, note, (size_t)size + 1);
    position->metadata_size = (size_t)size + 1; /* with the NUL, for which confluent-kafka's reader looks */
    return true;
}

static rd_kafka_topic_partition_list_t *group_positions(PyObject *given)
{
    Py_ssize_t count = PyList_Size(given);
    rd_kafka_topic_partition_list_t *positions = rd_kafka_topic_partition_list_new((int)count);
    for (Py_ssize_t each = 0; each < count; each++)
        if (!add_position(positions, PyList_GetItem(given, each))) {
            rd_kafka_topic_partition_list_destroy(positions);
            return NULL;
        }
    return positions;
}

static rd_kafka_error_t *store_positions(rd_kafka_t *handle, const rd_kafka_topic_partition_list_t *positions,
                                         const void *proof, size_t size, int timeout)
{
    rd_kafka_consumer_group_metadata_t *member = NULL;
    rd_kafka_error_t *failed = rd_kafka_consumer_group_metadata_read(&member, proof, size);
    if (failed == NULL)
        failed = rd_kafka_send_offsets_to_transaction(handle, positions, member, timeout);
    if (member != NULL)
        rd_kafka_consumer_group_metadata_destroy(member);
    return failed;
}

static PyObject *send_offsets_to_transaction(PyObject *self, PyObject *arguments)
{
    Client *client = &((Sender *)self)->client;
    PyObject *given;
    const char *proof;
    Py_ssize_t size;
    double timeout;
    if (!PyArg_ParseTuple(arguments, "O!y#d", &PyList_Type, &given, &proof, &size, &timeout))
        return NULL;
    rd_kafka_topic_partition_list_t *positions = group_positions(given);
    if (positions == NULL || enter_client(client) < 0) {
        if (positions != NULL)
            rd_kafka_topic_partition_list_destroy(positions);
        return NULL;
    }
    rd_kafka_error_t *failed;
    Py_BEGIN_ALLOW_THREADS
    failed = store_positions(client->handle, positions, proof, (size_t)size, milliseconds(timeout));
    rd_kafka_topic_partition_list_destroy(positions);
    Py_END_ALLOW_THREADS
    leave_client(client);
    return none_or_raise(failed);
}

/* The type. */

static PyObject *new_sender(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *options;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "O!", &PyDict_Type, &options))
        return NULL;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    Sender *self = (Sender *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    pthread_mutex_init(&self->lock, NULL);
    if (open_client(&self->client, KIND_PRODUCER, options, set_sender_callbacks) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int visit_sender(PyObject *object, visitproc visit, void *arg)
{
    Sender *self = (Sender *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->raised);
    for (SentRun *run = self->runs; run != NULL; run = run->after) {
        Py_VISIT(run->owner);
        Py_VISIT(run->held);
    }
    return visit_client(&self->client, visit, arg);
}

/* The bytes of values must stay until the library's client has ended. */
static int clear_sender(PyObject *object)
{
    Sender *self = (Sender *)object;
    Py_CLEAR(self->raised);
    for (SentRun *run = self->runs; run != NULL; run = run->after)
        Py_CLEAR(run->owner);
    clear_client(&self->client);
    return 0;
}

static void free_sender(PyObject *object)
{
    Sender *self = (Sender *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    destroy_client(&self->client);
    while (self->runs != NULL)
        drop_run(self, self->runs);
    clear_sender(object);
    pthread_mutex_destroy(&self->lock);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef sender_methods[] = {
    {"send", send_run, METH_VARARGS, "Hand over a run. Return False if the library would not send it unchanged."},
    {"poll", poll_sender, METH_VARARGS, "Wait for a report, and append the arrived ones. Return how many are missing."},
    {"flush", flush_sender, METH_VARARGS, "Wait for all reports, and append them. Return how many are missing."},
    {"purge", purge_sender, METH_NOARGS, "Drop the records in flight. They are reported."},
    {"look_at", look_at_topic, METH_VARARGS, "Make the library learn of a topic's partitions."},
    {"init_transactions", init_transactions, METH_O, "Claim the transaction name."},
    {"begin_transaction", begin_transaction, METH_NOARGS, "Begin a transaction."},
    {"commit_transaction", commit_transaction, METH_O, "Commit the transaction."},
    {"abort_transaction", abort_transaction, METH_O, "Abort the transaction."},
    {"send_offsets_to_transaction", send_offsets_to_transaction, METH_VARARGS, "Store positions in the transaction."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sender_slots[] = {
    {Py_tp_doc, "Sends runs of records, and returns one report for each run."},
    {Py_tp_new, new_sender},
    {Py_tp_methods, sender_methods},
    {Py_tp_traverse, visit_sender},
    {Py_tp_clear, clear_sender},
    {Py_tp_dealloc, free_sender},
    {Py_sq_length, sender_length},
    {0, NULL},
};

static PyType_Spec sender_spec = {
    "mqplug_kafka_native.Sender",
    sizeof(Sender),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    sender_slots,
};

/* -- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Take the library's functions from the client's extension module at this path."},
    {"library_version", library_version, METH_NOARGS, "Return the version of the library."},
    {NULL, NULL, 0, NULL},
};

/* Add a type to the module. Return a borrowed reference, or NULL with an error set. */
static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    Py_XDECREF((PyObject *)type); /* the module keeps a reference */
    return type;
}

static int add_types(PyObject *module)
{
    run_type = add_type(module, &run_spec);
    Py_XINCREF((PyObject *)run_type); /* kept forever: runs are made without the module */
    if (run_type == NULL || add_type(module, &reader_spec) == NULL || add_type(module, &sender_spec) == NULL)
        return -1;
    coordinates_type = add_type(module, &coordinates_spec);
    Py_XINCREF((PyObject *)coordinates_type);
    if (coordinates_type == NULL)
        return -1;
    PyTypeObject *rows = add_type(module, &rows_spec);
    Py_XINCREF((PyObject *)rows);
    if (rows == NULL || add_type(module, &row_spec) == NULL || add_type(module, &collector_spec) == NULL
        || prepare_collecting(rows) < 0)
        return -1;
    report_type = PyStructSequence_NewType(&report_description);
    return report_type == NULL ? -1 : PyModule_AddType(module, report_type);
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

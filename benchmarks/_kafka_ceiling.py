"""The ceiling of every reader over librdkafka: its own loop, which fetches, counts and frees messages unread."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import cimpl

from benchmarks._contests import Side, Work
from benchmarks._load import Load

KINDS = {"consumer": 1}
OPTIONS_OK = 0
FIRST_MS, POLL_MS = 30_000, 1_000
POINTERS = ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_queue_new", "rd_kafka_topic_new")


class CountingReader:
    """A reader of all partitions of a topic that only calls librdkafka."""

    def __init__(self, options: dict[str, str], topic: str, partitions: int) -> None:
        self._library = library = ctypes.CDLL(cimpl.__file__)  # the client's own copy
        for name in POINTERS:
            getattr(library, name).restype = ctypes.c_void_p
        self._error = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(library.rd_kafka_conf_new())
        for name, value in options.items():
            set_to = library.rd_kafka_conf_set(conf, name.encode(), value.encode(), self._error, len(self._error))
            assert set_to == OPTIONS_OK, self._error.value
        self._client = ctypes.c_void_p(library.rd_kafka_new(KINDS["consumer"], conf, self._error, len(self._error)))
        assert self._client.value, self._error.value
        self._queue = ctypes.c_void_p(library.rd_kafka_queue_new(self._client))
        self._topic = ctypes.c_void_p(library.rd_kafka_topic_new(self._client, topic.encode(), None))
        self._partitions = range(partitions)
        for partition in self._partitions:
            started = library.rd_kafka_consume_start_queue(
                self._topic, ctypes.c_int32(partition), ctypes.c_int64(0), self._queue
            )
            assert started == 0
        self._untouched = ctypes.CDLL(None).labs  # called with each message, without any effect

    def first(self) -> None:
        """Wait for the first message, and take only that."""
        message = ctypes.c_void_p()
        taken = self._library.rd_kafka_consume_batch_queue(self._queue, FIRST_MS, ctypes.byref(message), 1)
        assert taken == 1
        self._library.rd_kafka_message_destroy(message)

    def count(self, messages: int) -> int:
        """Wait for this many messages, and return how many arrived."""
        count = 0
        while count < messages:
            came = self._library.rd_kafka_consume_callback_queue(self._queue, POLL_MS, self._untouched, None)
            assert came >= 0
            count += came
        return count

    def close(self) -> None:
        """Stop reading, and free everything."""
        for partition in self._partitions:
            self._library.rd_kafka_consume_stop(self._topic, ctypes.c_int32(partition))
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_queue_destroy(self._queue)
        self._library.rd_kafka_destroy(self._client)


def counting_side(options: dict[str, str], topic: str, load: Load) -> Side:
    """Return the side that counts the messages of a load."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        reader = CountingReader(options, topic, load.partitions)
        try:
            reader.first()
            yield lambda: reader.count(load.messages - 1)
        finally:
            reader.close()

    return Side("ceiling", "librdkafka: fetched, counted and freed in its own loop, not read", prepare)

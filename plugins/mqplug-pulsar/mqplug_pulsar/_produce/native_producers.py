"""Opens native producers, as the settings say, with the schema of the topic.

Values are bytes that the application has encoded. With the topic's schema, brokers take them where a namespace
enforces schemas, and note the schema's version with each message.
"""

from __future__ import annotations

from typing import Any

import _pulsar
from _pulsar import SchemaType

import mqplug
from mqplug import Log
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._settings import PulsarSettings

NO_LIMIT = 0
NEWEST = -1  # version of a schema
COMPRESSIONS = {
    "none": _pulsar.CompressionType.NONE,
    "lz4": _pulsar.CompressionType.LZ4,
    "zlib": _pulsar.CompressionType.ZLib,
    "zstd": _pulsar.CompressionType.ZSTD,
    "snappy": _pulsar.CompressionType.SNAPPY,
}
ADOPTED = frozenset({"AVRO", "JSON", "STRING", "PROTOBUF", "PROTOBUF_NATIVE"})
"""Schemas whose messages the native client takes as bytes. With KEY_VALUE it would crash, the others it leaves out."""


def open_native(connection: PulsarConnection, log: Log) -> Any:
    """Open the native producer of a partition. Raise ``ConfigError`` if the topic's schema rules it out."""
    topic, client = connection.native_topic(log), connection.client._client
    options = _options(connection.settings)
    schema = _newest_schema(client, topic)
    kind = None if schema is None else schema.schema_type().name
    if kind in ADOPTED:
        options.schema(schema)
    try:
        return client.create_producer(topic, options)
    except _pulsar.IncompatibleSchema as error:
        raise _refused(log.topic, kind) from error


def _newest_schema(client: Any, topic: str) -> Any:
    """Return the topic's schema; None if it has none, or if the broker does not show it."""
    try:
        schema = client.get_schema_info(topic, NEWEST)
    except (_pulsar.TopicNotFound, _pulsar.AuthorizationError):
        return None
    return None if schema.schema_type() in {SchemaType.NONE, SchemaType.BYTES} else schema


def _refused(topic: str, kind: str | None) -> mqplug.ConfigError:
    if kind is None or kind in ADOPTED:
        return mqplug.ConfigError(
            f"the namespace of the topic {topic!r} refuses the schema of this producer as incompatible: "
            f"{kind or 'none'}, the topic's own",
            topic=topic, fix="Upload a schema that the namespace's compatibility strategy allows",
        )  # fmt: skip
    return mqplug.ConfigError(
        f"the topic {topic!r} has a schema of type {kind} and refuses bytes without it, but pulsar-client for Python "
        f"cannot send bytes of this type",
        topic=topic, fix=f"Use a schema of type {', '.join(sorted(ADOPTED))}, or do not enforce schemas there",
    )  # fmt: skip


def _options(settings: PulsarSettings) -> Any:
    options = _pulsar.ProducerConfiguration()
    options.max_pending_messages(NO_LIMIT)  # the core has a limit
    options.block_if_queue_full(False)
    options.compression_type(COMPRESSIONS[settings.compression])
    options.batching_enabled(settings.batching != "none")
    if settings.batching == "by_key":
        options.batching_type(_pulsar.BatchingType.KeyBased)
    options.batching_max_publish_delay_ms(round(settings.batch_delay * 1000))
    options.batching_max_messages(settings.batch_messages)
    options.batching_max_allowed_size_in_bytes(settings.batch_bytes)
    return options

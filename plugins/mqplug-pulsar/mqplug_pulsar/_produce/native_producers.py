"""Opens native producers, as the settings say."""

from __future__ import annotations

from typing import Any

import _pulsar

from mqplug import Log
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._settings import PulsarSettings

NO_LIMIT = 0
COMPRESSIONS = {
    "none": _pulsar.CompressionType.NONE,
    "lz4": _pulsar.CompressionType.LZ4,
    "zlib": _pulsar.CompressionType.ZLib,
    "zstd": _pulsar.CompressionType.ZSTD,
    "snappy": _pulsar.CompressionType.SNAPPY,
}


def open_native(connection: PulsarConnection, log: Log) -> Any:
    """Open the native producer of a partition."""
    return connection.client._client.create_producer(connection.native_topic(log), _options(connection.settings))


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

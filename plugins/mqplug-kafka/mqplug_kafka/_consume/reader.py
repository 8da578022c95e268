"""The consumer without a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerDriver, ConsumerOptions
from mqplug_kafka._admin.log_offsets import NO_GROUP_ID
from mqplug_kafka._cluster.client_options import consuming
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import typed_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._consume.client_source import ClientSource
from mqplug_kafka._consume.compiled_source import CompiledSource, FirstMessagesCheck
from mqplug_kafka._consume.fetcher import PartitionFetcher
from mqplug_kafka._consume.message_source import MessageSource

FETCH_BYTES = 16 * 1024 * 1024  # copied at a time by a fetch, plus at most one message


class KafkaReader(ConsumerDriver):
    """A consumer that holds all its logs from the start, and stores nothing at the broker."""

    def __init__(self, connection: KafkaConnection, options: ConsumerOptions) -> None:
        self._sources = _Sources(connection, options)
        self._fetcher = PartitionFetcher[MessageSource](connection, self._sources.best, options.logs)
        self._fetcher.ignores_group_access = True
        if isinstance(options.start, Mapping):
            self._fetcher.take({log: options.start[log] for log in options.logs})

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive."""
        if (source := self._fetcher.renewed() or self._sources.instead_of(self._fetcher.source)) is not None:
            self._fetcher.move_to(source)
        return self._fetcher.poll(most, timeout)

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop fetching these logs."""
        self._fetcher.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Fetch these logs again."""
        self._fetcher.resume(logs)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read exactly these logs from now on."""
        start = options.start if isinstance(options.start, Mapping) else {}
        self._fetcher.topics.follow(options.logs)
        self._fetcher.drop(set(self._fetcher.logs).difference(options.logs))
        self._fetcher.take({log: start[log] for log in options.logs if log not in self._fetcher})

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Continue from these positions."""
        self._fetcher.move(positions)

    def close(self, timeout: float) -> None:
        """Close the source."""
        self._fetcher.source.close()


class _Sources:
    """Chooses the source of a reader: the compiled part if it can be used, otherwise the plain client."""

    def __init__(self, connection: KafkaConnection, options: ConsumerOptions) -> None:
        self._connection = connection
        self._options = consuming(connection.settings, NO_GROUP_ID, options.prefetch_bytes)
        self._most_bytes = min(FETCH_BYTES, options.prefetch_bytes)

    def best(self) -> MessageSource:
        """Return a new source."""
        part = self._connection.compiled
        if not part.usable("reads"):
            return self._plain()
        check = None if part.is_proven("reads") else FirstMessagesCheck(self._plain, part)
        try:
            return CompiledSource(part.module.Reader(self._prepared(), self._most_bytes), check)
        except KafkaException as error:
            raise typed_error(error, "the settings were refused") from error

    def instead_of(self, source: MessageSource) -> MessageSource | None:
        """Return another source to replace one whose check failed or got no answer in time; otherwise None."""
        if not isinstance(source, CompiledSource) or not source.is_refuted:
            return None
        part = self._connection.compiled
        if part.usable("reads") and part.is_required:
            return self.best()  # which begins another check
        if part.usable("reads"):
            logger.info("confluent-kafka reads for a reader: the compiled part's messages were not confirmed in time")
        return self._plain()

    def _plain(self) -> ClientSource:
        return ClientSource.opened(self._connection, self._options)

    def _prepared(self) -> dict[str, Any]:
        return self._connection.credentials.prepared(self._options, self._connection.requests.failures)

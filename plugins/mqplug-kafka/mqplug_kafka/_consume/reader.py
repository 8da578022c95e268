"""The consumer without a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, GroupPosition
from mqplug_kafka._admin.offset_scan import NO_GROUP_ID
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.native_options import consuming
from mqplug_kafka._consume.fetcher import PartitionFetcher


class KafkaReader:
    """A consumer that holds all its logs from the start, and stores nothing at the broker."""

    def __init__(self, connection: KafkaConnection, options: ConsumerOptions) -> None:
        native = consuming(connection.settings, NO_GROUP_ID, options.prefetch_bytes)
        self._fetcher = PartitionFetcher(connection, native, options.logs)
        self._fetcher.ignores_group_access = True
        if isinstance(options.start, Mapping):
            self._fetcher.take({log: options.start[log] for log in options.logs})

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive."""
        native = self._fetcher.renewed()
        if native is not None:
            self._fetcher.move_to(native)
        return self._fetcher.poll(most, timeout)

    def wake(self) -> None:
        """Do nothing: a poll is short."""

    def tend(self, timeout: float) -> None:
        """Do nothing: a reader has no membership."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop fetching these logs."""
        self._fetcher.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Fetch these logs again."""
        self._fetcher.resume(logs)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read these logs from now on."""
        start = options.start if isinstance(options.start, Mapping) else {}
        self._fetcher.topics.follow(options.logs)
        self._fetcher.drop(set(self._fetcher.logs).difference(options.logs))
        self._fetcher.take({log: start[log] for log in options.logs if log not in self._fetcher})

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Read on from these positions."""
        self._fetcher.move(positions)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Do nothing: there is no group."""

    def close(self, timeout: float) -> None:
        """Close the native consumer."""
        self._fetcher.native.close()

"""Consumers without a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, GroupPosition
from mqplug_kafka._admin.offset_scan import NO_GROUP_ID
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.native_options import consuming
from mqplug_kafka._consume.fetcher import PartitionFetcher


class KafkaReader:
    """Holds all its logs at once, and leaves no trace at the broker."""

    def __init__(self, connection: KafkaConnection, options: ConsumerOptions) -> None:
        native = consuming(connection.settings, NO_GROUP_ID, options.prefetch_bytes)
        self._fetcher = PartitionFetcher(connection, native, options.logs)
        self._fetcher.tolerant = True
        if isinstance(options.start, Mapping):
            self._fetcher.take({log: options.start[log] for log in options.logs})

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Batches as they come."""
        return self._fetcher.poll(most, timeout)

    def wake(self) -> None:
        """A poll is short."""

    def tend(self, timeout: float) -> None:
        """Nobody waits for a reader."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Fetch nothing of these."""
        self._fetcher.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Go on with these."""
        self._fetcher.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Read on there."""
        self._fetcher.move(positions)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """There is nothing to store."""

    def close(self, timeout: float) -> None:
        """Let go."""
        self._fetcher.native.close()

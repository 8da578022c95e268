"""How confluent-kafka's consumer is told which partitions it fetches.

Partition by partition, or all at once, as the rebalance protocol demands.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Consumer, TopicPartition

from mqplug_kafka._consume.message_source import Name, Offsets


class IncrementalAssignment:
    """For cooperative rebalancing, and without a group."""

    restarts_all = False

    def __init__(self, native: Consumer) -> None:
        self._native = native

    def accept(self) -> None:
        self._native.incremental_assign([])

    def add(self, added: Offsets, held: Offsets) -> None:
        self._native.incremental_assign(_native(added))

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        self._native.incremental_unassign([TopicPartition(*name) for name in removed])


class WholeAssignment:
    """For eager rebalancing, whose native client refuses incremental changes."""

    restarts_all = True

    def __init__(self, native: Consumer) -> None:
        self._native = native

    def accept(self) -> None:
        self._native.assign([])

    def add(self, added: Offsets, held: Offsets) -> None:
        self._native.assign(_native(held))

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        if held:
            self._native.assign(_native(held))
        else:
            self._native.unassign()  # a revoke waits for this call


def _native(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(*name, offset) for name, offset in offsets.items()]

"""Transactions at the driver interface: records that note how they were settled, and holders of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mqplug
import mqplug_rocksmq
from mqplug.spi import GroupMove, GroupPosition, TransactionMark, TransactionOptions


class Sent:
    """A record in flight: its outcome is an offset, or an error."""

    def __init__(self, value: bytes, topic: str = "orders", partition: int = 0) -> None:
        self.topic, self.partition, self.value = topic, partition, value
        self.key: bytes | None = None
        self.headers: tuple[tuple[str, bytes | None], ...] = ()
        self.timestamp: int | None = None
        self.outcomes: list[Any] = []

    def stored(self, log: mqplug.Log, coordinates: tuple[int, ...], detail: tuple[int, ...] = ()) -> None:
        assert (log.topic, log.partition) == (self.topic, self.partition)
        self.outcomes.append(coordinates[0])

    def failed(self, error: mqplug.Error) -> None:
        assert not isinstance(error, mqplug.OutcomeUnknown)
        self.outcomes.append(error)

    def unknown(self, error: mqplug.Error) -> None:
        assert isinstance(error, mqplug.OutcomeUnknown)
        self.outcomes.append(error)

    @property
    def outcome(self) -> Any:
        """The record's only outcome."""
        (one,) = self.outcomes
        return one


def hold(mq: mqplug.Client, name: str = "biller") -> Any:
    """Take over a transaction name."""
    return mqplug_rocksmq.mqplug_open_transactions(mq._connection, TransactionOptions(name=name), 10)


def step(driver: Any, *records: Sent, mark: tuple[str, int] | None = None, moves: tuple[GroupMove, ...] = ()) -> bool:
    """Carry out a whole step, and return whether it is repeated."""
    repeated = driver.begin(mark and TransactionMark(*mark), 10)
    driver.send(records)
    driver.commit(moves, 10)
    return bool(repeated)


def to(log: mqplug.Log, offset: int, *acked: tuple[int, int]) -> Mapping[mqplug.Log, GroupPosition]:
    """Return the positions of a group in one log."""
    ranges = tuple(((first,), (last,)) for first, last in acked)
    return {log: GroupPosition(mqplug.Position(log, (offset,)), ranges)}


def read(mq: mqplug.Client, topic: str = "orders") -> list[bytes | None]:
    """Return everything that readers of a topic see, partition by partition."""
    found = list(mq.read(topic, start=mqplug.EARLIEST))
    return [each.value for each in sorted(found, key=lambda each: (each.partition, each.id.coordinates))]


def at(mq: mqplug.Client, group: str = "billing", topic: str = "orders") -> list[int]:
    """Return a group's position in each partition."""
    places = mq.positions(topic, group=group)
    return [places[partition].position.coordinates[0] for partition in sorted(places)]

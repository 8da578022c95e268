"""The interface from which a fetcher reads: confluent-kafka's consumer or the compiled part's reader.

This is the only seam between the two. ``ClientSource`` and ``CompiledSource`` implement it; ``KafkaReader`` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import attrs
from confluent_kafka import KafkaError

from mqplug.spi import Columns

Name = tuple[str, int]
"""Topic and partition, the client's name of a log."""

Offsets = Mapping[Name, int]


class Rows(Columns, Protocol):
    """Messages of one partition, at least one, as columns."""

    def __len__(self) -> int: ...

    def next_offset(self) -> int:
        """Return the offset after the last message."""
        ...


class PartitionError(NamedTuple):
    """An error among the messages of a partition. The end of the partition counts as one."""

    name: Name
    offset: int
    error: KafkaError


@attrs.frozen
class Fetched:
    """Messages and errors of one fetch. The messages are runs of one partition each, in order."""

    runs: Collection[tuple[Name, Rows]] = ()
    errors: Collection[PartitionError] = ()

    def __bool__(self) -> bool:
        return bool(self.runs or self.errors)

    @property
    def count(self) -> int:
        """The number of its messages."""
        return sum(len(rows) for _, rows in self.runs)

    @property
    def names(self) -> set[Name]:
        """The partitions of its messages and errors."""
        return {name for name, _ in self.runs} | {each.name for each in self.errors}

    def without(self, names: Collection[Name]) -> Fetched:
        """Return it without the messages and errors of these partitions."""
        return Fetched(
            [run for run in self.runs if run[0] not in names], [each for each in self.errors if each.name not in names]
        )

    def and_then(self, later: Fetched) -> Fetched:
        """Return this and a later fetch together."""
        return Fetched([*self.runs, *later.runs], [*self.errors, *later.errors])


NOTHING = Fetched()


class Assignment(Protocol):
    """Adds partitions to a source, and removes them."""

    @property
    def restarts_all(self) -> bool:
        """Whether each change makes the source fetch all partitions again, from their next offsets."""
        ...

    def accept(self) -> None:
        """Acknowledge a rebalance before its partitions are added, or the client assigns them itself."""

    def add(self, added: Offsets, held: Offsets) -> None:
        """Fetch more partitions; ``held`` has the next offsets of all, including the new ones."""

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        """Stop fetching partitions; ``held`` has the next offsets of the others."""


class MessageSource(Protocol):
    """A Kafka client that fetches the assigned partitions."""

    @property
    def assignment(self) -> Assignment:
        """The partitions that it fetches."""
        ...

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for a message, and return it with the others that have arrived, at most ``most`` in all.

        ``only`` returns the partition of all of them, or None if they may be of several.
        """
        ...

    def is_verified(self, fetched: Fetched, timeout: float) -> bool:
        """Return whether these may be delivered. If not, ask again at the next poll, or change to another source."""
        ...

    def pause(self, names: Iterable[Name]) -> None:
        """Stop fetching these partitions."""
        ...

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again."""
        ...

    def close(self) -> None:
        """End the client."""
        ...

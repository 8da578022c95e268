"""What a fetcher reads from: confluent-kafka's consumer, or the compiled part's reader. Both do the same.

This is the only seam between the two: ``ClientSource`` and ``CompiledSource``, of which ``KafkaReader`` chooses.
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
        """Return the offset behind the last of them."""
        ...


class PartitionError(NamedTuple):
    """An error that came among the messages of a partition; its end counts as one."""

    name: Name
    offset: int
    error: KafkaError


@attrs.frozen
class Fetched:
    """What came at once: messages in runs of one partition, in their order, and errors."""

    runs: Collection[tuple[Name, Rows]] = ()
    errors: Collection[PartitionError] = ()

    def __bool__(self) -> bool:
        return bool(self.runs or self.errors)

    @property
    def names(self) -> set[Name]:
        """The partitions that it is about."""
        return {name for name, _ in self.runs} | {each.name for each in self.errors}

    def without(self, names: Collection[Name]) -> Fetched:
        """Return the rest, without what is about these partitions."""
        return Fetched(
            [run for run in self.runs if run[0] not in names], [each for each in self.errors if each.name not in names]
        )

    def and_then(self, later: Fetched) -> Fetched:
        """Return both together."""
        return Fetched([*self.runs, *later.runs], [*self.errors, *later.errors])


NOTHING = Fetched()


class Assignment(Protocol):
    """Adds partitions to what a source fetches, and removes them."""

    @property
    def restarts_all(self) -> bool:
        """Whether each change makes the source fetch all partitions again, from their next offsets."""
        ...

    def accept(self) -> None:
        """Acknowledge a rebalance before its partitions are added, or the client assigns by itself."""

    def add(self, added: Offsets, held: Offsets) -> None:
        """Fetch more partitions; ``held`` has the next offsets of all, with those."""

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        """Stop fetching partitions; ``held`` has the next offsets of the others."""


class MessageSource(Protocol):
    """A client of Kafka's that fetches the partitions that it is told."""

    @property
    def assignment(self) -> Assignment:
        """What it fetches."""
        ...

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for a message and return it with others that are there. ``only`` tells if all are of one partition."""
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
        """End it."""
        ...

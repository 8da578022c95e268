"""The choice of a record's partition: partitioners, and the routes of a producer."""

from __future__ import annotations

from base64 import b64encode
from binascii import crc32
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, cycle, islice, repeat
from random import randrange
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import attrs

from mqplug._model.checks import number, whole_number

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug.spi._actions import TopicInfo


Partitioner = Callable[[bytes | None, int], int]
"""A function of the key (None without one) and the number of partitions that returns the partition."""

PartitionerName = Literal["murmur2", "crc32", "pulsar-java", "round_robin"]
PARTITIONER_NAMES: tuple[str, ...] = get_args(PartitionerName)

STICKY_RUN_MESSAGES = 100  # single records without a key that go to one partition before the next one


MURMUR2_FACTOR = 0x5BD1E995
MURMUR2_SEED = 0x9747B28C


@lru_cache(maxsize=8192)
def murmur2(key: bytes) -> int:
    """Return murmur2 of the key as Kafka's Java client computes it, as an unsigned 32-bit number."""
    m, mask = MURMUR2_FACTOR, 0xFFFFFFFF
    length = len(key)
    h = MURMUR2_SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


@lru_cache(maxsize=8192)
def java_hash(key: bytes) -> int:
    """Return ``String.hashCode()`` of the key's text, as an unsigned 32-bit number.

    A key that is not text is hashed as its Base64, as Pulsar's Java client does with keys of bytes.
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = b64encode(key).decode()
    h = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        h = (h * 31 + unit) & 0xFFFFFFFF
    return h


@attrs.frozen
class Chooser:
    """The choice of partitions for one topic of one producer. Any thread may use it."""

    keyless: Iterator[int]
    """The partitions of successive single records without a key."""
    keyed: Callable[[bytes], int]
    """Returns the partition of a single record with a key; -1 leaves the choice to the driver."""
    batch: Callable[[Sequence[bytes | None] | None, int, bool], int | list[int]]
    """Returns the partition of all records of a batch, or a list with one for each record. Takes the keys or None, the
    number of records, and whether the driver may choose."""
    by_murmur2: bool = False
    """Whether the key's murmur2 chooses among several partitions, and not the driver."""


def chooser(partitioner: PartitionerName | Partitioner, partitions: int, *, native: bool = False) -> Chooser:
    """Return a chooser for this partitioner. With ``native`` the driver chooses for records with a key."""
    match partitioner:
        case "murmur2" | "crc32" | "pulsar-java":
            order = _order(partitions)
            single = chain.from_iterable(map(repeat, cycle(order), repeat(STICKY_RUN_MESSAGES)))
            batches = cycle(order)
            return _by_key(partitioner, partitions, native, single, lambda _: next(batches))
        case "round_robin":
            turns = cycle(_order(partitions))
            return _by_key("murmur2", partitions, native, turns, lambda number: list(islice(turns, number)))
        case _ if callable(partitioner):
            return _by_function(partitioner, partitions)
        case _:
            raise ValueError(
                f"unknown partitioner {partitioner!r}; expected one of {', '.join(PARTITIONER_NAMES)}, or a function"
            )


def _order(partitions: int) -> list[int]:
    """Return all partitions, starting at a random one, so that short-lived producers do not all send to the first."""
    first = randrange(partitions)  # noqa: S311
    return [*range(first, partitions), *range(first)]


def _by_key(
    name: str, partitions: int, native: bool, single: Iterator[int], together: Callable[[int], int | list[int]]
) -> Chooser:
    """Return a chooser by the key's hash."""
    keyed = _keyed(name, partitions)

    def batch(keys: Sequence[bytes | None] | None, number: int, may_leave: bool) -> int | list[int]:
        missing = number if keys is None else keys.count(None)
        where = together(missing) if missing else []
        if keys is None:
            return where
        if native and may_leave and not missing:
            return -1
        if partitions == 1:
            return 0  # no hash needed
        rest = repeat(where) if isinstance(where, int) else iter(where)
        return [next(rest) if key is None else keyed(key) for key in keys]

    if native or partitions == 1:
        only = -1 if native else 0
        return Chooser(single, lambda _: only, batch)
    return Chooser(single, keyed, batch, name == "murmur2")


def _keyed(name: str, partitions: int) -> Callable[[bytes], int]:
    """Return the function from a key to its partition, compatible with the clients that use this hash."""
    if name == "crc32":
        return lambda key: crc32(key) % partitions
    hash_of = java_hash if name == "pulsar-java" else murmur2
    return lambda key: (hash_of(key) & 0x7FFFFFFF) % partitions  # Java's clients drop the sign bit


def _by_function(choose: Partitioner, partitions: int) -> Chooser:
    """Return a chooser that calls the user's function and checks its result."""

    def one(key: bytes | None) -> int:
        chosen = choose(key, partitions)
        if type(chosen) is not int:
            whole_number("the result of a partitioner", chosen)
        if not 0 <= chosen < partitions:
            raise ValueError(f"the partitioner returned {chosen}; expected 0 to {partitions - 1}")
        return chosen

    def batch(keys: Sequence[bytes | None] | None, number: int, may_leave: bool) -> list[int]:
        return list(map(one, keys or [None] * number))

    return Chooser(iter(partial(one, None), None), one, batch)


class FindsTopics(Protocol):
    """An object that looks up topics at the backend."""

    def find(self, topic: str, deadline: Deadline) -> TopicInfo:
        """Return the backend's description of the topic. Raises ``TopicNotFound`` if it is missing."""
        ...


@attrs.frozen
class Route:
    """The number of partitions of a topic, and the chooser among them."""

    topic: str
    partitions: int
    chooser: Chooser

    def lacks(self, partition: int | None) -> bool:
        """Return whether this partition is above the known ones. If so, the topic must be looked up again."""
        return type(partition) is int and partition >= self.partitions

    def check(self, partition: int) -> int:
        """Return a partition from the caller. Raise ``TypeError`` or ``ValueError`` if the topic does not have it."""
        if type(partition) is not int:
            whole_number("a partition", partition)
        if not 0 <= partition < self.partitions:
            raise ValueError(f"{self.topic!r} has no partition {partition}; expected 0 to {self.partitions - 1}")
        return partition


def check_refresh(seconds: float) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless this is a valid interval between looks for added partitions."""
    if not number("partitions_refresh", seconds) > 0:
        raise ValueError(f"partitions_refresh must be more than 0 seconds, not {seconds}")


class Router:
    """The router of one producer, which finds the routes to its topics."""

    def __init__(
        self, topics: FindsTopics, partitioner: PartitionerName | Partitioner, natively: Collection[str]
    ) -> None:
        self.name = _name(partitioner)
        self.partitioner: PartitionerName | Partitioner = partitioner
        self._native = self.name in natively
        self._topics = topics
        chooser(partitioner, 1)  # raises for an unknown partitioner

    def find(self, topic: str, deadline: Deadline) -> Route:
        """Look a topic up and return its route. Raises ``TopicNotFound`` if it is missing."""
        return self.route_of(self._topics.find(topic, deadline))

    def route_of(self, info: TopicInfo) -> Route:
        """Return the route to a described topic."""
        return self.route(info.name, len(info.logs))

    def route(self, topic: str, partitions: int) -> Route:
        """Return the route to a topic with this number of partitions."""
        return Route(topic, partitions, chooser(self.partitioner, partitions, native=self._native))


def _name(partitioner: object) -> str:
    return partitioner if isinstance(partitioner, str) else "custom"

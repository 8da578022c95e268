"""What a Kafka cluster says about itself: live nodes, replicas in sync, group coordinator, leader of the quorum."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._kafka_wire import KafkaWire

if TYPE_CHECKING:
    from collections.abc import Callable

METADATA, FIND_COORDINATOR, DESCRIBE_QUORUM = (3, 8), (10, 2), (55, 0)
QUORUM_LOG = b"__cluster_metadata"
ANSWER_LIMIT_S = 2.0  # a node that is paused does not answer at all

T = TypeVar("T")


@dataclass(frozen=True)
class Partition:
    """A partition, as one node sees it. Nodes are numbers; no leader is -1."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class View:
    """A cluster, as one node sees it."""

    live: frozenset[int]
    partitions: list[Partition]


def view(port: int) -> View:
    """Ask a node about the cluster."""
    with KafkaWire(port, ANSWER_LIMIT_S) as kafka:
        answer = _Answer(kafka.ask(METADATA, struct.pack(">i???", -1, False, False, False)))  # -1: all topics
    answer.numbers(">i")  # a throttle time
    live = answer.array(lambda: _broker(answer))
    answer.text()  # the cluster's id
    answer.numbers(">i")  # a controller, which KRaft makes up
    topics = answer.array(lambda: _topic(answer))
    return View(frozenset(live), [each for partitions in topics for each in partitions])


def leader(port: int, topic: str, partition: int) -> int:
    """Ask a node which node leads a partition."""
    for each in view(port).partitions:
        if (each.topic, each.number) == (topic, partition):
            return each.leader
    raise BrokerError(f"there is no {topic}[{partition}]")


def coordinator(port: int, group: str) -> int:
    """Ask a node which node coordinates a group."""
    name = group.encode()
    with KafkaWire(port, ANSWER_LIMIT_S) as kafka:
        answer = _Answer(kafka.ask(FIND_COORDINATOR, struct.pack(">h", len(name)) + name + b"\0"))
    _, code = answer.numbers(">ih")
    if code:
        raise BrokerError(f"no node coordinates the group {group!r}, error code {code}")
    answer.text()
    return answer.numbers(">i")[0]


def leads_quorum(controller_port: int) -> bool:
    """Ask a controller whether it is the active one."""
    topic = b"\x02" + bytes([len(QUORUM_LOG) + 1]) + QUORUM_LOG + b"\x02" + struct.pack(">i", 0) + b"\0\0\0"
    with KafkaWire(controller_port, ANSWER_LIMIT_S) as kafka:
        answer = kafka.ask(DESCRIBE_QUORUM, topic, tagged=True)
    code = struct.unpack_from(">h", answer)[0]
    # The code of the only partition stands behind two array lengths, the name with its length, and a number.
    return not code and not struct.unpack_from(">h", answer, 2 + 1 + 1 + len(QUORUM_LOG) + 1 + 4)[0]


def _broker(answer: _Answer) -> int:
    number = answer.numbers(">i")[0]
    answer.text()
    answer.numbers(">i")
    answer.text()
    return number


def _topic(answer: _Answer) -> list[Partition]:
    answer.numbers(">h")
    name = answer.text()
    answer.numbers(">?")
    partitions = answer.array(lambda: _partition(answer, name))
    answer.numbers(">i")
    return partitions


def _partition(answer: _Answer, topic: str) -> Partition:
    _, number, leader, _ = answer.numbers(">hiii")
    replicas, in_sync, _ = (tuple(answer.array(lambda: answer.numbers(">i")[0])) for _ in range(3))
    return Partition(topic, number, leader, replicas, in_sync)


class _Answer:
    """The bytes of an answer, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._offset)
        self._offset += struct.calcsize(form)
        return found

    def text(self) -> str:
        size = max(0, self.numbers(">h")[0])
        self._offset += size
        return self._data[self._offset - size : self._offset].decode()

    def array(self, element: Callable[[], T]) -> list[T]:
        return [element() for _ in range(self.numbers(">i")[0])]

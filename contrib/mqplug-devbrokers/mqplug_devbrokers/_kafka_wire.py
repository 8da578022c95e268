"""Kafka's protocol without a client library: one acknowledged message, access rights, and the state of a cluster.

Requests have the newest version without tagged fields.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

PRODUCE, CREATE_TOPICS, DELETE_TOPICS = (0, 8), (19, 4), (20, 3)
COMMIT_OFFSETS, DELETE_GROUPS = (8, 5), (42, 1)
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = (29, 1), (30, 1), (31, 1)
OPERATIONS = {
    "All": 2, "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8, "ClusterAction": 9,
    "DescribeConfigs": 10, "AlterConfigs": 11, "IdempotentWrite": 12,
}  # fmt: skip
RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transaction": 5}
ANY, LITERAL, PREFIXED, ALLOW = 1, 3, 4, 3
TOPIC_EXISTS = 36
NOT_READY = {3, 5, 6}  # a new topic is unknown, or its partition has no leader yet, or another one
REQUEST_TIMEOUT_MS = 5000
RETRY_PAUSE_S = 0.02

METADATA, FIND_COORDINATOR, DESCRIBE_QUORUM = (3, 8), (10, 2), (55, 0)
QUORUM_LOG = b"__cluster_metadata"
ANSWER_LIMIT_S = 2.0  # a paused node does not answer at all

T = TypeVar("T")


class AclRule(NamedTuple):
    """One right of a user: an operation on a resource with this name, or with this prefix."""

    user: str
    operation: str
    kind: str
    name: str
    prefixed: bool


class KafkaWire:
    """A connection to a broker, for one request at a time."""

    def __init__(self, port: int, timeout: float) -> None:
        self._timeout = timeout
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def create_topic(self, name: str) -> None:
        """Create a topic of one partition, unless it exists."""
        topic = _text(name) + struct.pack(">ihii", 1, 1, 0, 0)  # no explicit replicas, no settings
        answer = self.ask(CREATE_TOPICS, _array(topic) + struct.pack(">i?", REQUEST_TIMEOUT_MS, False))
        _raise_for(_number(answer, ">h", 4 + 4 + len(_text(name))), "create a topic", allowed=TOPIC_EXISTS)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        answer = self.ask(DELETE_TOPICS, _array(_text(name)) + struct.pack(">i", REQUEST_TIMEOUT_MS))
        _raise_for(_number(answer, ">h", 4 + 4 + len(_text(name))), "delete a topic")

    def produce(self, topic: str, value: bytes) -> None:
        """Append one message to partition 0 and wait until it is stored. A new topic may not be ready at once."""
        records = kafka_record_batch(value)
        data = _array(_text(topic) + _array(struct.pack(">ii", 0, len(records)) + records))
        end = time.monotonic() + self._timeout
        while True:
            answer = self.ask(PRODUCE, struct.pack(">hhi", -1, -1, REQUEST_TIMEOUT_MS) + data)
            code = _number(answer, ">h", 4 + len(_text(topic)) + 4 + 4)
            if code not in NOT_READY or time.monotonic() > end:
                break
            time.sleep(RETRY_PAUSE_S)
        _raise_for(code, "produce")

    def store_position(self, group: str, topic: str) -> None:
        """Store a position of a group in partition 0 of a topic, and delete the group again."""
        position = _array(_text(topic) + _array(struct.pack(">iq", 0, 0) + _text("")))
        answer = self.ask(COMMIT_OFFSETS, _text(group) + struct.pack(">i", -1) + _text("") + position)  # as no member
        _raise_for(_number(answer, ">h", 4 + 4 + len(_text(topic)) + 4 + 4), f"store a position of {group}")
        answer = self.ask(DELETE_GROUPS, _array(_text(group)))
        _raise_for(_number(answer, ">h", 4 + 4 + len(_text(group))), f"delete the group {group}")

    def create_acls(self, rules: Sequence[AclRule]) -> None:
        """Grant users these rights, and wait until the broker applies them."""
        for rule in rules:
            if rule.operation not in OPERATIONS:
                raise BrokerError(f"unknown operation {rule.operation!r}; expected one of {', '.join(OPERATIONS)}")
            answer = self.ask(CREATE_ACLS, _array(_acl(rule)))
            _raise_for(_number(answer, ">h", 4 + 4), "create an access right")
            self.wait_for_acl(rule)

    def wait_for_acl(self, rule: AclRule) -> None:
        """Wait until the broker applies a right that was granted."""
        self._wait_for_acls(_acl(rule), known=True)  # a filter is written as a right is

    def delete_acls(self, user: str) -> None:
        """Revoke all rights of a user, and wait until the broker applies none of them."""
        body = struct.pack(">bhb", ANY, -1, ANY) + _text(f"User:{user}") + struct.pack(">hbb", -1, ANY, ANY)
        _raise_for(_number(self.ask(DELETE_ACLS, _array(body)), ">h", 4 + 4), "delete access rights")
        self._wait_for_acls(body, known=False)

    def _wait_for_acls(self, wanted: bytes, *, known: bool) -> None:
        """Wait until the broker knows a right that matches this filter, or none.

        The controller answers as soon as it has stored a change. The broker reads it a little later.
        """
        end = time.monotonic() + self._timeout
        while True:
            answer = self.ask(DESCRIBE_ACLS, wanted)
            _raise_for(_number(answer, ">h", 4), "describe access rights")
            if (_number(answer, ">i", 4 + 2 + 2) > 0) == known:  # the number of rights, after a null message
                return
            if time.monotonic() > end:
                raise BrokerError(f"the server did not apply a change of access rights within {self._timeout:g} s")
            time.sleep(RETRY_PAUSE_S)

    def ask(self, api: tuple[int, int], body: bytes, *, tagged: bool = False) -> bytes:
        """Send a request and return the answer. `tagged` says that this version of it has tagged fields."""
        fields = b"\0" if tagged else b""  # none
        request = struct.pack(">hhi", *api, 1) + _text("mqplug-devbrokers") + fields + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        return self._receive(_number(self._receive(4), ">i", 0))[4 + len(fields) :]  # after the correlation id

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the server closed the connection")
            data += chunk
        return data


def _acl(rule: AclRule) -> bytes:
    pattern = PREFIXED if rule.prefixed else LITERAL
    resource = struct.pack(">b", RESOURCES[rule.kind]) + _text(rule.name) + struct.pack(">b", pattern)
    whom = _text(f"User:{rule.user}") + _text("*")
    return resource + whom + struct.pack(">bb", OPERATIONS[rule.operation], ALLOW)


def kafka_record_batch(value: bytes) -> bytes:
    """Return a batch (format 2) of one record without a key, headers or a time."""
    record = b"\0\0\0\x01" + _varint(len(value)) + value + b"\0"  # attributes, two deltas, no key
    record = _varint(len(record)) + record
    checked = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    counted = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(counted)) + counted


def crc32c(data: bytes) -> int:
    """Return the Castagnoli checksum, computed bit by bit: fast enough for a hundred bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _varint(number: int) -> bytes:
    """Return the zigzag varint of a non-negative number."""
    number *= 2
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode("ascii")


def _array(element: bytes) -> bytes:
    return struct.pack(">i", 1) + element


def _number(data: bytes, form: str, offset: int) -> int:
    number: int = struct.unpack_from(form, data, offset)[0]
    return number


def _raise_for(code: int, operation: str, *, allowed: int = 0) -> None:
    if code not in (0, allowed):
        raise BrokerError(f"the server refused to {operation}, error code {code}")


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
    raise BrokerError(f"unknown partition {topic}[{partition}]")


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
    # The code of the only partition comes after two array lengths, the name with its length, and a number.
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

"""Kafka's wire protocol: checksums, numbers, and requests that wait for the broker."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer
from mqplug_devbrokers._kafka_wire import DESCRIBE_ACLS, AclRule, KafkaWire, _varint, crc32c


def test_the_checksum_is_castagnoli() -> None:
    """The CRC-32C of "123456789" is the standard's check value."""
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(("number", "data"), [(0, b"\0"), (5, b"\x0a"), (63, b"\x7e"), (64, b"\x80\x01")])
def test_a_varint_is_zigzag(number: int, data: bytes) -> None:
    """A varint is zigzag-encoded, with seven bits in each byte, the lowest first."""
    assert _varint(number) == data


def test_a_topic_that_the_broker_does_not_know_yet_is_waited_for(kafka_server: KafkaServer) -> None:
    """A message to a topic that is created soon is stored; one to a topic that stays unknown is refused."""

    def create() -> None:
        with KafkaWire(kafka_server.port, timeout=20) as kafka:
            kafka.create_topic("later")

    asked = threading.Event()

    class Watched(KafkaWire):
        def ask(self, api: tuple[int, int], body: bytes, *, tagged: bool = False) -> bytes:
            answer = super().ask(api, body, tagged=tagged)
            asked.set()
            return answer

    creator = threading.Thread(target=lambda: asked.wait(20) and create())
    creator.start()
    with Watched(kafka_server.port, timeout=20) as kafka:
        kafka.produce("later", b"x")
    creator.join()
    with pytest.raises(BrokerError, match="error code 3"), KafkaWire(kafka_server.port, timeout=1) as kafka:
        kafka.produce("never", b"x")


class LateBroker(KafkaWire):
    """A broker that applies a change of rights only after it was asked for them several times."""

    def __init__(self, *counts: int) -> None:
        self._timeout = 20
        self.counts = list(counts)

    def ask(self, api: tuple[int, int], body: bytes, *, tagged: bool = False) -> bytes:
        if api == DESCRIBE_ACLS:
            return struct.pack(">ihhi", 0, 0, -1, self.counts.pop(0))
        return struct.pack(">iih", 0, 0, 0)


@pytest.mark.parametrize(
    ("counts", "change"),
    [
        ((0, 0, 1), lambda broker: broker.create_acls([AclRule("bob", "Read", "topic", "t", prefixed=False)])),
        ((2, 1, 0), lambda broker: broker.delete_acls("bob")),
    ],
    ids=["given", "taken"],
)
def test_a_change_of_rights_is_waited_for(counts: tuple[int, ...], change: Callable[[LateBroker], Any]) -> None:
    """Granting or revoking a right waits until the broker reports it, which is after its answer to the request."""
    broker = LateBroker(*counts)
    change(broker)
    assert broker.counts == []


def test_a_change_of_rights_that_never_comes_is_an_error() -> None:
    """If the broker never reports a change of rights, the call raises BrokerError at its timeout."""
    broker = LateBroker(*[0] * 10)
    broker._timeout = 0
    with pytest.raises(BrokerError, match="did not apply a change of access rights"):
        broker.create_acls([AclRule("bob", "Read", "topic", "t", prefixed=False)])

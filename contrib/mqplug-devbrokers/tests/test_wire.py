"""The bytes of Kafka's protocol."""

from __future__ import annotations

import threading

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer
from mqplug_devbrokers._kafka_wire import KafkaWire, _varint, crc32c


def test_the_checksum_is_castagnoli() -> None:
    """The check value of the standard."""
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(("number", "data"), [(0, b"\0"), (5, b"\x0a"), (63, b"\x7e"), (64, b"\x80\x01")])
def test_a_varint_is_zigzag(number: int, data: bytes) -> None:
    """Seven bits in each byte, the lowest first, doubled."""
    assert _varint(number) == data


def test_a_topic_that_the_broker_does_not_know_yet_is_waited_for(kafka_server: KafkaServer) -> None:
    """A message to a topic that is created a little later is stored; one to a topic that never is, is refused."""

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

"""A peculiarity of Kafka: offsets without a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clusters import new_name
from confluent_kafka import Producer
from queries import read_all
from waiting import wait_until

import mqplug

if TYPE_CHECKING:
    from mqplug_devbrokers import KafkaServer


@pytest.mark.timeout(120)  # the first test that needs Kafka starts it
def test_a_range_that_ends_in_a_transaction_marker_ends(kafka_server: KafkaServer) -> None:
    """A transaction marker has an offset but is no message: a read passes it and ends at once."""
    topic = new_name("payments")
    with mqplug.connect(kafka_server.url) as mq:
        mq.create_topic(topic)
        native = Producer({"bootstrap.servers": kafka_server.bootstrap, "transactional.id": topic})
        native.init_transactions(30)
        for number in range(3):
            native.begin_transaction()
            native.produce(topic, str(number).encode(), partition=0)
            if number == 1:
                native.abort_transaction(30)
            else:
                native.commit_transaction(30)
        wait_until(lambda: mq.watermarks(topic)[0].readable == mq.watermarks(topic)[0].high)  # markers come later
    rows = read_all({"url": kafka_server.url, "subscribe": topic, "pollTimeoutMs": "10000"})
    assert [number for _, _, number in rows] == [0, 2]

"""The diagram of docs/architecture.md shows the path of a message to Kafka, which is short."""

from __future__ import annotations

import pytest
from compiled_parts import compiled_part
from way_of_a_message import modules_called, modules_pictured

import mqplug

compiled_part("mqplug_kafka_native")

pytestmark = pytest.mark.python

MOST = 10


def test_a_sent_message(kafka_server, topic):
    """A warm send passes through the modules in its diagram, at most ten, and through no others."""
    with mqplug.connect(kafka_server.url, native="required") as mq, mq.producer(topic) as out:
        for _ in range(3):
            out.send(b"x")
        ways = [modules_called(lambda: out.send(b"x")) for _ in range(5)]
    shown = modules_pictured("A message is sent to Kafka")
    assert set.intersection(*ways) == shown  # some also look for a change of the topic
    assert len(shown) <= MOST

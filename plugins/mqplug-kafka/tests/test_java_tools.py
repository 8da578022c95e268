"""Kafka's Java console producer and consumer beside ours, on one topic and in one group."""

from __future__ import annotations

import subprocess
import time
from collections import Counter

import pytest
from kafka_driver import new_name, take

import mqplug

PARTITIONS = 4


@pytest.fixture
def shared(mq):
    """A topic with four partitions, and the name of a group."""
    name = new_name()
    mq.create_topic(name, partitions=PARTITIONS)
    return name, f"{name}-group"


def settle(consumer, count, found, seconds=60):
    """Receive and ack until the consumer has this number of partitions."""
    end = time.monotonic() + seconds
    while len(consumer.assignment()) != count and time.monotonic() < end:
        if (message := consumer.receive(timeout=0.1)) is not None:
            found.append(message.value)
            consumer.ack(message)
    assert len(consumer.assignment()) == count


@pytest.mark.timeout(240)
@pytest.mark.parametrize("assignor", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.night)])
def test_javas_console_consumer_shares_a_group_with_us(kafka_server, shared, tmp_path, assignor):
    """Java's consumer and ours split the partitions; when it leaves we get all, and each message arrives once."""
    topic, group = shared
    values = [b"%d" % number for number in range(400)]
    found, output = [], tmp_path / "output"
    command = kafka_server.tool("consumer.ConsoleConsumer", "--topic", topic, "--group", group)
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], assignor=assignor) as mq:
        with mq.consumer(topic, group=group) as ours, mq.producer(topic, partitioner="round_robin") as out:
            settle(ours, PARTITIONS, found)
            with output.open("wb") as file, subprocess.Popen(command, stdout=file) as java:
                try:
                    settle(ours, PARTITIONS // 2, found)
                    out.send_many(values[:200])
                    end = time.monotonic() + 60
                    while len(found) + len(output.read_bytes().split()) < 200 and time.monotonic() < end:
                        for message in ours.receive_many(1000, timeout=0.1):
                            found.append(message.value)
                            ours.ack(message)
                finally:
                    java.terminate()
                    java.wait(60)
            theirs = output.read_bytes().split()
            assert len(theirs) == 100
            settle(ours, PARTITIONS, found)
            out.send_many(values[200:])
            for message in take(ours, 400 - len(found) - len(theirs)):
                found.append(message.value)
                ours.ack(message)
        assert Counter(found + theirs) == Counter(values)
        assert mq.lag(topic, group=group) == dict.fromkeys(range(PARTITIONS), 0)


@pytest.mark.timeout(240)
def test_javas_console_producer_puts_keys_where_we_do(kafka_server, shared, mq):
    """Java's producer and ours send the same key to the same partition, in the order of the sends."""
    topic, _ = shared
    keys = [b"k%d" % number for number in range(40)]
    settings = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    subprocess.run(
        kafka_server.tool("ConsoleProducer", "--topic", topic, *settings),
        input=b"".join(b"%s:java\n" % key for key in keys), check=True, timeout=120,
    )  # fmt: skip
    with mq.producer(topic) as out:
        out.send_many([mqplug.Record(b"ours", key) for key in keys])
    places: dict[bytes, list[tuple[int, bytes]]] = {key: [] for key in keys}
    for message in mq.read(topic):
        places[message.key].append((message.partition, message.value))
    assert all([value for _, value in each] == [b"java", b"ours"] for each in places.values())
    assert all(len({partition for partition, _ in each}) == 1 for each in places.values())

"""While brokers are down, clients try to connect a few times a second, and continue as soon as they are back."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_driver import fill, new_name
from kafka_faults import change
from waiting import wait_until

import mqplug

MOST_A_SECOND = 100
SLACK_S = 5.0


class Connects:
    """Counts the connection attempts in librdkafka's statistics."""

    def __init__(self):
        self._counts = {}

    def __call__(self, statistics):
        """Take the statistics of one client. Used as ``stats_cb``."""
        found = json.loads(statistics)
        for broker in found["brokers"].values():
            self._counts[found["name"], broker["name"]] = broker["connects"]

    def count(self):
        return sum(self._counts.copy().values())


@pytest.fixture
def connects(monkeypatch):
    """Count the connection attempts of all librdkafka clients created during the test."""
    counted = Connects()

    def telling(prepared, self, options, on_error):
        return {**prepared(self, options, on_error), "statistics.interval.ms": 500, "stats_cb": counted}

    change(monkeypatch, "options of a client", telling)
    return counted


def connected(cluster):
    """Connect without the compiled part: confluent-kafka's clients have statistics."""
    return mqplug.connect(f"{cluster.url}?native=off", timeout=30)


class Repeated:
    """Repeats its step in a thread until the block ends, and counts the successes."""

    def __init__(self):
        self.done = 0
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.done, 60)
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._thread.join(30)
        self._close()

    def _work(self):
        while not self._enough.wait(0.05):
            self._do()


class Worker(Repeated):
    """An mqplug client that repeats one operation."""

    def __init__(self, kind, cluster, topic):
        super().__init__()
        self._client = connected(cluster)
        self._step = getattr(self, f"_{kind}")(topic)

    def _do(self):
        with suppress(mqplug.Error):
            self.done += bool(self._step())
        self._client._connection.admin.poll(0)  # for its statistics

    def _close(self):
        with suppress(mqplug.CloseIncomplete, mqplug.OutcomeUnknown):
            self._client.close(10)

    def _producer(self, topic):
        out = self._client.producer(topic)
        return lambda: out.send(b"x", timeout=3)

    def _member(self, topic):
        consumer = self._client.consumer(topic, group=new_name())
        return lambda: [consumer.ack(each) or each for each in consumer.receive_many(10, timeout=0.2)]

    def _reader(self, topic):
        consumer = self._client.consumer(topic, start=mqplug.EARLIEST)
        return lambda: consumer.receive_many(10, timeout=0.2)

    def _watermarks(self, topic):
        return lambda: self._client.watermarks(topic, timeout=3)

    def _lag(self, topic):
        group = new_name()
        self._client.reset_group(group, topic, mqplug.EARLIEST)
        return lambda: self._client.lag(topic, group=group, timeout=3)


KINDS = ["producer", "member", "reader", "watermarks", "lag"]


@contextmanager
def killed(cluster, *numbers):
    """Kill these nodes, and start them again at the end of the block."""
    for number in numbers:
        cluster.kill(number)
    try:
        yield
    finally:
        cluster.start()


def rate(connects, seconds):
    """Return the connection attempts per second, measured for this many seconds."""
    before, began = connects.count(), time.monotonic()
    time.sleep(seconds)
    return (connects.count() - before) / (time.monotonic() - began)


def new_topic(cluster):
    """Create a topic with messages, of which each node leads one partition."""
    topic = new_name()
    with connected(cluster) as mq:
        mq.create_topic(topic, partitions=3)
        fill(mq, topic, 30)
    return topic


class Bare(Repeated):
    """A bare confluent-kafka client that sends to a topic, reads from it, or is a member of a group that reads it."""

    def __init__(self, kind, cluster, topic):
        super().__init__()
        servers = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        if kind == "producer":
            self._native = Producer(servers | {"message.timeout.ms": 3000})
            self._do = lambda: self._send(topic)
        else:
            self._native = Consumer(servers | {"group.id": new_name(), "session.timeout.ms": 10_000,
                                               "auto.offset.reset": "earliest"})  # fmt: skip
            if kind == "member":
                self._native.subscribe([topic])
            else:
                self._native.assign([TopicPartition(topic, number, 0) for number in range(3)])
            self._do = self._read

    def _close(self):
        if isinstance(self._native, Consumer):
            self._native.close()

    def _send(self, topic):
        self._native.produce(topic, b"x", on_delivery=self._reported)
        self._native.flush(4)

    def _reported(self, error, _):
        self.done += error is None

    def _read(self):
        message = self._native.poll(0.2)
        self.done += message is not None and message.error() is None


@pytest.mark.night
def test_a_node_that_is_down_is_not_stormed(kafka_cluster, connects):
    """While the controller is down, clients of all kinds together make fewer than 100 connection attempts a second."""
    topic = new_topic(kafka_cluster)
    with ExitStack() as stack:
        for kind in KINDS:
            stack.enter_context(Worker(kind, kafka_cluster, topic))
        with killed(kafka_cluster, kafka_cluster.controller):
            assert rate(connects, 3) < MOST_A_SECOND


@pytest.mark.night
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_client_storms_or_is_late(kafka_cluster, connects, kind):
    """While one, two or all nodes are down, attempts stay below 100 a second; then it recovers like a bare client."""
    topic = new_topic(kafka_cluster)
    feed = None if kind == "producer" else "producer"
    with ExitStack() as stack:
        if feed:
            stack.enter_context(Bare(feed, kafka_cluster, topic))
        bare = stack.enter_context(Bare(kind, kafka_cluster, topic))
        ours = stack.enter_context(Worker(kind, kafka_cluster, topic))
        stack.callback(kafka_cluster.start)
        first = kafka_cluster.controller
        rates = {}
        for number in (first, *sorted({1, 2, 3} - {first})):
            kafka_cluster.kill(number)
            rates[number] = rate(connects, 5)
        assert max(rates.values()) < MOST_A_SECOND, rates
        kafka_cluster.start()
        began, before = time.monotonic(), {each: each.done for each in (bare, ours)}
        wait_until(lambda: bare.done > before[bare], 60)
        limit = time.monotonic() - began + SLACK_S
        wait_until(lambda: ours.done > before[ours], limit)

"""A broker's relayed network: cuts, delays and broken connections, and clients that continue afterwards."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pulsar
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from server_talk import PulsarRest

from mqplug import Client
from mqplug_devbrokers import BrokerError, KafkaServer, PulsarServer
from mqplug_testing import Harness

pytestmark = pytest.mark.disturbs

SILENCE = 0.3  # seconds; on loopback an answer would have arrived by then
PATIENCE = 20.0


def test_a_server_that_was_not_started_has_no_network() -> None:
    """Using the network of a server before its start raises BrokerError."""
    server = KafkaServer()
    for use in (server.cut_network, server.heal_network, lambda: server.relayed_url):
        with pytest.raises(BrokerError, match="call start"):
            use()


def test_what_can_be_done_to_it_is_a_harness(kafka_server: KafkaServer) -> None:
    """The server's hooks fit a harness, and those that lose replies affect only relayed clients."""
    Harness(connect=Client, **kafka_server.hooks())
    relayed, plain = (
        AdminClient({"bootstrap.servers": at, "socket.timeout.ms": 1000})
        for at in (kafka_server.relayed_bootstrap, kafka_server.bootstrap)
    )
    for lose in (kafka_server.drop_replies, kafka_server.stall_replies, kafka_server.reset_replies):
        lose()
        try:
            with pytest.raises(KafkaException):
                relayed.list_topics(timeout=1)
            assert plain.list_topics(timeout=PATIENCE).brokers
        finally:
            kafka_server.heal_network()
        assert relayed.list_topics(timeout=PATIENCE).brokers


def test_a_kafka_client_meets_a_cut(kafka_server: KafkaServer) -> None:
    """While the network is cut a relayed Kafka client gets no acks, and afterwards it does; direct ones always do."""
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka_server.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(10)
    far, near = (Producer({"bootstrap.servers": at}) for at in (kafka_server.relayed_bootstrap, kafka_server.bootstrap))
    for producer in (far, near):
        producer.produce(topic, b"before")
        assert producer.flush(20) == 0
    kafka_server.cut_network()
    try:
        for producer in (far, near):
            producer.produce(topic, b"during")
        assert near.flush(20) == 0
        assert far.flush(1) == 1
    finally:
        kafka_server.heal_network()
    assert far.flush(20) == 0


def test_a_delayed_network_answers_late(kafka_server: KafkaServer) -> None:
    """A request over a network delayed by 0.5 s takes at least a second there and back."""
    far, near = (
        AdminClient({"bootstrap.servers": at}) for at in (kafka_server.relayed_bootstrap, kafka_server.bootstrap)
    )
    for admin in (far, near):
        admin.list_topics(timeout=PATIENCE)
    kafka_server.delay_network(0.5)
    try:
        began = time.monotonic()
        far.list_topics(timeout=PATIENCE)
        assert time.monotonic() - began >= 1.0
    finally:
        kafka_server.heal_network()


def test_a_kafka_client_survives_a_broken_connection(kafka_server: KafkaServer) -> None:
    """A Kafka client reconnects after one or all connections are reset, and its messages are acknowledged."""
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka_server.relayed_bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(10)
    lost: list[object] = []
    options = {"bootstrap.servers": kafka_server.relayed_bootstrap, "error_cb": lost.append}
    producer = Producer(options)
    for _ in range(3):
        producer.produce(topic, b"x")
        assert producer.flush(20) == 0
        assert kafka_server.break_connection() == 1
    producer.produce(topic, b"after")
    assert producer.flush(20) == 0
    assert kafka_server.break_connections() >= 1
    assert admin.list_topics(timeout=PATIENCE).topics[topic]


def test_a_pulsar_client_survives_broken_connections(pulsar_server: PulsarServer) -> None:
    """A Pulsar client sends again after all connections are reset, and later over a delayed network."""
    topic = f"t-{uuid.uuid4().hex}"
    PulsarRest(pulsar_server.admin_url, PATIENCE).create_topic(topic)
    with producing(pulsar_server.relayed_service_url, topic) as producer:
        producer.send(b"before")
        assert pulsar_server.break_connections() >= 1
        retried(lambda: producer.send(b"after"))
        pulsar_server.delay_network(0.2)
        try:
            began = time.monotonic()
            retried(lambda: producer.send(b"late"))
            assert time.monotonic() - began >= 0.4
        finally:
            pulsar_server.heal_network()


def test_the_network_survives_the_broker(kafka_server: KafkaServer) -> None:
    """After a restart of the broker the relayed address is the same and leads to it."""
    address = kafka_server.relayed_bootstrap
    kafka_server.restart()
    assert kafka_server.relayed_bootstrap == address
    assert kafka_server.relayed_url == f"kafka://{address}"
    assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=20).orig_broker_name.startswith(address)


def test_a_pulsar_client_meets_a_cut(pulsar_server: PulsarServer) -> None:
    """While the network is cut a relayed Pulsar client gets no acks, and afterwards it does; direct ones do."""
    topic = f"t-{uuid.uuid4().hex}"
    PulsarRest(pulsar_server.admin_url, PATIENCE).create_topic(topic)
    with ExitStack() as opened:
        far, near = (
            opened.enter_context(producing(address, topic))
            for address in (pulsar_server.relayed_service_url, pulsar_server.service_url)
        )
        for producer in (far, near):
            producer.send(b"before")
        pulsar_server.cut_network()
        try:
            near.send(b"during")
            with pytest.raises(pulsar.Timeout):
                far.send(b"during")
        finally:
            pulsar_server.heal_network()
        retried(lambda: far.send(b"after"))


@contextmanager
def producing(address: str, topic: str) -> Iterator[pulsar.Producer]:
    """Open a producer whose sends time out after a second."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(address, operation_timeout_seconds=30, logger=logger)
    yield client.create_producer(topic, send_timeout_millis=1000)
    client.close()


def retried(send: Callable[[], object]) -> None:
    """Send until it is acknowledged: the client may have to reconnect first."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            send()
        except pulsar.Timeout:
            assert time.monotonic() < end
        else:
            return


def test_the_administration_of_pulsar_is_behind_the_network_too(pulsar_server: PulsarServer) -> None:
    """Pulsar's relayed URL names both relayed addresses, and its administration does not answer during a cut."""
    service, _, admin = pulsar_server.relayed_url.partition("?admin_url=")
    assert service == pulsar_server.relayed_service_url
    topic = f"t-{uuid.uuid4().hex}"
    PulsarRest(admin, PATIENCE).create_topic(topic)
    pulsar_server.cut_network()
    try:
        with pytest.raises(OSError, match="timed out"):
            PulsarRest(admin, SILENCE).delete_topic(topic)
    finally:
        pulsar_server.heal_network()
    PulsarRest(admin, PATIENCE).delete_topic(topic)

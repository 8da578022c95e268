"""A real Kafka: readiness, kills and restarts that keep data, and pauses."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from server_talk import PROBE_TOPIC, KafkaWire

from mqplug_devbrokers import BrokerError, KafkaServer
from mqplug_devbrokers.kafka import OFFSETS_TOPIC, java_hash, one_group_each


@pytest.fixture
def topic(kafka_server: KafkaServer) -> Iterator[str]:
    """A new topic with one partition."""
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka_server.bootstrap})
    admin.create_topics([NewTopic(name, 1)])[name].result(10)
    yield name
    admin.delete_topics([name])[name].result(10)


def produce(server: KafkaServer, topic: str, value: bytes) -> None:
    """Produce one message and wait for its acknowledgement."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20) == 0
    assert failures == [None]


def consume(server: KafkaServer, topic: str, count: int) -> list[bytes]:
    """Return the first messages of the topic."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, 20)]
    finally:
        consumer.close()


def test_an_acknowledged_message_is_read_back(kafka_server: KafkaServer, topic: str) -> None:
    """A client that connects to the bootstrap address reads the message it wrote."""
    produce(kafka_server, topic, b"hello")
    assert consume(kafka_server, topic, 1) == [b"hello"]


def test_the_proof_leaves_no_topic(kafka_server: KafkaServer, topic: str) -> None:
    """The message that proves the server ready leaves no topic."""
    admin, end = AdminClient({"bootstrap.servers": kafka_server.bootstrap}), time.monotonic() + 20
    while topic not in (topics := admin.list_topics(timeout=10).topics):  # the broker learns of it a little later
        assert time.monotonic() < end
        time.sleep(0.02)
    assert PROBE_TOPIC not in topics


def test_the_url_names_the_backend_and_the_address(kafka_server: KafkaServer) -> None:
    """The URL has mqplug's form, with the scheme kafka and the server's port."""
    assert kafka_server.url == f"kafka://127.0.0.1:{kafka_server.port}"


@pytest.mark.night
@pytest.mark.disturbs
def test_a_kill_keeps_data_and_port(kafka_server: KafkaServer, topic: str) -> None:
    """After SIGKILL and a start, a new process at the same address has the acknowledged message."""
    produce(kafka_server, topic, b"kept")
    address, pid = kafka_server.bootstrap, kafka_server.pid
    kafka_server.kill()
    assert not kafka_server.running
    kafka_server.start()
    assert kafka_server.bootstrap == address
    assert kafka_server.pid != pid
    assert consume(kafka_server, topic, 1) == [b"kept"]


def commit(server: KafkaServer, group: str, topic: str) -> None:
    """Store a position of a group, with a client's default timeouts."""
    member = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    finally:
        member.close()


@pytest.mark.disturbs
def test_a_killed_broker_is_ready_when_its_groups_are(kafka_server: KafkaServer, topic: str) -> None:
    """After a kill and a start groups can store positions at once, and the proof of that leaves no group."""
    commit(kafka_server, f"of {topic}", topic)
    kafka_server.kill()
    kafka_server.start()
    with KafkaWire(kafka_server.port, timeout=20) as kafka:
        kafka.store_position(f"another of {topic}", topic)
    admin = AdminClient({"bootstrap.servers": kafka_server.bootstrap})
    groups = {each.group_id for each in admin.list_consumer_groups().result(20).valid}
    assert f"of {topic}" in groups
    assert not [each for each in groups if each.startswith(PROBE_TOPIC)]


@pytest.mark.night
def test_a_broker_without_its_groups_is_not_ready(tmp_path: Path) -> None:
    """A broker that stores messages but cannot load groups' positions fails its start and is stopped cleanly."""
    with KafkaServer(directory=tmp_path) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(20)
        commit(server, "g", "t")
        spoiler = Producer({"bootstrap.servers": server.bootstrap, "client.id": "__admin_client"})
        spoiler.produce(OFFSETS_TOPIC, key=b"\0\1", value=b"no position")
        assert spoiler.flush(20) == 0
    with pytest.raises(BrokerError, match="store a position"), KafkaServer(directory=tmp_path, timeout=20):
        pass
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(("partitions", "groups"), [(0, 0), (1, 1), (50, 50)])
def test_each_partition_of_positions_is_proved(partitions: int, groups: int) -> None:
    """The proof uses one group for each partition of positions, chosen by Java's hash like in Kafka."""
    assert len(set(one_group_each(partitions))) == groups
    assert java_hash("hello") == 99162322
    assert java_hash("mqplug-devbrokers") == 541662592  # without the sign


@pytest.mark.night
@pytest.mark.disturbs
def test_a_restart_keeps_data(kafka_server: KafkaServer, topic: str) -> None:
    """A clean restart keeps the acknowledged message."""
    produce(kafka_server, topic, b"kept")
    kafka_server.restart()
    assert consume(kafka_server, topic, 1) == [b"kept"]


@pytest.mark.disturbs
def test_a_paused_server_is_silent_until_it_goes_on(kafka_server: KafkaServer, topic: str) -> None:
    """A message sent to a paused server is acknowledged only after the server resumes."""
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap})
    producer.produce(topic, b"before")
    assert producer.flush(20) == 0
    kafka_server.pause()
    try:
        producer.produce(topic, b"during")
        assert producer.flush(1) == 1
    finally:
        kafka_server.unpause()
    assert producer.flush(20) == 0
    assert consume(kafka_server, topic, 2) == [b"before", b"during"]


@pytest.mark.night
@pytest.mark.disturbs
def test_stopping_a_paused_server_ends_it(kafka_server: KafkaServer) -> None:
    """A paused server can be stopped and started again."""
    kafka_server.pause()
    kafka_server.stop()
    assert not kafka_server.running
    with pytest.raises(BrokerError, match="not running"):
        kafka_server.pause()
    kafka_server.start()
    assert kafka_server.running


def test_kafkas_own_tools_run(kafka_server: KafkaServer, topic: str) -> None:
    """Kafka's TopicCommand is fetched, connects to the server and lists its topics."""
    command = kafka_server.tool("TopicCommand", "--list")
    shown = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
    assert topic in shown.stdout.decode().split()

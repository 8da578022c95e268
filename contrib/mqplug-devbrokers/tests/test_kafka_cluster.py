"""A Kafka of three nodes: leaders can be killed and are replaced, and nodes that come back are in sync."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from server_talk import KafkaWire, view

from mqplug_devbrokers import BrokerError, KafkaCluster
from mqplug_testing import Harness

PATIENCE = 30.0


@pytest.fixture
def cluster(kafka_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """The running cluster. After the test, all its nodes are started again."""
    yield kafka_cluster
    kafka_cluster.start()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """A new topic with one partition, which has a replica on each node."""
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1)])[name].result(PATIENCE)
    cluster.wait_in_sync()
    return name


def stored(address: str, topic: str, value: bytes) -> bool:
    """Return whether all in-sync nodes acknowledge a message."""
    errors: list[object] = []
    # Otherwise librdkafka may spend its time on connecting to a killed node.
    options = {"bootstrap.servers": address, "acks": "all", "metadata.recovery.strategy": "none"}
    producer = Producer(options)
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(PATIENCE)
    return errors == [None]


def consume(address: str, topic: str, count: int) -> list[bytes]:
    """Return the first messages of the topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, PATIENCE)]
    finally:
        consumer.close()


def test_a_killed_leader_has_a_successor(cluster: KafkaCluster, topic: str) -> None:
    """After a kill of the leader another node leads, and earlier and later messages are stored."""
    assert stored(cluster.bootstrap, topic, b"before")
    killed = cluster.kill_leader(topic)
    assert not cluster.nodes[killed].running
    assert cluster.leader(topic) != killed
    assert stored(cluster.bootstrap, topic, b"after")
    assert consume(cluster.bootstrap, topic, 2) == [b"before", b"after"]


@pytest.mark.night
def test_a_killed_controller_has_a_successor(cluster: KafkaCluster) -> None:
    """After a kill of the controller another node is the controller and creates topics."""
    killed = cluster.kill_controller()
    assert cluster.controller != killed
    name = f"t-{uuid.uuid4().hex}"
    end = time.monotonic() + PATIENCE
    while not creates(cluster.nodes[cluster.controller].port, name):
        assert time.monotonic() < end
        time.sleep(0.1)


def creates(port: int, topic: str) -> bool:
    """Create a topic at a node, and return whether it exists now."""
    try:
        with KafkaWire(port, timeout=10) as kafka:
            kafka.create_topic(topic)
    except (BrokerError, OSError):
        return False
    return True


@pytest.mark.night
def test_a_killed_coordinator_has_a_successor(cluster: KafkaCluster) -> None:
    """After a kill of a group's coordinator another node coordinates the group."""
    killed = cluster.kill_coordinator("billing")
    assert cluster.coordinator("billing") != killed


@pytest.mark.night
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_node_that_comes_back_is_in_sync_at_once(cluster: KafkaCluster, topic: str, number: int) -> None:
    """When `start` returns, the node is in sync again in the view of every node."""
    cluster.kill(number)
    cluster.leader(topic)  # waits for a successor, if the node was the leader
    assert stored(cluster.bootstrap, topic, b"missed")
    cluster.start(number)
    for node in cluster.nodes.values():
        views = view(node.port)
        assert views.live == {1, 2, 3}
        assert {each.in_sync for each in views.partitions if len(each.in_sync) != len(each.replicas)} == set()


@pytest.mark.night
def test_without_a_quorum_nothing_is_stored_until_it_is_back(cluster: KafkaCluster, topic: str) -> None:
    """Without a quorum nothing is acknowledged and asking for the controller says why; with one, sends succeed."""
    assert stored(cluster.bootstrap, topic, b"before")
    killed = cluster.lose_quorum()
    assert len(killed) == 2
    assert not cluster.has_quorum
    (left,) = (node for node in cluster.nodes.values() if node.running)
    with pytest.raises((BrokerError, OSError)), KafkaWire(left.port, timeout=20) as kafka:
        kafka.produce(topic, b"lost")
    with pytest.raises(BrokerError, match=r"no running node is the active controller.*not a quorum; call start"):
        _ = cluster.controller
    cluster.start(killed[0])
    assert cluster.has_quorum
    cluster.start()
    assert stored(cluster.bootstrap, topic, b"after")


@pytest.mark.night
def test_a_rolling_restart_loses_nothing(cluster: KafkaCluster, topic: str) -> None:
    """After a rolling restart each node is a new process, and messages sent before and after it are stored."""
    before = {node.pid for node in cluster.nodes.values()}
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"before", on_delivery=lambda error, _: failures.append(error))
    producer.poll(PATIENCE)
    cluster.rolling_restart()
    producer.produce(topic, b"after", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE) == 0
    assert failures == [None, None]
    assert not before & {node.pid for node in cluster.nodes.values()}
    assert consume(cluster.bootstrap, topic, 2) == [b"before", b"after"]


@pytest.mark.night
def test_a_paused_leader_is_replaced_and_comes_back(cluster: KafkaCluster, topic: str) -> None:
    """While the leader is paused another node leads; when `unpause` returns, all nodes are in sync."""
    paused = cluster.leader(topic)
    cluster.pause(paused)
    try:
        assert cluster.leader(topic) != paused
        assert stored(cluster.bootstrap, topic, b"meanwhile")
    finally:
        cluster.unpause(paused)
    cluster.check_in_sync()


@pytest.mark.night
def test_the_network_of_one_node_or_of_all_is_cut(cluster: KafkaCluster, topic: str) -> None:
    """While the network of the leader or of all nodes is cut, relayed clients get no acks, but direct ones do."""
    far = Producer({"bootstrap.servers": cluster.relayed_bootstrap})
    far.produce(topic, b"before")
    assert far.flush(PATIENCE) == 0
    leader = cluster.nodes[cluster.leader(topic)]
    for cut in (leader.cut_network, cluster.cut_network):
        cut()
        try:
            far.produce(topic, b"during")
            assert far.flush(1) == 1
            assert stored(cluster.bootstrap, topic, b"near")
        finally:
            cluster.heal_network()
        assert far.flush(PATIENCE) == 0


@pytest.mark.night
def test_what_can_be_done_to_it_is_a_harness(cluster: KafkaCluster) -> None:
    """The cluster's hooks fit a harness: `kill_node` kills a node, and `start_node` starts it again."""
    harness = Harness(connect=lambda: None, **cluster.hooks())  # type: ignore[arg-type,return-value]
    assert harness.kill_node is not None
    assert harness.start_node is not None
    harness.kill_node()
    assert len([node for node in cluster.nodes.values() if node.running]) == 2
    harness.start_node()
    assert len([node for node in cluster.nodes.values() if node.running]) == 3


def test_what_cannot_be_meant_is_refused(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Too few nodes, an unknown node or topic, and a directory with another number of nodes raise errors."""
    with pytest.raises(ValueError, match="nodes=2 must be at least 3 to survive the loss of one"):
        KafkaCluster(nodes=2)
    with pytest.raises(BrokerError, match="unknown node 4; expected one of 1, 2, 3"):
        cluster.kill(4)
    (tmp_path / "node-1").mkdir()
    with pytest.raises(BrokerError, match="holds the data of 1 nodes"):
        KafkaCluster(directory=tmp_path)
    began = time.monotonic()
    with pytest.raises(BrokerError, match=r"unknown partition nothing\[0\]"):
        cluster.leader("nothing", timeout=1)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.night
def test_it_is_attached_to(cluster: KafkaCluster) -> None:
    """A cluster attached by a handle can be used, and closing it leaves the original running."""
    attached = KafkaCluster()
    attached.attach(cluster.handle())
    with attached:
        assert attached.running
        assert attached.url == cluster.url
    assert cluster.running


@pytest.mark.night
def test_a_kept_cluster_is_the_same_one_the_next_time(tmp_path: Path) -> None:
    """A second cluster in the directory of a first one has the same addresses and messages."""
    with KafkaCluster(directory=tmp_path) as first:
        url = first.url
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        admin.create_topics([NewTopic("kept", 1)])["kept"].result(PATIENCE)
        assert stored(first.bootstrap, "kept", b"kept")
        directories = [node.directory for node in first.nodes.values()]
    assert all(directory.exists() for directory in directories)
    with KafkaCluster(directory=tmp_path) as second:
        assert second.url == url
        assert consume(second.bootstrap, "kept", 1) == [b"kept"]


@pytest.mark.night
@pytest.mark.parametrize("version", ["3.9", "3.3"])
def test_older_versions_are_clusters_too(version: str) -> None:
    """In clusters of older versions the controller is found, killed and replaced as well."""
    with KafkaCluster(version=version) as cluster:
        directories = [node.directory for node in cluster.nodes.values()]
        assert {node.version.startswith(f"{version}.") for node in cluster.nodes.values()} == {True}
        killed = cluster.kill_controller()
        assert cluster.controller != killed
        cluster.start(killed)
        cluster.wait_in_sync()
    assert not any(directory.exists() for directory in directories)

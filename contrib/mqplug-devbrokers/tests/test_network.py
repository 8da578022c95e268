"""The network that can be cut: nobody is told, and all goes on after it."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager

import pulsar
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mqplug_devbrokers import BrokerError, KafkaServer, PulsarServer
from mqplug_devbrokers._network import Network
from mqplug_devbrokers._ports import free_port
from mqplug_devbrokers._pulsar_rest import PulsarRest

SILENCE = 0.3  # seconds in which something would have come on loopback
PATIENCE = 20.0

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    """Something that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def port() -> int:
    """The network's port for clients."""
    return free_port()


@pytest.fixture
def network(broker: socket.socket, port: int) -> Iterator[Network]:
    """A network to the broker."""
    network = Network({port: broker.getsockname()[1]})
    yield network
    network.close()


@pytest.fixture
def pair(network: Network, broker: socket.socket, port: int) -> Iterator[Pair]:
    """Both ends of a connection over the network."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        served, _ = broker.accept()
        with served:
            served.settimeout(PATIENCE)
            yield client, served


def heard(end: socket.socket, count: int) -> bytes:
    """So many bytes, however they come."""
    with end.makefile("rb") as words:
        return words.read(count)


def silent(end: socket.socket) -> bool:
    """Whether nothing comes, not even the end."""
    end.settimeout(SILENCE)
    try:
        end.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE)
    return False


def test_it_carries_both_ways(pair: Pair) -> None:
    """What one end says the other hears, however much it is."""
    client, served = pair
    client.sendall(b"ping")
    assert served.recv(10) == b"ping"
    much = bytes(300_000)
    served.sendall(much)
    assert heard(client, len(much)) == much


def test_an_end_is_passed_on(pair: Pair) -> None:
    """One side may have said all while the other still speaks."""
    client, served = pair
    client.shutdown(socket.SHUT_WR)
    assert served.recv(10) == b""
    served.sendall(b"late")
    assert client.recv(10) == b"late"


def test_a_cut_connection_goes_on_when_healed(network: Network, pair: Pair) -> None:
    """While it is cut nothing arrives on either side; afterwards all does, in order."""
    network.cut()
    for speaker, listener in (pair, reversed(pair)):
        speaker.sendall(b"one, ")
        assert silent(listener)
        speaker.sendall(b"two")
    network.heal()
    for end in pair:
        assert heard(end, 8) == b"one, two"


@pytest.mark.parametrize("linger", [0, 1], ids=["broken", "ended"])
def test_nobody_is_told_that_the_other_side_is_gone(network: Network, pair: Pair, linger: int) -> None:
    """A connection that one side ends or breaks during a cut seems open to the other until it is healed."""
    client, served = pair
    served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger))
    network.cut()
    served.close()
    assert silent(client)
    network.heal()
    assert client.recv(1) == b""


def test_a_new_connection_gets_no_answer(network: Network, broker: socket.socket, port: int) -> None:
    """Who connects during a cut waits, and is let in when it is healed."""
    network.cut()
    with socket.socket() as client:
        client.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            client.connect(("127.0.0.1", port))
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(socket.create_connection, ("127.0.0.1", port), PATIENCE)
        with pytest.raises(FutureTimeoutError):
            connecting.result(SILENCE)
        network.heal()
        with connecting.result() as client:
            client.sendall(b"in")
            assert first_words(broker) == b"in"


def first_words(broker: socket.socket) -> bytes:
    """What the first client says that says something: others have given up while there was no network."""
    while True:
        served, _ = broker.accept()
        with served:
            if words := served.recv(10):
                return words


def test_cutting_and_healing_twice_is_harmless(network: Network, pair: Pair) -> None:
    """What is cut can be cut, and what is healed can be healed."""
    network.heal()
    network.cut()
    network.cut()
    network.heal()
    network.heal()
    pair[0].sendall(b"on")
    assert pair[1].recv(10) == b"on"


def test_a_broker_that_is_down_ends_the_connection(network: Network, broker: socket.socket, port: int) -> None:
    """Who connects while nobody listens behind the network is told so."""
    broker.close()
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        assert client.recv(1) == b""


def test_closing_ends_connections_also_while_cut(network: Network, pair: Pair, port: int) -> None:
    """After close nothing is carried and nobody listens."""
    network.cut()
    network.close()
    for end in pair:
        assert end.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE)


def test_a_server_that_was_not_started_has_no_network() -> None:
    """There is nothing to cut before the start."""
    server = KafkaServer()
    for use in (server.cut_network, server.heal_network, lambda: server.relayed_url):
        with pytest.raises(BrokerError, match="call start"):
            use()


def test_a_kafka_client_meets_a_cut(kafka_server: KafkaServer) -> None:
    """While the network is cut nothing is acknowledged over it, and afterwards all is; other clients notice nothing."""
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


def test_the_network_survives_the_broker(kafka_server: KafkaServer) -> None:
    """After a restart the same relayed address leads to the same broker."""
    address = kafka_server.relayed_bootstrap
    kafka_server.restart()
    assert kafka_server.relayed_bootstrap == address
    assert kafka_server.relayed_url == f"kafka://{address}"
    assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=20).orig_broker_name.startswith(address)


def test_a_pulsar_client_meets_a_cut(pulsar_server: PulsarServer) -> None:
    """While the network is cut nothing is acknowledged over it, and afterwards all is; other clients notice nothing."""
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
    """A producer whose sends wait for a second."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(address, operation_timeout_seconds=30, logger=logger)
    yield client.create_producer(topic, send_timeout_millis=1000)
    client.close()


def retried(send: Callable[[], object]) -> None:
    """Send until it is acknowledged: the client may have to connect again first."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            send()
        except pulsar.Timeout:
            assert time.monotonic() < end
        else:
            return


def test_the_administration_of_pulsar_is_behind_the_network_too(pulsar_server: PulsarServer) -> None:
    """The relayed URL names both addresses, and neither answers during a cut."""
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

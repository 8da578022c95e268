"""A real Pulsar: readiness, kills and restarts that keep data, and pauses."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pulsar
import pytest
from server_talk import PROBE_TOPIC

from mqplug_devbrokers import PulsarServer


def rest(server: PulsarServer, method: str, path: str, body: object = None) -> Any:
    """Send one request to the administration of the namespace public/default, and return the answer."""
    url = f"{server.admin_url}/admin/v2/persistent/public/default{path}"
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urlopen(request, timeout=20) as response:
        return json.loads(response.read() or b"null")


@pytest.fixture
def topic(pulsar_server: PulsarServer) -> Iterator[str]:
    """A new non-partitioned topic."""
    name = f"t-{uuid.uuid4().hex}"
    rest(pulsar_server, "PUT", f"/{name}")
    yield name
    rest(pulsar_server, "DELETE", f"/{name}?force=true")


@pytest.fixture
def client(pulsar_server: PulsarServer) -> Iterator[pulsar.Client]:
    """A client whose sends and look-ups wait up to 30 seconds."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(pulsar_server.service_url, operation_timeout_seconds=30, logger=logger)
    yield client
    client.close()


def read(client: pulsar.Client, topic: str, count: int) -> list[bytes]:
    """Return the first messages of the topic."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    try:
        return [reader.read_next(20000).data() for _ in range(count)]
    finally:
        reader.close()


def test_an_acknowledged_message_is_read_back(client: pulsar.Client, topic: str) -> None:
    """A client that connects to the service URL reads the message it wrote."""
    client.create_producer(topic).send(b"hello")
    assert read(client, topic, 1) == [b"hello"]


def test_the_url_names_backend_address_and_administration(pulsar_server: PulsarServer) -> None:
    """The URL has mqplug's form, with the server's port and its admin_url."""
    expected = f"pulsar://127.0.0.1:{pulsar_server.port}?admin_url={pulsar_server.admin_url}"
    assert pulsar_server.url == expected


def test_the_proof_leaves_no_topic(pulsar_server: PulsarServer, topic: str) -> None:
    """The message that proves the server ready leaves no topic."""
    names = [name.rpartition("/")[2] for name in rest(pulsar_server, "GET", "")]
    assert topic in names
    assert PROBE_TOPIC not in names


def test_a_missing_topic_is_not_created(client: pulsar.Client) -> None:
    """Opening a producer on a missing topic raises TopicNotFound."""
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer("missing")


def test_it_listens_on_loopback_alone(pulsar_server: PulsarServer) -> None:
    """The broker, its administration and the embedded bookie listen only on loopback."""
    connections = psutil.Process(pulsar_server.pid).net_connections()
    listening = [tuple(each.laddr) for each in connections if each.status == psutil.CONN_LISTEN]
    assert {address.removeprefix("::ffff:") for address, _ in listening} == {"127.0.0.1"}
    assert pulsar_server.port in {port for _, port in listening}


def test_a_topic_has_its_own_retention(pulsar_server: PulsarServer, topic: str) -> None:
    """The broker's retention is seven days of any size, and a topic may set its own."""
    assert rest(pulsar_server, "GET", f"/{topic}/retention?applied=true") == {
        "retentionTimeInMinutes": 10080,
        "retentionSizeInMB": -1,
    }
    own = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    rest(pulsar_server, "POST", f"/{topic}/retention", own)
    assert rest(pulsar_server, "GET", f"/{topic}/retention?applied=true") == own


def test_a_part_of_a_batch_can_be_acknowledged(client: pulsar.Client, topic: str) -> None:
    """After two of a batch's four messages are acknowledged, only the other two are delivered again."""
    settings = {"batch_index_ack_enabled": True, "initial_position": pulsar.InitialPosition.Earliest}
    consumer = client.subscribe(topic, "group", **settings)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for value in (b"a", b"b", b"c", b"d"):
        producer.send_async(value, None)
    producer.flush()
    received = [consumer.receive(20000) for _ in range(4)]
    assert len({(each.message_id().ledger_id(), each.message_id().entry_id()) for each in received}) == 1
    consumer.acknowledge(received[0])
    consumer.acknowledge(received[2])
    consumer.close()
    consumer = client.subscribe(topic, "group", **settings)
    assert [consumer.receive(20000).data() for _ in range(2)] == [b"b", b"d"]


@pytest.mark.night
@pytest.mark.disturbs
def test_a_kill_keeps_data_and_ports(pulsar_server: PulsarServer, client: pulsar.Client, topic: str) -> None:
    """After SIGKILL and a start, a new process at the same addresses has the acknowledged message."""
    client.create_producer(topic).send(b"kept")
    url, pid = pulsar_server.url, pulsar_server.pid
    pulsar_server.kill()
    assert not pulsar_server.running
    pulsar_server.start()
    assert pulsar_server.url == url
    assert pulsar_server.pid != pid
    assert read(client, topic, 1) == [b"kept"]


@pytest.mark.night
@pytest.mark.disturbs
def test_a_restart_keeps_data(pulsar_server: PulsarServer, client: pulsar.Client, topic: str) -> None:
    """A clean restart keeps the acknowledged message."""
    client.create_producer(topic).send(b"kept")
    pulsar_server.restart()
    assert read(client, topic, 1) == [b"kept"]


@pytest.mark.disturbs
def test_a_paused_server_is_silent_until_it_goes_on(
    pulsar_server: PulsarServer, client: pulsar.Client, topic: str
) -> None:
    """A paused server acknowledges nothing until it resumes."""
    producer = client.create_producer(topic, send_timeout_millis=500)
    producer.send(b"before")
    pulsar_server.pause()
    try:
        with pytest.raises(pulsar.Timeout):
            producer.send(b"during")
    finally:
        pulsar_server.unpause()
    patient = client.create_producer(topic)
    patient.send(b"after")
    # The message that timed out may still have been stored.
    assert set(read(client, topic, 2)) <= {b"before", b"during", b"after"}


def test_a_missing_namespace_is_an_http_error(pulsar_server: PulsarServer) -> None:
    """The administration answers with HTTP status 404 for a missing namespace."""
    with pytest.raises(HTTPError) as refusal:
        urlopen(f"{pulsar_server.admin_url}/admin/v2/namespaces/public/missing", timeout=20)
    with refusal.value as answer:
        assert answer.code == 404


def test_it_is_attached_to(pulsar_server: PulsarServer) -> None:
    """A server attached by a handle can be used, and closing it leaves the original running."""
    attached = PulsarServer()
    attached.attach(pulsar_server.handle())
    with attached:
        assert attached.running
        assert attached.url == pulsar_server.url
    assert pulsar_server.running

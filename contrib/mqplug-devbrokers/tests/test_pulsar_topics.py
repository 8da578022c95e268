"""Topics of a real Pulsar: unloading, forced trims, and Pulsar's own tools."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pulsar
import pytest
from server_talk import PulsarRest

from mqplug_devbrokers import BrokerError, PulsarServer


@pytest.fixture
def client(pulsar_server: PulsarServer) -> Iterator[pulsar.Client]:
    """A client whose sends and look-ups wait up to 30 seconds."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(pulsar_server.service_url, operation_timeout_seconds=30, logger=logger)
    yield client
    client.close()


@pytest.fixture
def rest(pulsar_server: PulsarServer) -> PulsarRest:
    """The server's administration."""
    return PulsarRest(pulsar_server.admin_url, timeout=30)


@pytest.fixture
def topic(rest: PulsarRest) -> str:
    """A new topic with two partitions."""
    name = f"t-{uuid.uuid4().hex}"
    rest.ask("PUT", f"persistent/public/default/{name}/partitions", 2)
    return name


def fill(client: pulsar.Client, topic: str) -> None:
    """Send one message to each partition."""
    for number in range(2):
        client.create_producer(f"{topic}-partition-{number}").send(b"%d" % number)


def ledgers(rest: PulsarRest, topic: str) -> list[list[int]]:
    """Return the ledgers of each partition."""
    return [rest.ledgers(f"{topic}-partition-{number}") for number in range(2)]


@pytest.mark.disturbs
def test_unload_closes_the_ledgers_of_what_it_names(
    pulsar_server: PulsarServer, client: pulsar.Client, rest: PulsarRest, topic: str
) -> None:
    """Unloading a partition, a topic or a namespace closes its open ledgers, and clients continue to send."""
    fill(client, topic)
    before = ledgers(rest, topic)
    pulsar_server.unload(f"{topic}-partition-0")
    fill(client, topic)
    after_partition = ledgers(rest, topic)
    assert after_partition[0] != before[0]
    assert after_partition[1] == before[1]
    pulsar_server.unload(f"persistent://public/default/{topic}")
    fill(client, topic)
    after_topic = ledgers(rest, topic)
    assert all(after != earlier for after, earlier in zip(after_topic, after_partition, strict=True))
    pulsar_server.unload(namespace="public/default")
    fill(client, topic)
    assert all(after != earlier for after, earlier in zip(ledgers(rest, topic), after_topic, strict=True))


def test_trim_deletes_what_the_retention_would_keep(
    pulsar_server: PulsarServer, client: pulsar.Client, rest: PulsarRest, topic: str
) -> None:
    """A trim deletes closed ledgers despite the retention, and restores the topic's own retention, if any."""
    place = f"persistent/public/default/{topic}/retention"
    own = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5}
    for kept in (None, own):
        fill(client, topic)
        pulsar_server.unload(topic)
        fill(client, topic)
        before = ledgers(rest, topic)[1]
        pulsar_server.trim(f"{topic}-partition-1")
        assert not {*ledgers(rest, topic)[1]} & {*before[:-1]}
        assert rest.ask("GET", place) == kept
        rest.ask("POST", place, own)


def test_a_trim_of_nothing_is_an_error(
    pulsar_server: PulsarServer, client: pulsar.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trim of a topic with only an open ledger raises an error that suggests unload()."""
    fill(client, topic)
    monkeypatch.setattr("mqplug_devbrokers.pulsar.TRIM_TIMEOUT_S", 1.0)
    with pytest.raises(BrokerError, match=r"nothing was trimmed within 1 s.*unload\(\) closes"):
        pulsar_server.trim(topic)


@pytest.mark.night
def test_pulsars_own_client_reaches_it(pulsar_server: PulsarServer, client: pulsar.Client, topic: str) -> None:
    """A message sent with Pulsar's client tool is read by another client."""
    command = pulsar_server.tool("client", "produce", "-m", "hello", "-k", "key", f"{topic}-partition-0")
    subprocess.run(command, check=True, timeout=100, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reader = client.create_reader(f"{topic}-partition-0", pulsar.MessageId.earliest)
    message = reader.read_next(20000)
    assert (message.partition_key(), message.data()) == ("key", b"hello")


@pytest.mark.night
def test_pulsars_own_administration_reaches_it(pulsar_server: PulsarServer, topic: str) -> None:
    """Pulsar's admin tool lists the topic's partitions under their full names."""
    command = pulsar_server.tool("admin", "topics", "list", "public/default")
    listed = subprocess.run(command, check=True, timeout=100, stdout=subprocess.PIPE, text=True).stdout.split()
    assert f"persistent://public/default/{topic}-partition-1" in listed


def test_an_unknown_tool_is_refused(pulsar_server: PulsarServer) -> None:
    """Asking for an unknown tool raises an error that names the known ones."""
    with pytest.raises(BrokerError, match="expected one of client, admin"):
        pulsar_server.tool("shell")

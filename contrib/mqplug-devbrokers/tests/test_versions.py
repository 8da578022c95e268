"""Versions of Kafka and Pulsar: each starts and keeps its data; defaults and unknown versions."""

from __future__ import annotations

import pulsar
import pytest
from confluent_kafka import Consumer
from server_talk import KafkaWire, PulsarRest

from mqplug_devbrokers import KafkaSecurity, KafkaServer, PulsarServer


def test_an_unknown_version_is_refused_before_anything_starts() -> None:
    """An unknown version raises ValueError, which names the known ones."""
    with pytest.raises(ValueError, match=r"unknown Kafka version '2\.8'; expected one of 4\.3, 3\.9, 3\.3"):
        KafkaServer(version="2.8")
    with pytest.raises(ValueError, match=r"unknown Pulsar version '5\.0'; expected one of 4\.0, 4\.2"):
        PulsarServer(version="5.0")


def test_security_needs_a_version_that_knows_users() -> None:
    """Creating a server of the oldest version with security= raises ValueError."""
    with pytest.raises(ValueError, match=r"security= needs version='3\.9' or newer"):
        KafkaServer(version="3.3", security=KafkaSecurity())


def test_the_newest_version_is_the_default_unless_the_variable_says_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is the argument, else the environment variable, else the newest Kafka."""
    monkeypatch.delenv("MQPLUG_DEVBROKERS_KAFKA", raising=False)
    assert KafkaServer().version.startswith("4.3.")
    monkeypatch.setenv("MQPLUG_DEVBROKERS_KAFKA", "3.9")
    assert KafkaServer().version.startswith("3.9.")
    assert KafkaServer(version="4.3").version.startswith("4.3.")
    monkeypatch.setenv("MQPLUG_DEVBROKERS_KAFKA", "1.0")
    with pytest.raises(ValueError, match=r"unknown Kafka version '1\.0'"):
        KafkaServer()


def test_the_oldest_pulsar_is_the_default_unless_the_variable_says_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is the argument, else the environment variable, else the Pulsar with long-term support."""
    monkeypatch.delenv("MQPLUG_DEVBROKERS_PULSAR", raising=False)
    assert PulsarServer().version == "4.0.8"
    monkeypatch.setenv("MQPLUG_DEVBROKERS_PULSAR", "4.2")
    assert PulsarServer().version == "4.2.4"
    assert PulsarServer(version="4.0").version == "4.0.8"
    assert PulsarServer().recorder().version == "4.2.4"


@pytest.mark.timeout(300)  # it may first have to download and to record a class archive
@pytest.mark.night
@pytest.mark.parametrize("version", ["4.0", "4.2"])
def test_each_version_of_pulsar_keeps_its_data_through_a_kill(version: str) -> None:
    """Each version of Pulsar still has a message after SIGKILL and a start."""
    with PulsarServer(version=version) as server:
        client = pulsar.Client(
            server.service_url, operation_timeout_seconds=30, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        PulsarRest(server.admin_url, timeout=30).create_topic("orders")
        client.create_producer("orders").send(b"kept")
        server.kill()
        server.start()
        assert client.create_reader("orders", pulsar.MessageId.earliest).read_next(20000).data() == b"kept"
        client.close()


@pytest.mark.night
@pytest.mark.parametrize("version", ["3.3", "3.9", "4.3"])
def test_each_version_keeps_its_data_through_a_kill(version: str) -> None:
    """Each version of Kafka delivers a message to a group member after SIGKILL and a start."""
    with KafkaServer(version=version) as server:
        with KafkaWire(server.port, timeout=20) as kafka:
            kafka.create_topic("orders")
            kafka.produce("orders", b"kept")
        server.kill()
        server.start()
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        consumer.close()
    assert message is not None
    assert message.value() == b"kept"

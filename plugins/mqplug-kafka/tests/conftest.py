"""One broker for all tests, with a second listener that asks for a password; a client and a topic for each test."""

from __future__ import annotations

import pytest
from kafka_steps import free_ports, new_name

import mqplug
from mqplug_devbrokers import KafkaServer
from mqplug_devbrokers.pytest_plugin import started


@pytest.fixture(scope="session")
def kafka_server():
    """A running broker; ``kafka_server.login`` is the address that wants the user bob."""
    plain, controller, login = free_ports(3)
    with started(lambda: KafkaServer(port=plain, settings=_listeners(plain, controller, login))) as server:
        server.login = f"127.0.0.1:{login}"
        yield server


def _listeners(plain, controller, login):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},LOGIN://127.0.0.1:{login}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},LOGIN://127.0.0.1:{login}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{module} required user_bob="bob-pw";',
    }


@pytest.fixture
def mq(kafka_server):
    """A client of its own for each test."""
    with mqplug.connect(kafka_server.url) as client:
        yield client


@pytest.fixture
def topic(mq):
    """A fresh topic of one partition."""
    name = new_name()
    mq.create_topic(name)
    return name

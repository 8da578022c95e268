"""One broker for each worker, with a listener that asks for a password; a client and a topic for each test.

Workers of pytest-xdist do not share brokers here, since tests stop, kill and freeze them. The topics of a test are
deleted after it: a broker with some hundred of them takes long to stop and to start.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from kafka_driver import free_ports, new_name, new_names

import mqplug
from mqplug_devbrokers import BrokerError, KafkaCluster, KafkaSecurity, KafkaServer, TokenServer
from mqplug_devbrokers._kafka_wire import KafkaWire
from mqplug_devbrokers.pytest_plugin import started

USERS = {"alice": "alice-pw", "bob": "bob-pw", "carol": "carol-pw"}


@pytest.fixture(scope="session")
def kafka_server():
    """A running broker.

    ``kafka_server.login`` is the address that wants the user bob. ``kafka_server.front`` is a port that the broker
    advertises to those who come through it, for a test to listen at, and to pass on to the port ``behind``.
    """
    login, behind, front = free_ports(3)
    with started(lambda: KafkaServer(settings=_listeners(login, behind, front))) as server:
        server.login = f"127.0.0.1:{login}"
        server.front, server.behind = front, behind
        yield server


def _listeners(login, behind, front):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"LOGIN://127.0.0.1:{login},FRONT://127.0.0.1:{behind}",
        "advertised.listeners": f"LOGIN://127.0.0.1:{login},FRONT://127.0.0.1:{front}",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,FRONT:PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{module} required user_bob="bob-pw";',
    }


@pytest.fixture(scope="session")
def kafka_cluster():
    """A running cluster of three nodes."""
    with started(KafkaCluster) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_server():
    """A broker on which alice may do everything, and nobody else anything."""
    try:
        made = KafkaServer(security=KafkaSecurity(users=USERS, authorize=True))
    except ValueError as error:  # MQPLUG_DEVBROKERS_KAFKA names a version without users
        pytest.skip(str(error))
    with started(lambda: made) as server:
        server.secured.allow("alice", "All", topic_prefix="", group_prefix="", transaction_prefix="", cluster=True)
        yield server


@pytest.fixture(scope="session")
def secured(secured_server):
    """The secured listeners of ``secured_server``."""
    return secured_server.secured


@pytest.fixture(scope="session")
def tokens():
    """A token endpoint that knows the client alice."""
    with TokenServer({"alice": "s3cret"}) as server:
        yield server


@pytest.fixture(autouse=True)
def tidy(request):
    """Delete the topics of each test."""
    new_names.clear()
    yield
    for fixture in {"kafka_server", "secured_server"} & set(request.fixturenames) if new_names else ():
        with KafkaWire(request.getfixturevalue(fixture).port, timeout=30) as kafka:
            for name in new_names:
                with suppress(BrokerError):  # it is the name of a group, or was deleted
                    kafka.delete_topic(name)


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

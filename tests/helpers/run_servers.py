"""The real servers of a test run, each started once, on demand.

``shared_kafka`` and ``shared_pulsar`` serve all workers, and refuse to be disturbed. Each of the others has a worker of
its own: its tests are a group, see day_and_night.py. ``kafka_server`` and ``pulsar_server`` are the shared ones, or
those to disturb, in a test that is marked with ``disturbs``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from day_and_night import GROUPS

from mqplug_devbrokers import KafkaCluster, KafkaSecurity, KafkaServer, PulsarSecurity, PulsarServer
from mqplug_devbrokers.pytest_plugin import shared, started
from mqplug_testing import free_port

CLUSTER = pytest.StashKey[KafkaCluster]()
KAFKA_USERS = {name: f"{name}-pw" for name in ("alice", "bob", "carol", "dora", "erin")}


@pytest.fixture
def kafka_server(request: pytest.FixtureRequest) -> KafkaServer:
    """The Kafka that suits the test."""
    server: KafkaServer = request.getfixturevalue(_suitable(request, "kafka"))
    return server


@pytest.fixture
def pulsar_server(request: pytest.FixtureRequest) -> PulsarServer:
    """The Pulsar that suits the test."""
    server: PulsarServer = request.getfixturevalue(_suitable(request, "pulsar"))
    return server


def _suitable(request: pytest.FixtureRequest, server: str) -> str:
    disturbs = request.node.get_closest_marker("disturbs") is not None
    return f"{'disturbed' if disturbs else 'shared'}_{server}"


@pytest.fixture(scope="session")
def shared_kafka() -> Iterator[KafkaServer]:
    """The Kafka of all workers."""
    with shared(KafkaServer, "kafka") as server:
        yield server


@pytest.fixture(scope="session")
def shared_pulsar() -> Iterator[PulsarServer]:
    """The Pulsar of all workers."""
    with shared(PulsarServer, "pulsar") as server:
        yield server


@pytest.fixture(scope="session")
def disturbed_kafka() -> Iterator[KafkaServer]:
    """A Kafka for tests that stop, kill, freeze or reconfigure it; each leaves it running.

    It admits no groups of the consumer protocol.
    ``login`` is the address that requires the user bob. ``front`` is a port that the broker advertises to clients
    that come through it, for a test to listen at, and to forward to the port ``behind``.
    """
    login, behind, front = (free_port() for _ in range(3))
    with started(lambda: KafkaServer(settings=_listeners(login, behind, front))) as server:
        server.login = f"127.0.0.1:{login}"
        server.front, server.behind = front, behind
        yield server


def _listeners(login: int, behind: int, front: int) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "group.coordinator.rebalance.protocols": "classic",
        "listeners": f"LOGIN://127.0.0.1:{login},FRONT://127.0.0.1:{behind}",
        "advertised.listeners": f"LOGIN://127.0.0.1:{login},FRONT://127.0.0.1:{front}",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,FRONT:PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{module} required user_bob="bob-pw";',
    }


@pytest.fixture(scope="session")
def disturbed_pulsar() -> Iterator[PulsarServer]:
    """A Pulsar for tests that stop, kill, freeze or unload it; each leaves it running."""
    with started(PulsarServer) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka of three nodes; a test that ends one starts it again. It is expensive, so it ends with its last test."""
    with started(KafkaCluster) as cluster:
        request.config.stash[CLUSTER] = cluster
        yield cluster


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the cluster after the last test that uses it: these tests are a group, and so run in sequence."""
    cluster = item.config.stash.get(CLUSTER, None)
    groups = {mark.args[0] for mark in nextitem.iter_markers("xdist_group")} if nextitem is not None else set()
    if cluster is not None and GROUPS["kafka_cluster"] not in groups and item.get_closest_marker("xdist_group"):
        cluster.close()
        del item.config.stash[CLUSTER]


@pytest.fixture(scope="session")
def secured_kafka() -> Iterator[KafkaServer]:
    """A Kafka on which only alice may do anything, and may do everything."""
    try:
        made = KafkaServer(security=KafkaSecurity(users=KAFKA_USERS, authorize=True))
    except ValueError as error:  # MQPLUG_DEVBROKERS_KAFKA names a version without users
        pytest.skip(str(error))
    with started(lambda: made) as server:
        server.secured.allow("alice", "All", topic_prefix="", group_prefix="", transaction_prefix="", cluster=True)
        yield server


@pytest.fixture(scope="session")
def secured_pulsar() -> Iterator[PulsarServer]:
    """A Pulsar where each role may do only what it was granted.

    It checks every second whether the tokens of its clients have expired, and takes messages of up to 2 MiB.
    """
    settings = {"authenticationRefreshCheckSeconds": "1", "maxMessageSize": str(2 * 1024 * 1024)}
    with started(lambda: PulsarServer(security=PulsarSecurity(authorize=True), settings=settings)) as server:
        yield server

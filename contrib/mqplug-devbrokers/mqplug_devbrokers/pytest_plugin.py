"""The fixtures `kafka_server`, `kafka_cluster` and `pulsar_server`: one of each for a run, started on demand.

The workers of pytest-xdist share them, so tests that disturb a broker start their own.
Without Java or Maven their tests are skipped with the reason. If the variable CI is `true`, they fail.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mqplug_devbrokers import KafkaCluster, KafkaServer, PulsarServer
    from mqplug_devbrokers._server import BrokerServer

ServerT = TypeVar("ServerT", bound="BrokerServer | KafkaCluster")


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[KafkaServer]:
    """Yield a running KafkaServer."""
    from mqplug_devbrokers import KafkaServer

    with shared(KafkaServer, "kafka") as server:
        yield server


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Yield a running KafkaCluster of three nodes."""
    from mqplug_devbrokers import KafkaCluster

    with shared(KafkaCluster, "kafka-cluster") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pulsar_server() -> Iterator[PulsarServer]:
    """Yield a running PulsarServer."""
    from mqplug_devbrokers import PulsarServer

    with shared(PulsarServer, "pulsar") as server:
        yield server


def shared(make: Callable[[], ServerT], kind: str) -> AbstractContextManager[ServerT]:
    """Return a server for a fixture: this process's own, or in pytest-xdist the one that all workers share."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return started(make)

    def share() -> ServerT:
        from mqplug_devbrokers._sharing import attached

        server: ServerT = attached(kind, run)
        return server

    return started(share)


@contextmanager
def started(make: Callable[[], ServerT]) -> Iterator[ServerT]:
    """Yield a running server for a fixture. Without Java or Maven, its tests are skipped, or fail if CI is true."""
    from mqplug_devbrokers import MissingTool

    server = None
    try:
        server = make()
        server.start()
    except MissingTool as error:
        if server is not None:
            server.close()
        if os.environ.get("CI", "").lower() == "true":
            raise
        pytest.skip(str(error))
    with server:
        yield server

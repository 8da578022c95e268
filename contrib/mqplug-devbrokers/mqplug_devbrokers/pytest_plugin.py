"""The fixtures `kafka_server`, `kafka_cluster` and `pulsar_server`: each once for a whole run, started on demand.

Without Java or Maven their tests are skipped with the reason. If the variable CI is `true`, they fail.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
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

    with started(KafkaServer) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Yield a running KafkaCluster of three nodes."""
    from mqplug_devbrokers import KafkaCluster

    with started(KafkaCluster) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pulsar_server() -> Iterator[PulsarServer]:
    """Yield a running PulsarServer."""
    from mqplug_devbrokers import PulsarServer

    with started(PulsarServer) as server:
        yield server


@contextmanager
def started(make: Callable[[], ServerT]) -> Iterator[ServerT]:
    """Yield a running server, for fixtures. Without Java or Maven, tests that need it skip, or fail if CI is true."""
    from mqplug_devbrokers import MissingTool

    server = make()
    try:
        server.start()
    except MissingTool as error:
        server.close()
        if os.environ.get("CI", "").lower() == "true":
            raise
        pytest.skip(str(error))
    with server:
        yield server

"""One node of a Kafka cluster: a server that starts, stops and is in sync as a part of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

from mqplug_devbrokers import _kafka_cluster_wire as wire
from mqplug_devbrokers._kafka_config import Node
from mqplug_devbrokers.kafka import KafkaServer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


class Cluster(Protocol):
    """The cluster that a node belongs to, as far as the node needs it."""

    version: str
    cluster_id: str

    @property
    def has_quorum(self) -> bool:
        """Whether so many nodes answer that they can agree."""
        ...

    def prepare(self) -> None:
        """Choose the directories and ports of all nodes."""

    def controllers(self) -> dict[int, int]:
        """Return the controller's port of each node."""
        ...

    def check_in_sync(self) -> None:
        """Raise unless all running nodes are in sync."""


class KafkaNode(KafkaServer):
    """One node of a `KafkaCluster`: its `start` returns when the node is in sync with the others again."""

    def __init__(
        self, cluster: Cluster, number: int, *, directory: Path | None, settings: Mapping[str, str], timeout: float
    ) -> None:
        super().__init__(version=cluster.version, directory=directory, settings=settings, timeout=timeout)
        self.number = number
        self.paused = False
        self._cluster = cluster
        self._cluster_id = cluster.cluster_id

    @property
    def answering(self) -> bool:
        """Whether the node runs, and is not paused."""
        return self.running and not self.paused

    def start(self) -> None:
        """Start the node, and wait until it is in sync with the running ones, if they are enough for a quorum."""
        self._cluster.prepare()
        self.paused = False
        super().start()

    def stop(self) -> None:
        """Stop the node cleanly: it gives its leaderships away first. Its data stay for another `start`."""
        super().stop()
        self.paused = False

    def kill(self) -> None:
        """Kill the node (SIGKILL). Its data stay for another `start`."""
        super().kill()
        self.paused = False

    def pause(self) -> None:
        """Stop the node from answering (SIGSTOP). Its connections stay open, and another node leads in its place."""
        super().pause()
        self.paused = True

    def unpause(self) -> None:
        """Continue a paused node (SIGCONT). `wait_in_sync` of the cluster waits until it has caught up."""
        super().unpause()
        self.paused = False

    def recorder(self) -> KafkaServer:  # type: ignore[override]
        """Return a server of the same version that is alone, which records the class archive."""
        return KafkaServer(version=self.version)

    def choose_ports(self, taken: Collection[int]) -> set[int]:
        """Choose directory and ports, unless the node has them, and return the ports."""
        self._prepare(taken)
        return set(self._ports.values())

    @property
    def controller_port(self) -> int:
        """The port for the controllers of the other nodes."""
        return self._port("controller")

    def leads_quorum(self) -> bool:
        """Return whether this node is the active controller. Raise OSError if it does not answer."""
        return wire.leads_quorum(self.controller_port)

    def _node(self) -> Node:
        return Node(self.number, self._cluster.controllers())

    def _probe(self) -> None:
        if self._cluster.has_quorum:
            self._cluster.check_in_sync()
        else:
            socket.create_connection(("127.0.0.1", self.controller_port), timeout=1).close()

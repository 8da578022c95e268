"""A Kafka cluster of several nodes on loopback: leaders and the controller can be killed, and the quorum lost."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mqplug_devbrokers import _kafka_wire as wire
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._kafka_files import Node, new_cluster_id
from mqplug_devbrokers._server import StartedInBlock
from mqplug_devbrokers.kafka import KafkaServer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mqplug_devbrokers._server import BrokerHooks

    class ClusterHooks(BrokerHooks):
        """The hooks of a harness that disturb a cluster, one of its nodes, or the network in front of it."""

        kill_node: Callable[[], object]
        start_node: Callable[[], None]


CLUSTER_SETTINGS = {
    # Every topic survives the loss of a node, also the cluster's own.
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # Groups are coordinated by several nodes.
    "offsets.topic.num.partitions": "3",
    # The cluster notices at once that a node has gone.
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "200",
    "replica.lag.time.max.ms": "2000",
    # Leaders move when a test moves them, and never by themselves.
    "auto.leader.rebalance.enable": "false",
}
POLL_S = 0.05

T = TypeVar("T")


class KafkaNode(KafkaServer):
    """One node of a `KafkaCluster`: its `start` returns when the node is in sync with the others again."""

    def __init__(
        self, cluster: KafkaCluster, number: int, *, directory: Path | None, settings: Mapping[str, str], timeout: float
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
        """Stop the node cleanly: it first gives up its leaderships. Its data stays for another `start`."""
        super().stop()
        self.paused = False

    def kill(self) -> None:
        """Kill the node (SIGKILL). Its data stays for another `start`."""
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
        """Return a single server of the same version, which records the class archive."""
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


class KafkaCluster(StartedInBlock):
    """A real Kafka of several nodes for tests: `with KafkaCluster() as kafka: mqplug.connect(kafka.url)`.

    Topics have three replicas, of which two must store a message, unless they are created with others. Nodes have the
    numbers 1, 2, 3. Calls with a number act on that node, without one on all. `nodes[2]` is a `KafkaServer`.
    `directory`, `settings`, `version` and `timeout` are as in `KafkaServer`.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        version: str | None = None,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 180.0,
    ) -> None:
        if nodes < 3:
            raise ValueError(f"nodes={nodes} must be at least 3 to survive the loss of one; for one, use KafkaServer")
        self.version = KafkaServer(version=version).version
        self.cluster_id = new_cluster_id()
        self._timeout = timeout
        self._attached = False
        self._kept = directory is not None
        root = None if directory is None else Path(directory).absolute()
        _check_directory(root, nodes)
        self.nodes = {
            number: KafkaNode(
                self, number, directory=root and root / f"node-{number}",
                settings={**CLUSTER_SETTINGS, **(settings or {})}, timeout=timeout,
            )
            for number in range(1, nodes + 1)
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<KafkaCluster {', '.join(f'{number}: {node!r}' for number, node in self.nodes.items())}>"

    # addresses -------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for the clients' setting `bootstrap.servers`."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def url(self) -> str:
        """The URL for `mqplug.connect`."""
        return f"kafka://{self.bootstrap}"

    @property
    def relayed_bootstrap(self) -> str:
        """The addresses for `bootstrap.servers`, over the networks that `cut_network` cuts."""
        return ",".join(node.relayed_bootstrap for node in self.nodes.values())

    @property
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, over the networks that `cut_network` cuts."""
        return f"kafka://{self.relayed_bootstrap}"

    # state of the cluster --------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0, *, timeout: float | None = None) -> int:
        """Return the node that leads a partition. Wait until a running one does."""
        failure = f"no running node leads {topic}[{partition}]"
        return self._until(lambda: self._leader(topic, partition), failure, timeout)

    @property
    def controller(self) -> int:
        """The node that is the active controller. Waits until a running one is."""
        return self._until(self._controller, "no running node is the active controller")

    def coordinator(self, group: str, *, timeout: float | None = None) -> int:
        """Return the node that coordinates a group. Wait until a running one does."""
        failure = f"no running node coordinates the group {group!r}"
        return self._until(lambda: self._coordinator(group), failure, timeout)

    def wait_in_sync(self, timeout: float | None = None) -> None:
        """Wait until every running node has all messages and leads or follows in each partition that it holds."""
        self._until(self.check_in_sync, "the nodes are not in sync", timeout)

    @property
    def has_quorum(self) -> bool:
        """Whether more than half of the nodes run and are not paused."""
        return len(self._answering()) > len(self.nodes) // 2

    # disturbances ----------------------------------------------------------------------------------------------

    def start(self, number: int | None = None) -> None:
        """Start a node, or all that do not run, and wait until they are in sync."""
        if number is not None:
            self._of(number).start()
            return
        self.prepare()
        stopped = [node for node in self.nodes.values() if not node.running]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(KafkaNode.start, stopped))
        self.wait_in_sync()

    def stop(self, number: int | None = None) -> None:
        """Stop a node, or all, cleanly. Without a quorum, a node cannot end cleanly and is killed."""
        for node in self._chosen(number):
            if self.has_quorum:
                node.stop()
            elif node.running:
                node.kill()

    def kill(self, number: int | None = None) -> None:
        """Kill a node, or all that run (SIGKILL)."""
        for node in self._chosen(number):
            if number is not None or node.running:
                node.kill()

    def pause(self, number: int | None = None) -> None:
        """Stop a node, or all that run, from answering (SIGSTOP)."""
        for node in self._chosen(number):
            if number is not None or node.running:
                node.pause()

    def unpause(self, number: int | None = None) -> None:
        """Continue a paused node, or all that run (SIGCONT), and wait until the running ones are in sync."""
        for node in self._chosen(number):
            if number is not None or node.running:
                node.unpause()
        if self.has_quorum:
            self.wait_in_sync()

    def restart(self) -> None:
        """Stop all nodes and start them again."""
        self.stop()
        self.start()

    def rolling_restart(self) -> None:
        """Restart one node after the other. Each is in sync again before the next one stops."""
        for node in self.nodes.values():
            self.wait_in_sync()
            node.restart()

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the node that leads a partition, and return its number."""
        return self._killed(self.leader(topic, partition))

    def kill_controller(self) -> int:
        """Kill the active controller, and return its number."""
        return self._killed(self.controller)

    def kill_coordinator(self, group: str) -> int:
        """Kill the node that coordinates a group, and return its number."""
        return self._killed(self.coordinator(group))

    def lose_quorum(self) -> list[int]:
        """Kill running nodes until the quorum is lost, and return their numbers. `start` brings them back."""
        killed = []
        while self.has_quorum:
            killed.append(self._killed(max(self._answering())))
        return killed

    def cut_network(self) -> None:
        """Cut the networks of clients at the relayed addresses: packets vanish, and connections stay open."""
        for node in self.nodes.values():
            node.cut_network()

    def heal_network(self) -> None:
        """Restore the networks."""
        for node in self.nodes.values():
            node.heal_network()

    def delay_network(self, seconds: float) -> None:
        """Delay everything between the nodes and clients at the relayed addresses, each way, until `heal_network`."""
        for node in self.nodes.values():
            node.delay_network(seconds)

    def stall_replies(self) -> None:
        """Hold back the answers to clients at the relayed addresses, until `heal_network` delivers them."""
        for node in self.nodes.values():
            node.stall_replies()

    def drop_replies(self) -> None:
        """Lose the answers to clients at the relayed addresses, until `heal_network`."""
        for node in self.nodes.values():
            node.drop_replies()

    def reset_replies(self) -> None:
        """Reset each relayed connection when a node answers on it, until `heal_network`."""
        for node in self.nodes.values():
            node.reset_replies()

    def hooks(self) -> ClusterHooks:
        """Return the hooks of a harness of `mqplug_testing`. The node that is killed is the active controller."""
        return {
            "restart": self.restart, "kill": self.kill, "start": self.start, "pause": self.pause,
            "unpause": self.unpause, "cut_network": self.cut_network, "heal_network": self.heal_network,
            "stall_replies": self.stall_replies, "drop_replies": self.drop_replies,
            "reset_replies": self.reset_replies, "kill_node": self.kill_controller, "start_node": self.start,
        }  # fmt: skip

    @property
    def running(self) -> bool:
        """Whether all nodes run."""
        return all(node.running for node in self.nodes.values())

    def handle(self) -> dict[str, Any]:
        """Return what another process needs to `attach` to this cluster, as JSON."""
        return {"nodes": [node.handle() for node in self.nodes.values()]}

    def attach(self, handle: Mapping[str, Any]) -> None:
        """Attach to a cluster that another process runs. Clients may use it, and nothing may disturb it."""
        self._attached = True
        for node, each in zip(self.nodes.values(), handle["nodes"], strict=True):
            node.attach(each)

    def fetch(self) -> None:
        """Fill the cache with everything that a start needs."""
        self.nodes[1].fetch()

    def close(self) -> None:
        """End all nodes and delete their directories, unless you named one. Closing twice is harmless."""
        if self._attached:
            return
        if self._kept:
            self.stop()
        else:
            self.kill()
        for node in self.nodes.values():
            node.close()

    # for the nodes ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Choose the directories and ports of all nodes: each must know the ports of the others."""
        self.fetch()
        taken: set[int] = set()
        for node in self.nodes.values():
            taken |= node.choose_ports(taken)

    def controllers(self) -> dict[int, int]:
        """Return the controller port of each node."""
        return {number: node.controller_port for number, node in self.nodes.items()}

    def check_in_sync(self) -> None:
        """Raise BrokerError or OSError unless each running node reports that all running ones are in sync.

        A single node may not have noticed yet that others were killed and restarted.
        """
        answering = self._answering()
        for asked in answering:
            seen = wire.view(self.nodes[asked].port)
            missing = answering - seen.live
            if missing:
                raise BrokerError(f"node {asked} does not see the nodes {missing}")
            for partition in seen.partitions:
                here = answering & set(partition.replicas)
                if not here <= set(partition.in_sync) or (here and partition.leader not in here):
                    raise BrokerError(f"node {asked} sees {partition}")

    def _answering(self) -> set[int]:
        return {number for number, node in self.nodes.items() if node.answering}

    def _leader(self, topic: str, partition: int) -> int:
        return self._agreed(lambda port: wire.leader(port, topic, partition))

    def _coordinator(self, group: str) -> int:
        return self._agreed(lambda port: wire.coordinator(port, group))

    def _agreed(self, ask: Callable[[int], int]) -> int:
        """Return the running node that all running ones name. One that names another is not up to date yet."""
        answering = self._answering()
        named = {ask(self.nodes[number].port) for number in answering}
        if len(named) != 1 or not named <= answering:
            raise BrokerError(f"the running nodes {answering} name {named}")
        return named.pop()

    def _controller(self) -> int:
        failures: list[Exception] = []
        # Without the others, the active controller takes a second to notice that it is no longer active.
        for number in self._answering() if self.has_quorum else ():
            try:
                if self.nodes[number].leads_quorum():
                    return number
            except OSError as error:
                failures.append(error)
        raise BrokerError(f"none of {self._answering()} leads the quorum {failures or ''}")

    def _until(self, ask: Callable[[], T], failure: str, timeout: float | None = None) -> T:
        """Return the answer as soon as there is one."""
        limit = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        while True:
            try:
                return ask()
            except (OSError, BrokerError) as error:
                if time.monotonic() > deadline:
                    raise BrokerError(f"{failure} within {limit:g} s (last: {error})") from error
            if not self.has_quorum:
                raise BrokerError(
                    f"{failure}: only the nodes {self._answering()} run, which is not a quorum; call start()"
                )
            time.sleep(POLL_S)

    def _killed(self, number: int) -> int:
        self.nodes[number].kill()
        return number

    def _of(self, number: int) -> KafkaNode:
        if number not in self.nodes:
            raise BrokerError(f"unknown node {number}; expected one of {', '.join(map(str, self.nodes))}")
        return self.nodes[number]

    def _chosen(self, number: int | None) -> list[KafkaNode]:
        return list(self.nodes.values()) if number is None else [self._of(number)]


def _check_directory(root: Path | None, nodes: int) -> None:
    """Reject data that was written by another number of nodes."""
    found = len(list(root.glob("node-*"))) if root else 0
    if found not in (0, nodes):
        raise BrokerError(
            f"{root} holds the data of {found} nodes, not of {nodes}; use nodes={found}, or another directory"
        )

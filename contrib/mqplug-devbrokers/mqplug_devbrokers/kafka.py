"""A Kafka broker of one node, without ZooKeeper, from its published jars."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, ClassVar

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jars import class_archive, java_command
from mqplug_devbrokers._kafka_files import (
    LOGGING,
    VERSIONS,
    Node,
    classes,
    copy_formatted,
    exact_version,
    format_data,
    formatted,
    joined,
    new_cluster_id,
    properties,
    tool_command,
)
from mqplug_devbrokers._kafka_security import KafkaSecurity, SecuredListeners
from mqplug_devbrokers._kafka_wire import KafkaWire
from mqplug_devbrokers._server import PROBE_TOPIC, BrokerServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

VERSION_VARIABLE = "MQPLUG_DEVBROKERS_KAFKA"
OFFSETS_TOPIC = "__consumer_offsets"
WITHOUT_SECURITY = ("3.3.2",)  # formatting a directory with users needs 3.5 or newer


class KafkaServer(BrokerServer):
    """A real Kafka for tests: `with KafkaServer() as kafka: mqplug.connect(kafka.url)`.

    Topics are not created automatically, and messages are kept forever unless a topic is configured otherwise.
    Listeners in `settings` (`listeners`, `advertised.listeners`, `listener.security.protocol.map`) are added to its
    own. With `security`, it also listens with TLS and SASL: see `secured`. `version` is "4.3", "3.9" or "3.3"; by
    default the value of MQPLUG_DEVBROKERS_KAFKA, or else "4.3".
    """

    name: ClassVar[str] = "kafka"
    port_names: ClassVar[list[str]] = ["client", "controller", "relayed", "relay"]

    def __init__(
        self,
        *,
        version: str | None = None,
        port: int = 0,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        security: KafkaSecurity | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory, settings=settings, timeout=timeout)
        self.version = exact_version(version or os.environ.get(VERSION_VARIABLE) or next(iter(VERSIONS)))
        if security is not None and self.version in WITHOUT_SECURITY:
            raise ValueError(
                f"Kafka {self.version} cannot be formatted with users: security= needs version='3.9' or newer"
            )
        self._cluster_id = new_cluster_id()
        self._security = security
        self._secured: SecuredListeners | None = None

    @property
    def secured(self) -> SecuredListeners:
        """The secured listeners, with their certificates and access rights."""
        if self._security is None:
            raise BrokerError("the kafka server has no secured listeners; use KafkaServer(security=KafkaSecurity())")
        if self._secured is None:
            self._secured = SecuredListeners(self._security, self.directory, self.port)
        return self._secured

    @property
    def bootstrap(self) -> str:
        """The address for the clients' setting `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The URL for `mqplug.connect`."""
        return f"kafka://{self.bootstrap}"

    @property
    def relayed_bootstrap(self) -> str:
        """The address for `bootstrap.servers`, over the network that `cut_network` cuts."""
        return f"127.0.0.1:{self._relayed('relay')}"

    def tool(self, name: str, *arguments: str) -> list[str]:
        """Return the command of one of Kafka's own tools of version 4.3, such as `consumer.ConsoleConsumer`.

        It connects to this server. Its jar is fetched on demand.
        """
        return tool_command(name, ("--bootstrap-server", self.bootstrap, *arguments))

    @property
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, over the network that `cut_network` cuts."""
        return f"kafka://{self.relayed_bootstrap}"

    @property
    def toml(self) -> str:
        """The lines of a `mqplug.toml` that connects to this server."""
        return f'[kafka]\nservers = ["{self.bootstrap}"]\n'

    def fetch(self) -> None:
        """Fill the cache with everything that a start needs."""
        formatted(self.version)
        class_archive(self, classes(self.version))

    def recorder(self) -> Self:
        """Return a plain server of the same version, which records the class archive."""
        return type(self)(version=self.version)

    def _command(self) -> list[str]:
        data = self.directory / "data"
        config = self.directory / "server.properties"
        settings = self.settings if self._security is None else joined(self.secured.settings(), self.settings)
        config.write_text(properties(self._node(), self._ports, data, settings))
        if not data.exists() and self._security is None:
            copy_formatted(self.version, data, self._cluster_id, self._node().number)
        elif not data.exists():
            format_data(self.version, config, self.secured.format_options())
        return [*java_command(self, classes(self.version)), *LOGGING, "kafka.Kafka", str(config)]

    def _node(self) -> Node:
        return Node(1, {1: self._port("controller")})

    def _routes(self) -> dict[int, int]:
        return {self._port("relay"): self._port("relayed")}

    def _probe(self) -> None:
        with KafkaWire(self.port, timeout=10) as kafka:
            kafka.create_topic(PROBE_TOPIC)
            kafka.produce(PROBE_TOPIC, b"ready")
            for group in one_group_each(self._offsets_partitions()):
                kafka.store_position(group, PROBE_TOPIC)
            kafka.delete_topic(PROBE_TOPIC)

    def _offsets_partitions(self) -> int:
        """Return how many partitions store the positions of groups; 0 before the first group.

        A restarted Kafka 4 that was killed leads them at first, loses them when its former session ends, and gets them
        back. If it still loads them for the first time when the second load begins, it mistakes the end of one load for
        the end of the other, and may refuse to coordinate these groups (NOT_COORDINATOR) until it is restarted.
        """
        folders = (self.directory / "data").glob(f"{OFFSETS_TOPIC}-*")
        return sum(each.name.removeprefix(f"{OFFSETS_TOPIC}-").isdigit() for each in folders)


def one_group_each(partitions: int) -> list[str]:
    """Return names of groups, one for each partition that stores positions."""
    found: dict[int, str] = {}
    names = (f"{PROBE_TOPIC}-{number}" for number in itertools.count())
    while len(found) < partitions:
        name = next(names)
        found.setdefault(java_hash(name) % partitions, name)
    return list(found.values())


def java_hash(text: str) -> int:
    """Return the hash by which Kafka chooses the partition of a group."""
    code = 0
    for character in text:
        code = 31 * code + ord(character) & 0x7FFFFFFF
    return code

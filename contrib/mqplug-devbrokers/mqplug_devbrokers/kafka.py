"""A Kafka broker of one node, without ZooKeeper, from its published jars."""

from __future__ import annotations

import base64
import re
import shutil
import uuid
from typing import TYPE_CHECKING, ClassVar

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jvm import JAVA_FLAGS, class_archive, class_path, java_command
from mqplug_devbrokers._kafka_security import KafkaSecurity, SecuredListeners
from mqplug_devbrokers._kafka_wire import KafkaWire
from mqplug_devbrokers._server import PROBE_TOPIC, BrokerServer
from mqplug_devbrokers._tools import fill_in, find_java, maven, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss,SSS",
]

LISTENER_SETTINGS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


class KafkaServer(BrokerServer):
    """A real Kafka for tests: `with KafkaServer() as kafka: mqplug.connect(kafka.url)`.

    Topics are not created automatically, and nothing is deleted by age unless a topic is configured so. Listeners in
    `settings` (`listeners`, `advertised.listeners`, `listener.security.protocol.map`) are added to its own. With
    `security`, it also listens with TLS and SASL: see `secured`.
    """

    name: ClassVar[str] = "kafka"
    version: ClassVar[str] = "4.3.1"
    port_names: ClassVar[list[str]] = ["client", "controller", "behind", "relay"]

    def __init__(
        self,
        *,
        port: int = 0,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        security: KafkaSecurity | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory, settings=settings, timeout=timeout)
        self._security = security
        self._secured: SecuredListeners | None = None

    @property
    def secured(self) -> SecuredListeners:
        """The secured listeners, with their certificates and access rights."""
        if self._security is None:
            raise BrokerError("the kafka server has no secured listeners; say KafkaServer(security=KafkaSecurity())")
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

    @property
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, over the network that `cut_network` cuts."""
        return f"kafka://{self.relayed_bootstrap}"

    @classmethod
    def fetch(cls) -> None:
        """Fill the cache with everything that a start needs."""
        _formatted()
        class_archive(cls, _classes())

    def _command(self) -> list[str]:
        data = self.directory / "data"
        config = self.directory / "server.properties"
        settings = self.settings if self._security is None else _joined(self.secured.settings(), self.settings)
        config.write_text(_properties(self._ports, data, settings))
        if not data.exists() and self._security is None:
            _copy_formatted(data)
        elif not data.exists():
            _format_with(config, self.secured.format_options())
        return [*java_command(self, _classes()), *LOGGING, "kafka.Kafka", str(config)]

    def _routes(self) -> dict[int, int]:
        return {self._port("relay"): self._port("behind")}

    def _probe(self) -> None:
        with KafkaWire(self.port, timeout=10) as kafka:
            kafka.create_topic(PROBE_TOPIC)
            kafka.produce(PROBE_TOPIC, b"ready")
            kafka.delete_topic(PROBE_TOPIC)


def _classes() -> str:
    return class_path(provide(f"kafka-{KafkaServer.version}-jars", _download))


def _download(folder: Path) -> None:
    maven("kafka-pom.xml", KafkaServer.version, "dependency:copy-dependencies", folder)


def _formatted() -> Path:
    return provide(f"kafka-{KafkaServer.version}-formatted", _format)


def _format(folder: Path) -> None:
    """Make Kafka format an empty data directory. Copying it is half a second faster than formatting another."""
    config = folder.parent / "server.properties"
    ports = {name: number for number, name in enumerate(KafkaServer.port_names, 19092)}
    config.write_text(_properties(ports, folder, {}))
    _format_with(config, [])


def _format_with(config: Path, options: list[str]) -> None:
    tool = ["kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(config), *options]
    run_tool([find_java(), *JAVA_FLAGS, *LOGGING, "-cp", _classes(), *tool], timeout=120)


def _copy_formatted(data: Path) -> None:
    """Copy the formatted data directory, with a new cluster id: two servers must never look like one cluster."""
    shutil.copytree(_formatted(), data)
    properties = data / "meta.properties"
    text = re.sub(r"(?m)^cluster\.id=.*$", f"cluster.id={_cluster_id()}", properties.read_text())
    properties.write_text(text)


def _cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's own rule: its tools would take it for an option
            return text


def _properties(ports: dict[str, int], data: Path, settings: dict[str, str]) -> str:
    listening = _joined(_listening(ports), settings)
    return fill_in("kafka-server.properties", listening, CPORT=ports["controller"], DATA=data)


def _joined(first: dict[str, str], then: dict[str, str]) -> dict[str, str]:
    """Return both settings. The listeners of the second are added, its other settings override the first."""
    joined = {key: ",".join(filter(None, [first.get(key), then.get(key)])) for key in LISTENER_SETTINGS}
    return first | then | {key: value for key, value in joined.items() if value}


def _listening(ports: dict[str, int]) -> dict[str, str]:
    """Return the server's own listeners, to which those in settings are added.

    Kafka sends its clients to the address that it advertises for the listener they used. So the network that can be
    cut has a listener of its own.
    """
    plain, behind, relay = (f"127.0.0.1:{ports[name]}" for name in ("client", "behind", "relay"))
    controller = f"CONTROLLER://127.0.0.1:{ports['controller']}"
    return {
        "listeners": f"PLAINTEXT://{plain},{controller},RELAYED://{behind}",
        "advertised.listeners": f"PLAINTEXT://{plain},RELAYED://{relay}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,RELAYED:PLAINTEXT",
    }

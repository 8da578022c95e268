"""A standalone Pulsar: broker, bookie and metadata in one process, from its published distribution."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, ClassVar

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._checksums import check_jars
from mqplug_devbrokers._jvm import class_archive, class_path, java_command
from mqplug_devbrokers._pulsar_rest import PulsarRest
from mqplug_devbrokers._server import PROBE_TOPIC, BrokerServer
from mqplug_devbrokers._tools import fill_in, maven, run_tool, template

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "4.0.8"
MAIN_CLASS = "org.apache.pulsar.PulsarStandaloneStarter"
OPENED_PACKAGES = [  # the packages that Pulsar's own launcher opens
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
]
PULSAR_JAVA_OPTIONS = [
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.is.webapp=false",
]
METADATA = "org.apache.pulsar.metadata.bookkeeper"
METADATA_DRIVERS = [  # by which the bookie's tools read Pulsar's metadata
    f"-Dbookkeeper.metadata.client.drivers={METADATA}.PulsarMetadataClientDriver",
    f"-Dbookkeeper.metadata.bookie.drivers={METADATA}.PulsarMetadataBookieDriver",
]


class PulsarServer(BrokerServer):
    """A real Pulsar for tests: `with PulsarServer() as pulsar: mqplug.connect(pulsar.url)`.

    Topics are not created automatically. Messages are kept for seven days, acknowledged or not.
    """

    name: ClassVar[str] = "pulsar"
    version = VERSION
    port_names: ClassVar[list[str]] = ["client", "admin", "bookie", "behind", "relay", "admin-relay"]

    @property
    def service_url(self) -> str:
        """The address for clients."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        """The address of the administration over HTTP."""
        return f"http://127.0.0.1:{self._port('admin')}"

    @property
    def url(self) -> str:
        """The URL for `mqplug.connect`."""
        return f"{self.service_url}?admin_url={self.admin_url}"

    @property
    def relayed_service_url(self) -> str:
        """The address for clients, over the network that `cut_network` cuts."""
        return f"pulsar://127.0.0.1:{self._relayed('relay')}"

    @property
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, with its administration, over the network that `cut_network` cuts."""
        return f"{self.relayed_service_url}?admin_url=http://127.0.0.1:{self._relayed('admin-relay')}"

    @property
    def toml(self) -> str:
        """The lines of a `mqplug.toml` that connects to this server."""
        return f'[pulsar]\nservice_url = "{self.service_url}"\nadmin_url = "{self.admin_url}"\n'

    def fetch(self) -> None:
        """Fill the cache with everything that a start needs."""
        class_archive(self, _classes())

    def _command(self) -> list[str]:
        return [*self._java(), MAIN_CLASS, *self._arguments()]

    def _java(self) -> list[str]:
        logging = self.directory / "log4j2.xml"
        logging.write_text(template("pulsar-log4j2.xml"))
        return [*java_command(self, _classes()), *PULSAR_JAVA_OPTIONS, f"-Dlog4j.configurationFile={logging}"]

    def _arguments(self) -> list[str]:
        config = self.directory / "standalone.conf"
        names = {"PORT": "client", "ADMINPORT": "admin", "BEHINDPORT": "behind", "RELAYPORT": "relay"}
        ports = {key: self._port(name) for key, name in names.items()}
        config.write_text(fill_in("pulsar-standalone.conf", self.settings, **ports))
        values = {
            "--config": config,
            "--metadata-dir": self.directory / "metadata",
            "--bookkeeper-dir": self.directory / "bookkeeper",
            "--bookkeeper-port": self._port("bookie"),
            "--num-bookies": 1,
            "--advertised-address": "127.0.0.1",
        }
        named = [str(part) for pair in values.items() for part in pair]
        return ["--no-functions-worker", "--no-stream-storage", *named]

    def _routes(self) -> dict[int, int]:
        return {self._port("relay"): self._port("behind"), self._port("admin-relay"): self._port("admin")}

    def _recover(self) -> None:
        """Remove the registration of the killed bookie.

        The next start would remove it while it registers again, and may then remove and register itself forever: every
        topic fails. Pulsar's own tool removes it when it lists the bookies.
        """
        config = self.directory / "shell.conf"
        config.write_text(f"metadataServiceUri=metadata-store:rocksdb://{self.directory / 'metadata'}\n")
        shell = [
            *METADATA_DRIVERS,
            "org.apache.bookkeeper.bookie.BookieShell",
            "-conf",
            str(config),
            "listbookies",
            "-rw",
        ]
        run_tool([*self._java(), *shell], timeout=60)

    def _probe(self) -> None:
        rest = PulsarRest(self.admin_url, timeout=30)
        rest.create_topic(PROBE_TOPIC)
        rest.produce(PROBE_TOPIC, "ready")
        rest.delete_topic(PROBE_TOPIC)


def _classes() -> str:
    jars = provide(f"pulsar-{VERSION}-jars", _download)
    check_jars(jars, f"pulsar-{VERSION}")
    return class_path(jars)


def _download(folder: Path) -> None:
    """Unpack the distribution and keep its jars."""
    unpacked = folder.parent / "unpacked"
    maven("pulsar-pom.xml", VERSION, "dependency:unpack", unpacked)
    shutil.rmtree(folder)
    (unpacked / f"apache-pulsar-{VERSION}" / "lib").rename(folder)
    check_jars(folder, f"pulsar-{VERSION}")

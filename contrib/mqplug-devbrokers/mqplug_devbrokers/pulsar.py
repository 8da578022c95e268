"""A standalone Pulsar: broker, bookie and metadata in one process, from its published distribution."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, ClassVar

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jars import class_archive, java_command
from mqplug_devbrokers._pulsar_files import PULSAR_JAVA_OPTIONS, VERSIONS, classes, exact_version, tool_command
from mqplug_devbrokers._pulsar_rest import NAMESPACE, PulsarRest, parent_topic, topic_path
from mqplug_devbrokers._pulsar_security import PulsarSecurity, SecuredPulsar
from mqplug_devbrokers._server import PROBE_TOPIC, BrokerServer
from mqplug_devbrokers._tools import fill_in, run_tool, template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Self

    from mqplug_devbrokers._server import BrokerHooks

    class PulsarHooks(BrokerHooks):
        """The hooks of a harness that disturb a broker, one of its topics, or the network in front of it."""

        unload: Callable[[str], None]


VERSION_VARIABLE = "MQPLUG_DEVBROKERS_PULSAR"
TRIM_TIMEOUT_S = 30.0
POLL_S = 0.05
MAIN_CLASS = "org.apache.pulsar.PulsarStandaloneStarter"
METADATA = "org.apache.pulsar.metadata.bookkeeper"
METADATA_DRIVERS = [  # for the bookie's tools to read Pulsar's metadata
    f"-Dbookkeeper.metadata.client.drivers={METADATA}.PulsarMetadataClientDriver",
    f"-Dbookkeeper.metadata.bookie.drivers={METADATA}.PulsarMetadataBookieDriver",
]


class PulsarServer(BrokerServer):
    """A real Pulsar for tests: `with PulsarServer() as pulsar: mqplug.connect(pulsar.url)`.

    Topics are not created automatically. Messages are kept for seven days, acknowledged or not. With `security`,
    clients must authenticate, and there is TLS: see `secured`. The URLs of the server then contain the token of its
    administrator. `version` is "4.0" or "4.2"; by default the value of MQPLUG_DEVBROKERS_PULSAR, or else "4.0".
    """

    name: ClassVar[str] = "pulsar"
    port_names: ClassVar[list[str]] = ["client", "admin", "bookie", "relayed", "relay", "admin-relay"]

    def __init__(
        self,
        *,
        version: str | None = None,
        port: int = 0,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        security: PulsarSecurity | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory, settings=settings, timeout=timeout)
        self.version = exact_version(version or os.environ.get(VERSION_VARIABLE) or next(iter(VERSIONS)))
        self._security = security
        self._secured: SecuredPulsar | None = None

    @property
    def secured(self) -> SecuredPulsar:
        """The secured addresses, with their credentials and access rights."""
        if self._security is None:
            raise BrokerError("the pulsar server is not secured; use PulsarServer(security=PulsarSecurity())")
        if self._secured is None:
            plain = {"plain": self.port, "admin": self._port("admin")}
            self._secured = SecuredPulsar(self._security, self.directory, plain, [*self._ports.values()])
        return self._secured

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
        return self._url(self.port, self.admin_url)

    @property
    def relayed_service_url(self) -> str:
        """The address for clients, over the network that `cut_network` cuts."""
        return f"pulsar://127.0.0.1:{self._relayed('relay')}"

    @property
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, with its administration, over the network that `cut_network` cuts."""
        return self._url(self._relayed("relay"), f"http://127.0.0.1:{self._relayed('admin-relay')}")

    @property
    def toml(self) -> str:
        """The lines of a `mqplug.toml` that connects to this server."""
        token = "" if self._token is None else f'token = "{self._token}"\n'
        return f'[pulsar]\nservice_url = "{self.service_url}"\nadmin_url = "{self.admin_url}"\n{token}'

    def hooks(self) -> PulsarHooks:
        """Return the hooks of a harness of `mqplug_testing`: `Harness(..., **server.hooks())`."""
        return {**super().hooks(), "unload": self.unload}

    def unload(self, topic: str | None = None, *, namespace: str = NAMESPACE) -> None:
        """Unload a topic, all its partitions, or one partition; without a topic, all topics of a namespace.

        The broker closes them: clients must reconnect to them, and open ledgers are closed.
        """
        rest = self._rest()
        rest.ask("PUT", f"{f'namespaces/{namespace}' if topic is None else topic_path(topic)}/unload")

    def trim(self, topic: str) -> None:
        """Delete the closed ledgers of a topic that no subscription needs, whatever its retention is.

        Returns when at least one is gone, and raises if there is none. The open ledger stays: `unload` closes it.
        """
        rest = self._rest()
        retention = f"{topic_path(parent_topic(topic))}/retention"
        kept = rest.ask("GET", retention)
        before = {each: rest.ledgers(each) for each in rest.partitions(topic)}
        rest.ask("POST", retention, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
        try:
            self._trim_until_changed(before)
        finally:
            rest.ask("DELETE", retention) if kept is None else rest.ask("POST", retention, kept)

    def tool(self, name: str, *arguments: str) -> list[str]:
        """Return the command of one of Pulsar's own tools, of version 4.0: `client`, `admin` or `perf`.

        It connects to this server, with the rights of an administrator.
        """
        client = {"webServiceUrl": self.admin_url, "brokerServiceUrl": self.service_url}
        if self._token is not None:
            client["authPlugin"] = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
            client["authParams"] = f"token:{self._token}"
        return tool_command(self.directory, client, name, arguments)

    def fetch(self) -> None:
        """Fill the cache with everything that a start needs."""
        class_archive(self, classes(self.version))

    def recorder(self) -> Self:
        """Return a plain server of the same version, which records the class archive."""
        return type(self)(version=self.version)

    def _command(self) -> list[str]:
        return [*self._java(), MAIN_CLASS, *self._arguments()]

    def _java(self) -> list[str]:
        logging = self.directory / "log4j2.xml"
        logging.write_text(template("pulsar-log4j2.xml"))
        return [
            *java_command(self, classes(self.version)),
            *PULSAR_JAVA_OPTIONS,
            f"-Dlog4j.configurationFile={logging}",
        ]

    def _arguments(self) -> list[str]:
        config = self.directory / "standalone.conf"
        names = {"PORT": "client", "ADMINPORT": "admin", "BEHINDPORT": "relayed", "RELAYPORT": "relay"}
        ports = {key: self._port(name) for key, name in names.items()}
        secured = {} if self._security is None else self.secured.settings()
        config.write_text(fill_in("pulsar-standalone.conf", {**secured, **self.settings}, **ports))
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
        return {self._port("relay"): self._port("relayed"), self._port("admin-relay"): self._port("admin")}

    def _recover(self) -> None:
        """Remove the registration of the killed bookie.

        The next start would remove it while it registers again, and may repeat both forever, while every topic fails.
        Pulsar's own tool removes it when it lists the bookies.
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
        rest = self._rest()
        rest.create_topic(PROBE_TOPIC)
        rest.produce(PROBE_TOPIC, "ready")
        rest.delete_topic(PROBE_TOPIC)

    def _trim_until_changed(self, before: Mapping[str, list[int]]) -> None:
        rest, end = self._rest(), time.monotonic() + TRIM_TIMEOUT_S
        while {each: rest.ledgers(each) for each in before} == before:  # the retention applies a little later
            if time.monotonic() > end:
                raise BrokerError(
                    f"nothing was trimmed within {TRIM_TIMEOUT_S:g} s; the ledgers are {before}. The last of each "
                    "is open (unload() closes it), and subscriptions may need the others"
                )
            for each in before:
                rest.ask("POST", f"{topic_path(each)}/trim")
            time.sleep(POLL_S)

    @property
    def _token(self) -> str | None:
        return None if self._security is None else self.secured.admin_token

    def _url(self, port: int, admin_url: str) -> str:
        login = "" if self._token is None else f":{self._token}@"
        return f"pulsar://{login}127.0.0.1:{port}?admin_url={admin_url}"

    def _rest(self) -> PulsarRest:
        return PulsarRest(self.admin_url, timeout=30, token=self._token)

"""The services of pulsar.compose.yaml as processes, from devbrokers' jars, with the same settings, other addresses."""

from __future__ import annotations

import re
import secrets
import shlex
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from compose_files import environment

from mqplug_devbrokers import CertificateAuthority
from mqplug_devbrokers._jars import JAVA_FLAGS
from mqplug_devbrokers._pulsar_files import PULSAR_JAVA_OPTIONS, classes, exact_version
from mqplug_devbrokers._tokens import json_web_token
from mqplug_devbrokers._tools import find_java, template
from mqplug_devbrokers.pulsar import METADATA_DRIVERS
from mqplug_testing import free_port

HERE = "127.0.0.1"
START_S = 90
PREFIX = "PULSAR_PREFIX_"
PORTS = {"brokerServicePort": 6650, "webServicePort": 8080, "brokerServicePortTls": 6651, "webServicePortTls": 8443}
OF_THE_SHELL = {"PULSAR_MEM"}


class PulsarProcesses:
    """ZooKeeper, the bookies and the broker of the compose file, each a process."""

    def __init__(self, compose: dict[str, Any], root: Path) -> None:
        self.root = root
        self.services = compose["services"]
        self.bookies = [name for name in self.services if name.startswith("bookie")]
        self.ports = {name: free_port() for name in (*PORTS, "zookeeper")}
        self._zookeeper = self.ports["zookeeper"]
        self._make_secrets()
        self._ports = {name: free_port() for name in self.bookies}
        version = exact_version(self.services["broker"]["image"].partition(":")[2])
        logging = root / "log4j2.xml"
        logging.write_text(template("pulsar-log4j2.xml"))
        options = [*JAVA_FLAGS, *PULSAR_JAVA_OPTIONS, *METADATA_DRIVERS, f"-Dlog4j.configurationFile={logging}"]
        self._java = [find_java(), *options, "-cp", classes(version)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all services in the order of the file, each after its dependencies."""
        self._run("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", self._zookeeper_file())
        self._wait("zookeeper", self._zookeeper)
        self._describe_cluster()
        for name in self.bookies:
            self.start_bookie(name)
        for name in self.bookies:
            self._wait(name, self._ports[name])
        self._run("broker", "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", self._broker_file())
        self._wait("broker", self.ports["webServicePort"])

    def start_bookie(self, name: str) -> None:
        """Start a bookie."""
        self._run(name, "org.apache.bookkeeper.server.Main", "--conf", self._bookie_file(name))

    def kill(self, name: str) -> None:
        """Kill a service."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(START_S)

    def close(self) -> None:
        """Kill all services."""
        for name in list(self._processes):
            self.kill(name)

    def here(self, text: str) -> str:
        """Return a text of the compose file or the page with the addresses and the folders of this host."""
        text = text.replace("zookeeper:2181", f"{HERE}:{self._zookeeper}").replace("/pulsar/secrets", str(self.secrets))
        for name, port in PORTS.items():
            text = re.sub(rf"(localhost|pulsar\.example\.org):{port}\b", f"{HERE}:{self.ports[name]}", text)
        return text

    def carry_out(self, line: str) -> str:
        """Run a command of the page, which calls one of Pulsar's tools in the broker's container."""
        words = shlex.split(self.here(line))
        assert words[:4] == ["docker", "compose", "exec", "broker"], line
        if words[4:6] == ["bin/pulsar", "tokens"]:
            tool = ["org.apache.pulsar.utils.auth.tokens.TokensCliUtils", *words[6:]]
        else:
            assert words[4] == "bin/pulsar-admin", line
            tool = ["org.apache.pulsar.admin.cli.PulsarAdminTool", self._file("client"), *words[5:]]
        done = subprocess.run([*self._java, *tool], capture_output=True, text=True, check=False, timeout=START_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def _make_secrets(self) -> None:
        """Make the files of the folder `secrets`."""
        self.secrets = self.root / "secrets"
        self.secrets.mkdir()
        issued = CertificateAuthority(self.secrets).issue("broker", hosts=(HERE,))
        assert {each.name for each in issued} == {"broker.pem", "broker.key"}
        key = secrets.token_bytes(32)
        (self.secrets / "token.key").write_bytes(key)
        (self.secrets / "admin.token").write_text(json_web_token(key, "admin", None))

    def _describe_cluster(self) -> None:
        """Run the tool of the service `cluster-metadata` with its options."""
        words = self.here(self.services["cluster-metadata"]["command"][-1]).split()
        assert words[:2] == ["bin/pulsar", "initialize-cluster-metadata"]
        command = [*self._java, "org.apache.pulsar.PulsarClusterMetadataSetup", *words[2:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def _zookeeper_file(self) -> str:
        return self._file(
            "zookeeper", dataDir=self.root / "zookeeper", clientPort=self._zookeeper, tickTime=2000,
            **{"admin.enableServer": "false", "4lw.commands.whitelist": "*"},
        )  # fmt: skip

    def _bookie_file(self, name: str) -> str:
        given = {**self._given(name), "advertisedAddress": HERE}
        folder = self.root / name
        own = {
            "bookiePort": self._ports[name], "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers", "allowLoopback": "true", "httpServerEnabled": "false",
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            "dbStorage_writeCacheMaxSizeMb": 16, "dbStorage_readAheadCacheMaxSizeMb": 16,
            "dbStorage_rocksDB_blockCacheSize": 16 << 20, "diskUsageThreshold": 0.99, "diskUsageWarnThreshold": 0.99,
            "nettyMaxFrameSizeBytes": 5253120, "metadataServiceUri": given["metadataServiceUri"],
        }  # fmt: skip
        return self._file(name, **{**given, **own})

    def _broker_file(self) -> str:
        given = self._given("broker")
        own = {"bindAddress": HERE, "advertisedAddress": HERE, "webSocketServiceEnabled": "false"}
        own |= {name: self.ports[name] for name in PORTS if name in given or not name.endswith("Tls")}
        return self._file("broker", **{**given, **own, "managedLedgerCacheSizeMB": 64})

    def _given(self, name: str) -> dict[str, str]:
        given = environment(self.services[name])
        return {key.removeprefix(PREFIX): self.here(value) for key, value in given.items() if key not in OF_THE_SHELL}

    def _file(self, service: str, **settings: object) -> str:
        path = self.root / f"{service}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def _run(self, name: str, main: str, *arguments: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            command = [*self._java, main, *arguments]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _wait(self, name: str, port: int) -> None:
        """Wait until a running service listens on a port."""
        end = time.monotonic() + START_S
        while True:
            assert self._processes[name].poll() is None, (self.root / f"{name}.log").read_text()[-2000:]
            assert time.monotonic() < end, f"{name} did not start in time"
            with suppress(OSError):
                return socket.create_connection((HERE, port), 1).close()
            time.sleep(0.1)

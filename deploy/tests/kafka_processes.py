"""The compose files' nodes as processes, from devbrokers' jars, with the same settings and other addresses."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

from compose_files import environment, kafka_properties

from mqplug_devbrokers import CertificateAuthority
from mqplug_devbrokers._jars import JAVA_FLAGS
from mqplug_devbrokers._kafka_files import (
    LOGGING,
    Node,
    classes,
    exact_version,
    new_cluster_id,
    properties,
    tool_command,
)
from mqplug_devbrokers._kafka_wire import AclRule, KafkaWire, view
from mqplug_devbrokers._tools import find_java, run_tool
from mqplug_devbrokers.kafka_cluster import CLUSTER_SETTINGS
from mqplug_testing import free_port

HERE = "127.0.0.1"
START_S = STOP_S = 60
TOOLS = {"kafka-configs.sh": "kafka.admin.ConfigCommand", "kafka-acls.sh": "org.apache.kafka.tools.AclCommand"}


class KafkaProcesses:
    """The services of a compose file, each a process."""

    def __init__(self, compose: dict[str, Any], root: Path) -> None:
        self.root = root
        self.nodes = list(compose["services"])
        self.authority = CertificateAuthority(root)
        self._ports: dict[tuple[str, int], int] = {}
        self._properties = {name: self._here(name, compose["services"][name]) for name in self.nodes}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cluster = new_cluster_id()
        version = compose["services"][self.nodes[0]]["image"].partition(":")[2]
        java = [find_java(), *JAVA_FLAGS, *LOGGING, "-cp", classes(exact_version(version))]
        self._java = java

    def address(self, listener: str) -> list[str]:
        """Return the address that each node advertises for a listener."""
        advertised = [self._properties[name]["advertised.listeners"] for name in self.nodes]
        return [re.findall(rf"{listener}://([^,]+)", each)[0] for each in advertised]

    def start(self, *names: str) -> None:
        """Start nodes, and format their logs first, as the image does."""
        for name in names or self.nodes:
            config = self.root / f"{name}.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in self._properties[name].items()))
            if not (self.root / name).exists():
                format_it = ["kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(config)]
                run_tool([*self._java, *format_it], timeout=STOP_S)
            log = (self.root / f"{name}.log").open("ab")
            with log:
                self._processes[name] = subprocess.Popen(
                    [*self._java, "kafka.Kafka", str(config)], stdout=log, stderr=subprocess.STDOUT
                )

    def kill(self, name: str) -> None:
        """Kill a node."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(STOP_S)

    def close(self) -> None:
        """Kill all nodes."""
        for name in list(self._processes):
            self.kill(name)

    def carry_out(self, line: str) -> str:
        """Run a command of the page, which calls one of Kafka's tools in a container."""
        words = shlex.split(line)
        assert words[:4] == ["docker", "compose", "exec", "kafka-1"], line
        command = [*tool_command("", ())[:-1], TOOLS[Path(words[4]).name]]
        addresses = {"kafka-1:19092": self.address("INTERNAL")[0]}
        command += [addresses.get(word, word) for word in words[5:]]
        end = time.monotonic() + START_S
        while True:  # until the nodes are up
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < end, done.stdout + done.stderr

    def _here(self, name: str, service: dict[str, Any]) -> dict[str, str]:
        """Return the settings of a service, with addresses and files of this host."""
        found = kafka_properties(environment(service))
        for key in ("listeners", "advertised.listeners", "controller.quorum.voters"):
            found[key] = re.sub(r"(kafka-\d|localhost)?:(\d+)\b", lambda match: self._address(match, name), found[key])
        found["log.dirs"] = str(self.root / name)
        if "ssl.keystore.location" in found:
            assert found["ssl.keystore.location"] == f"/etc/kafka/secrets/{name}.pem"
            found["ssl.keystore.location"] = str(self._key_store(name))
        return found

    def _address(self, match: re.Match[str], name: str) -> str:
        host, port = match[1], int(match[2])
        key = (host if host in self.nodes else name, port)
        if key not in self._ports:
            self._ports[key] = free_port()
        return f"{HERE}:{self._ports[key]}"

    def _key_store(self, name: str) -> Path:
        issued = self.authority.issue(name, hosts=(HERE,))
        store = self.root / f"{name}.pem"
        parts = (issued.key_file, issued.cert_file, self.authority.ca_file)
        store.write_bytes(b"".join(part.read_bytes() for part in parts))
        return store


def devbrokers_properties(folder):
    """Return the settings of a node in devbrokers' cluster."""
    ports = {"client": 1, "relayed": 2, "relay": 3}
    text = properties(Node(1, {1: 4, 2: 5, 3: 6}), ports, folder, CLUSTER_SETTINGS)
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


def wait_until_granted(kafka):
    """Wait until each node applies the rights of the last step, whose tool returns once the controller has them."""
    for address in kafka.address("INTERNAL"):
        with KafkaWire(int(address.rpartition(":")[2]), timeout=60) as node:
            node.wait_for_acl(AclRule("orders", "Read", "group", "billing", prefixed=False))


def wait_until_in_sync(kafka):
    """Wait until each partition has all replicas in sync again."""
    ports = [int(each.rpartition(":")[2]) for each in kafka.address("INTERNAL")]
    end = time.monotonic() + 120  # three nodes start at once
    while True:
        try:
            seen = [view(port) for port in ports]
        except OSError:
            seen = []
        if seen and all(len(each.in_sync) == 3 for of_one in seen for each in of_one.partitions):
            return
        assert time.monotonic() < end, seen
        time.sleep(0.1)

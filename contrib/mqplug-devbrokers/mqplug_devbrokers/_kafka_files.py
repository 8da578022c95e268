"""The files of a Kafka version: its jars, its configuration, formatted data to copy, and its console tools."""

from __future__ import annotations

import base64
import re
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._jars import JAVA_FLAGS, check_jars, class_path, download_jars
from mqplug_devbrokers._tools import fill_in, find_java, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# By the name that users choose. Exact versions, because a newer one may not start with our configuration.
VERSIONS = {"4.3": "4.3.1", "3.9": "3.9.2", "3.3": "3.3.2"}
TOOLS_VERSION = VERSIONS["4.3"]  # older brokers understand it too
LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss,SSS",
]
LISTENER_SETTINGS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def exact_version(version: str) -> str:
    """Return the exact version for a name such as `3.9`. Reject an untested one."""
    found = VERSIONS.get(version, version)
    if found not in VERSIONS.values():
        raise ValueError(f"unknown Kafka version {version!r}; expected one of {', '.join(VERSIONS)}")
    return found


def classes(version: str) -> str:
    """Return the class path of a version, downloaded on demand."""
    name = f"kafka-{version}"
    jars = provide(f"{name}-jars", lambda folder: download_jars("kafka-pom.xml", version, folder, name))
    check_jars(jars, name)
    return class_path(jars)


def formatted(version: str) -> Path:
    """Return the formatted data directory of a version. Copying it is half a second faster than formatting another."""
    return provide(f"kafka-{version}-formatted", lambda folder: _format(version, folder))


def _format(version: str, folder: Path) -> None:
    config = folder.parent / "server.properties"
    ports = {"client": 19092, "relayed": 19093, "relay": 19094}  # not stored
    config.write_text(properties(Node(1, {1: 19095}), ports, folder, {}))
    format_data(version, config, [])


def format_data(version: str, config: Path, options: list[str]) -> None:
    """Format the data directory of a configuration with Kafka's tool."""
    tool = ["kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", str(config), *options]
    run_tool([find_java(), *JAVA_FLAGS, *LOGGING, "-cp", classes(version), *tool], timeout=120)


def copy_formatted(version: str, data: Path, cluster: str, node: int) -> None:
    """Copy a formatted data directory for a node of a cluster. Two servers must never look like one cluster."""
    shutil.copytree(formatted(version), data)
    identity = {"cluster.id": cluster, "node.id": str(node), "directory.id": new_cluster_id()}
    file = data / "meta.properties"
    text = file.read_text()
    for key, value in identity.items():  # old versions have no directory id
        text = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
    file.write_text(text)


def new_cluster_id() -> str:
    """Return a new id, as Kafka writes its UUIDs."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's own rule: its tools would take it for an option
            return text


@dataclass(frozen=True)
class Node:
    """A node's number, and the controller port of each node of its cluster, its own included."""

    number: int
    controllers: Mapping[int, int]


def properties(node: Node, ports: Mapping[str, int], data: Path, settings: Mapping[str, str]) -> str:
    """Return the text of `server.properties`. Listeners in `settings` are added to the node's own."""
    merged = joined(_listening(node, ports), settings)
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in node.controllers.items())
    return fill_in("kafka-server.properties", merged, NODE=node.number, VOTERS=voters, DATA=data)


def joined(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Return both settings. The listeners of the second are added; its other settings override the first."""
    lists = {key: ",".join(filter(None, [first.get(key), then.get(key)])) for key in LISTENER_SETTINGS}
    return {**first, **then, **{key: value for key, value in lists.items() if value}}


def _listening(node: Node, ports: Mapping[str, int]) -> dict[str, str]:
    """Return the node's own listeners.

    Kafka directs clients to the address that it advertises for the listener they used. So the network that can be cut
    has a listener of its own.
    """
    plain, relayed, relay = (f"127.0.0.1:{ports[name]}" for name in ("client", "relayed", "relay"))
    controller = f"CONTROLLER://127.0.0.1:{node.controllers[node.number]}"
    return {
        "listeners": f"PLAINTEXT://{plain},{controller},RELAYED://{relayed}",
        "advertised.listeners": f"PLAINTEXT://{plain},RELAYED://{relay}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,RELAYED:PLAINTEXT",
    }


def tool_command(name: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command that runs a tool of the package `org.apache.kafka.tools`, downloaded on demand."""
    tools = provide(f"kafka-{TOOLS_VERSION}-tools", _download_tools)
    path = f"{class_path(tools)}:{classes(TOOLS_VERSION)}"
    return [find_java(), *JAVA_FLAGS, *LOGGING, "-cp", path, f"org.apache.kafka.tools.{name}", *arguments]


def _download_tools(folder: Path) -> None:
    download_jars("kafka-tools-pom.xml", TOOLS_VERSION, folder, f"kafka-tools-{TOOLS_VERSION}")

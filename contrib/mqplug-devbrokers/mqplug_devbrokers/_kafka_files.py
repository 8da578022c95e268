"""The files of a Kafka version in the cache: its jars, and a formatted data directory to copy."""

from __future__ import annotations

import base64
import re
import shutil
import uuid
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._checksums import check_jars
from mqplug_devbrokers._jvm import JAVA_FLAGS, class_path
from mqplug_devbrokers._kafka_config import Node, properties
from mqplug_devbrokers._tools import find_java, maven, run_tool

if TYPE_CHECKING:
    from pathlib import Path

# By the name that users choose. An exact version, because a newer one may not start with our configuration.
VERSIONS = {"4.3": "4.3.1", "3.9": "3.9.2", "3.3": "3.3.2"}
LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss,SSS",
]


def exact_version(version: str) -> str:
    """Return the exact version for a name such as `3.9`. Refuse one that was never tried."""
    found = VERSIONS.get(version, version)
    if found not in VERSIONS.values():
        raise ValueError(f"no Kafka {version!r}: choose one of {', '.join(VERSIONS)}")
    return found


def classes(version: str) -> str:
    """Return the class path of a version, downloaded on demand."""
    jars = provide(f"kafka-{version}-jars", lambda folder: _download(version, folder))
    check_jars(jars, f"kafka-{version}")
    return class_path(jars)


def _download(version: str, folder: Path) -> None:
    maven("kafka-pom.xml", version, "dependency:copy-dependencies", folder)
    check_jars(folder, f"kafka-{version}")


def formatted(version: str) -> Path:
    """Return the formatted data directory of a version. Copying it is half a second faster than formatting another."""
    return provide(f"kafka-{version}-formatted", lambda folder: _format(version, folder))


def _format(version: str, folder: Path) -> None:
    config = folder.parent / "server.properties"
    ports = {"client": 19092, "behind": 19093, "relay": 19094}  # nothing of these is stored
    config.write_text(properties(Node(1, {1: 19095}), ports, folder, {}))
    format_data(version, config, [])


def format_data(version: str, config: Path, options: list[str]) -> None:
    """Make Kafka format the data directory that a configuration names."""
    tool = ["kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", str(config), *options]
    run_tool([find_java(), *JAVA_FLAGS, *LOGGING, "-cp", classes(version), *tool], timeout=120)


def copy_formatted(version: str, data: Path, cluster: str, node: int) -> None:
    """Make a formatted data directory for a node of a cluster. Two servers must never look like one cluster."""
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

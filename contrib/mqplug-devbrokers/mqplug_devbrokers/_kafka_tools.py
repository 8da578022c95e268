"""Kafka's own console tools, which are a jar of their own beside the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._checksums import check_jars
from mqplug_devbrokers._jvm import JAVA_FLAGS, class_path
from mqplug_devbrokers._kafka_files import LOGGING, classes, exact_version
from mqplug_devbrokers._tools import find_java, maven

if TYPE_CHECKING:
    from pathlib import Path


VERSION = exact_version("4.3")  # older brokers understand it too


def tool_command(name: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command that runs a tool of the package `org.apache.kafka.tools`, downloaded on demand."""
    path = f"{class_path(provide(f'kafka-{VERSION}-tools', _download))}:{classes(VERSION)}"
    return [find_java(), *JAVA_FLAGS, *LOGGING, "-cp", path, f"org.apache.kafka.tools.{name}", *arguments]


def _download(folder: Path) -> None:
    maven("kafka-tools-pom.xml", VERSION, "dependency:copy-dependencies", folder)
    check_jars(folder, f"kafka-tools-{VERSION}")

"""Pulsar's own command-line tools, which are in the jars of its distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jvm import JAVA_FLAGS
from mqplug_devbrokers._pulsar_files import ARCHIVED, classes
from mqplug_devbrokers._tools import find_java, template

if TYPE_CHECKING:
    from pathlib import Path

VERSION = ARCHIVED[0]  # newer brokers understand it too
MAIN_CLASSES = {
    "client": "org.apache.pulsar.client.cli.PulsarClientTool",
    "admin": "org.apache.pulsar.admin.cli.PulsarAdminTool",
}
CLIENT_CONFIG = "client.conf"
LOG_CONFIG = "tools-log4j2.xml"


def tool_command(directory: Path, client: dict[str, str], name: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command that runs a tool, whose class path is fetched on demand.

    The files that it needs are written into `directory`. `client` are the keys of its `client.conf`.
    """
    if name not in MAIN_CLASSES:
        raise BrokerError(f"Pulsar has no tool {name!r} here: choose from {', '.join(MAIN_CLASSES)}")
    config, logging = directory / CLIENT_CONFIG, directory / LOG_CONFIG
    config.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
    logging.write_text(template("pulsar-log4j2.xml"))
    options = [f"-Dpulsar.client.conf={config}", f"-Dlog4j.configurationFile={logging}"]
    start = [find_java(), *JAVA_FLAGS, *options, "-cp", classes(VERSION)]
    return [*start, MAIN_CLASSES[name], str(config), *arguments]

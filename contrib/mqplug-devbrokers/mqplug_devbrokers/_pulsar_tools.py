"""Pulsar's own command-line tools, which are in the jars of its distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jvm import JAVA_FLAGS
from mqplug_devbrokers._pulsar_files import ARCHIVED, classes
from mqplug_devbrokers._pulsar_jvm import PULSAR_JAVA_OPTIONS
from mqplug_devbrokers._tools import find_java, template

if TYPE_CHECKING:
    from pathlib import Path

VERSION = ARCHIVED[0]  # newer brokers understand it too
MAIN_CLASSES = {
    "client": "org.apache.pulsar.client.cli.PulsarClientTool",
    "admin": "org.apache.pulsar.admin.cli.PulsarAdminTool",
    "perf": "org.apache.pulsar.testclient.PulsarPerfTestTool",
}
MEASURED_FLAGS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]  # with all of Java's compilers
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
    scratch = directory / "tools-tmp"  # for native libraries, which stay after a kill
    scratch.mkdir(exist_ok=True)
    files = {"pulsar.client.conf": config, "log4j.configurationFile": logging, "java.io.tmpdir": scratch}
    options = [*PULSAR_JAVA_OPTIONS, *(f"-D{key}={path}" for key, path in files.items())]
    flags = [*MEASURED_FLAGS, "-Dpulsar.log.level=info"] if name == "perf" else JAVA_FLAGS
    start = [find_java(), *flags, *options, "-cp", classes(VERSION)]
    return [*start, MAIN_CLASSES[name], str(config), *arguments]

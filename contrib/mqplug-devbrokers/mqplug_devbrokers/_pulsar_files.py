"""The files of a Pulsar version: its jars in the cache, the Java options they need, and its command-line tools."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._jars import JAVA_FLAGS, check_jars, class_path, download_jars
from mqplug_devbrokers._tools import find_java, maven, template

if TYPE_CHECKING:
    from pathlib import Path

# By the name that users choose. Exact versions, because a newer one may not start with our configuration.
VERSIONS = {"4.0": "4.0.8", "4.2": "4.2.4"}
ARCHIVED = ("4.0.8",)  # published as an archive with all tools; of other versions, only the broker's jars

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

TOOLS_VERSION = ARCHIVED[0]  # newer brokers understand it too
MAIN_CLASSES = {
    "client": "org.apache.pulsar.client.cli.PulsarClientTool",
    "admin": "org.apache.pulsar.admin.cli.PulsarAdminTool",
    "perf": "org.apache.pulsar.testclient.PulsarPerfTestTool",
}
MEASURED_FLAGS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]  # with all of Java's compilers
CLIENT_CONFIG = "client.conf"
LOG_CONFIG = "tools-log4j2.xml"


def exact_version(version: str) -> str:
    """Return the exact version for a name such as `4.2`. Reject an untested one."""
    found = VERSIONS.get(version, version)
    if found not in VERSIONS.values():
        raise ValueError(f"unknown Pulsar version {version!r}; expected one of {', '.join(VERSIONS)}")
    return found


def classes(version: str) -> str:
    """Return the class path of a version, downloaded on demand."""
    jars = provide(f"pulsar-{version}-jars", lambda folder: _download(version, folder))
    check_jars(jars, f"pulsar-{version}")
    return class_path(jars)


def _download(version: str, folder: Path) -> None:
    if version not in ARCHIVED:
        download_jars("pulsar-jars-pom.xml", version, folder, f"pulsar-{version}")
        return
    unpacked = folder.parent / "unpacked"
    maven("pulsar-pom.xml", version, "dependency:unpack", unpacked)
    shutil.rmtree(folder)
    (unpacked / f"apache-pulsar-{version}" / "lib").rename(folder)
    check_jars(folder, f"pulsar-{version}")


def tool_command(directory: Path, client: dict[str, str], name: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command that runs a tool. Its class path is fetched on demand.

    Its files are written into `directory`. `client` are the keys of its `client.conf`.
    """
    if name not in MAIN_CLASSES:
        raise BrokerError(f"unknown Pulsar tool {name!r}; expected one of {', '.join(MAIN_CLASSES)}")
    config, logging = directory / CLIENT_CONFIG, directory / LOG_CONFIG
    config.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
    logging.write_text(template("pulsar-log4j2.xml"))
    scratch = directory / "tools-tmp"  # for native libraries, which stay after a kill
    scratch.mkdir(exist_ok=True)
    files = {"pulsar.client.conf": config, "log4j.configurationFile": logging, "java.io.tmpdir": scratch}
    options = [*PULSAR_JAVA_OPTIONS, *(f"-D{key}={path}" for key, path in files.items())]
    flags = [*MEASURED_FLAGS, "-Dpulsar.log.level=info"] if name == "perf" else JAVA_FLAGS
    start = [find_java(), *flags, *options, "-cp", classes(TOOLS_VERSION)]
    return [*start, MAIN_CLASSES[name], str(config), *arguments]

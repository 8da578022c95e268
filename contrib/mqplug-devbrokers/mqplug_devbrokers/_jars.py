"""Jars: fetched by Maven, checked against the checksums that come with this package, and run by Java.

A broker's Java has a small heap, a fast start, and an archive of the classes it loads. The jars of spark-sql-kafka,
Spark's own Kafka connector, are for tests and benchmarks that compare with it.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._tools import find_java, java_version, maven, template

if TYPE_CHECKING:
    from pathlib import Path

    from mqplug_devbrokers._server import BrokerServer

JAVA_FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"]
SPARK_KAFKA_VERSION = "4.2.0"  # the newest on Maven Central; it works with Spark 4.3 too


@functools.cache
def check_jars(folder: Path, name: str) -> None:
    """Raise BrokerError unless a folder has the jars of `name`, such as `kafka-4.3.1`, and no others.

    A process checks a folder once: that takes a tenth of a second for Kafka, and half a second for Pulsar.
    """
    lines = [line.split() for line in template(f"{name}.sha256").splitlines()]
    expected = {jar: checksum for checksum, jar in lines}
    found = {path.name: _sha256(path) for path in folder.iterdir()}
    wrong = sorted(each for each in expected.keys() | found.keys() if expected.get(each) != found.get(each))
    if wrong:
        raise BrokerError(
            f"{len(wrong)} files in {folder} differ from those of {name}, such as {wrong[0]} "
            f"(SHA-256 {found.get(wrong[0], 'missing')}, expected {expected.get(wrong[0], 'none')}); delete the "
            "folder to fetch them again. If the error persists, your Maven repository has other files"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download_jars(pom: str, version: str, folder: Path, name: str) -> None:
    """Fill a folder with the jars of a POM template for this version, which must be those of `name`."""
    maven(pom, version, "dependency:copy-dependencies", folder)
    check_jars(folder, name)


def spark_kafka_jars() -> list[Path]:
    """Return the jars of the connector for Spark's setting `spark.jars`, downloaded on demand."""
    name = f"spark-kafka-{SPARK_KAFKA_VERSION}"
    jars = provide(name, lambda folder: download_jars("spark-kafka-pom.xml", SPARK_KAFKA_VERSION, folder, name))
    check_jars(jars, name)
    return sorted(jars.glob("*.jar"))


def class_path(jars: Path) -> str:
    """Return all jars of a folder, sorted: a class archive is valid only for the class path it was recorded with."""
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def java_command(server: BrokerServer, classes: str) -> list[str]:
    """Return the first part of a broker's command line, before its own options and main class."""
    scratch = server.directory / "tmp"  # native libraries are unpacked there, and stay after a kill
    scratch.mkdir(exist_ok=True)
    archive = _archive_flag(server, classes)
    return [find_java(), *JAVA_FLAGS, archive, f"-Djava.io.tmpdir={scratch}", "-cp", classes]


def _archive_flag(server: BrokerServer, classes: str) -> str:
    if server.recording is not None:
        return f"-XX:ArchiveClassesAtExit={server.recording}"
    return f"-XX:SharedArchiveFile={class_archive(server, classes) / 'classes.jsa'}"


def class_archive(server: BrokerServer, classes: str) -> Path:
    """Return the folder with the class archive, recorded once by a temporary broker. It halves each later start."""
    mark = hashlib.sha256(f"{java_version(find_java())} {JAVA_FLAGS} {classes}".encode()).hexdigest()[:12]
    return provide(f"{server.name}-{server.version}-classes-{mark}", lambda folder: _record(server.recorder(), folder))


def _record(server: BrokerServer, folder: Path) -> None:
    server.recording = folder / "classes.jsa"
    with server:
        pass
    if not server.recording.exists():
        raise BrokerError(f"Java wrote no class archive for {server.name}; is the disk of {folder} full?")

"""The Java command of a broker: a small heap, a fast start, and an archive of the classes it loads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._tools import find_java, java_version

if TYPE_CHECKING:
    from pathlib import Path

    from mqplug_devbrokers._server import BrokerServer

JAVA_FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"]


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

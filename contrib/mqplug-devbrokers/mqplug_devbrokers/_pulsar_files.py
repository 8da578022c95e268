"""The jars of each version of Pulsar in the cache."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._checksums import check_jars
from mqplug_devbrokers._jvm import class_path
from mqplug_devbrokers._tools import maven

if TYPE_CHECKING:
    from pathlib import Path

# By the name that users choose. An exact version, because a newer one may not start with our configuration.
VERSIONS = {"4.0": "4.0.8", "4.2": "4.2.4"}
ARCHIVED = ("4.0.8",)  # the distribution, with all tools, is published as an archive; of the others, the broker's jars


def exact_version(version: str) -> str:
    """Return the exact version for a name such as `4.2`. Refuse one that was never tried."""
    found = VERSIONS.get(version, version)
    if found not in VERSIONS.values():
        raise ValueError(f"no Pulsar {version!r}: choose one of {', '.join(VERSIONS)}")
    return found


def classes(version: str) -> str:
    """Return the class path of a version, downloaded on demand."""
    jars = provide(f"pulsar-{version}-jars", lambda folder: _download(version, folder))
    check_jars(jars, f"pulsar-{version}")
    return class_path(jars)


def _download(version: str, folder: Path) -> None:
    if version in ARCHIVED:
        _unpack(version, folder)
    else:
        maven("pulsar-jars-pom.xml", version, "dependency:copy-dependencies", folder)
    check_jars(folder, f"pulsar-{version}")


def _unpack(version: str, folder: Path) -> None:
    """Unpack the distribution and keep its jars."""
    unpacked = folder.parent / "unpacked"
    maven("pulsar-pom.xml", version, "dependency:unpack", unpacked)
    shutil.rmtree(folder)
    (unpacked / f"apache-pulsar-{version}" / "lib").rename(folder)

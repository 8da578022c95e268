"""Checks jars against the checksums that come with this package, for each version."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._tools import template

if TYPE_CHECKING:
    from pathlib import Path


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
            f"{len(wrong)} files in {folder} are not those of {name}, among them {wrong[0]} "
            f"(SHA-256 {found.get(wrong[0], 'missing')}, expected {expected.get(wrong[0], 'none')}); delete the "
            "folder to fetch them again. If the error comes back, your Maven repository has other files"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

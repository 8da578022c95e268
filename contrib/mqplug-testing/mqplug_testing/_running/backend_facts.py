"""The versions and capabilities of a backend, for the report."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import entry_points, version
from typing import Any

import attrs
from packaging.requirements import Requirement

import mqplug
from mqplug_testing._harness.harness import Harness

_seen: dict[int, tuple[Harness, dict[str, Any]]] = {}


def facts_of(harness: Harness) -> dict[str, Any]:
    """Return the backend's name, versions and capabilities. Each harness connects once for them."""
    if id(harness) not in _seen:
        with harness.connect() as client:
            capabilities = attrs.asdict(client.capabilities)
            found = {"backend": client.backend, "capabilities": capabilities, "versions": versions(client.backend)}
        _seen[id(harness)] = (harness, found)  # keeps the harness alive, so that no other gets its id
    return _seen[id(harness)][1]


@cache
def versions(backend: str) -> dict[str, str]:
    """Return the versions of Python, of mqplug with its kit, and of the backend's distribution."""
    found = {"python": platform.python_version(), "mqplug": mqplug.__version__}
    for entry in entry_points(group="mqplug.backends", name=backend):
        if entry.dist is not None:
            found[entry.dist.name] = entry.dist.version
            for required in map(Requirement, entry.dist.requires or ()):
                if required.marker is None or required.marker.evaluate({"extra": ""}):
                    found[required.name] = version(required.name)
    return found

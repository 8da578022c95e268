"""``connect``: opens a client of a backend with its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqplug._base.deadline import Deadline
from mqplug._client.client import Client

if TYPE_CHECKING:
    from mqplug._config.plan import Target


def connect(
    target: Target = None,
    /,
    *,
    timeout: float | None = 30,
    extensions: Sequence[object] | None = None,
    must_exist: bool = False,
    **settings: Any,
) -> Client:
    """Connect to a backend.

    ``target`` is a backend's name, a URL such as ``kafka://host:9092``, a mapping, or the path of a file. Without
    it the environment and a configuration file decide; the page on configuration says how. Keywords win over
    everything. ``extensions`` are names or objects, the first outermost. Everything is checked before any I/O.

    With ``must_exist`` a backend that creates a missing store raises instead, unless a setting asks it to create one.
    """
    from mqplug._config.plan import plan  # reading configurations takes its time: not at `import mqplug`

    deadline = Deadline(timeout)
    made = plan(target, settings, extensions)
    if must_exist:
        made = made.looking()
    return Client(made.backend, made.connect(deadline))


def configured(name: str, configuration: os.PathLike[str] | Mapping[str, Any] | None = None) -> bool:
    """Return whether a backend is configured: its section is present, and has the backend's address.

    Looks where ``connect()`` looks; or in a file or mapping.
    """
    from mqplug._config.choice import is_configured
    from mqplug._config.plan import sources

    if not isinstance(name, str):
        raise TypeError(f"a backend's name is a text, not {type(name).__name__}")
    found = sources(configuration, {})
    found.top()  # the settings above the sections are checked first
    return is_configured(name, found)

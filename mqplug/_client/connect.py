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
    """Connect to a backend. All arguments are checked before any I/O.

    :param target: a backend's name, a URL such as ``kafka://host:9092``, a mapping, or the path of a file. Without it
        the environment and a configuration file decide, as the page on configuration describes.
    :param timeout: seconds to wait, 30 by default; None waits without a limit.
    :param extensions: names of extensions, or objects; the first is the outermost. By default the configuration's.
    :param must_exist: raise where a backend would create a missing store, unless a setting asks it to create one.
        False by default.
    :param settings: settings of the backend, which override all other sources.
    """
    from mqplug._config.plan import plan  # slow to import, so not at `import mqplug`

    deadline = Deadline(timeout)
    made = plan(target, settings, extensions)
    if must_exist:
        made = made.looking()
    return Client(made.connect(deadline))


def configured(name: str, configuration: os.PathLike[str] | Mapping[str, Any] | None = None) -> bool:
    """Return whether a backend is configured: its section is present and has the backend's address.

    Reads the sources of ``connect()``, or the given file or mapping.
    """
    from mqplug._config.choice import is_configured
    from mqplug._config.plan import sources

    if not isinstance(name, str):
        raise TypeError(f"a backend's name must be a str, not {type(name).__name__}")
    found = sources(configuration, {})
    found.top()  # the settings above the sections are checked first
    return is_configured(name, found)

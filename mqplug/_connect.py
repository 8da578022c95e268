"""``connect``: which backend, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mqplug._backend import Backend
from mqplug._client import Client
from mqplug._deadline import Deadline
from mqplug._discovery import load
from mqplug._errors import ConfigError
from mqplug._settings import settings_from_url, split_url, structure


def connect(
    target: str | Mapping[str, Any] | None = None,
    /,
    *,
    timeout: float | None = 30,
    extensions: Sequence[object] = (),
    **settings: Any,
) -> Client:
    """Connect to a backend.

    ``target`` is a backend's name with its settings as keywords, a URL such as ``kafka://host:9092``, or a mapping
    with ``backend`` and the settings. Everything is checked before any I/O.
    """
    deadline = Deadline(timeout)
    backend, made = _choose(target, settings, extensions)
    return Client(backend, backend.connect(made, deadline))


def _choose(
    target: str | Mapping[str, Any] | None, settings: dict[str, Any], extensions: Sequence[object]
) -> tuple[Backend, Any]:
    if isinstance(target, str) and "://" in target:
        url, query = split_url(target)
        if settings:
            raise ConfigError("give settings in the URL's query or as keywords, not both", backend=url.scheme)
        backend = Backend(url.scheme, load(url.scheme), extensions)
        return backend, settings_from_url(backend.descriptor, url, query)
    if isinstance(target, Mapping):
        settings = {**target, **settings}
        target = settings.pop("backend", None)
    if target is None:
        raise ConfigError("no backend was named", fix="Write connect('memory'), or connect('kafka://host:9092')")
    if not isinstance(target, str):
        raise TypeError(f"connect() takes a name, a URL or a mapping, not {type(target).__name__}")
    backend = Backend(target, load(target), extensions)
    return backend, structure(backend.descriptor, settings)

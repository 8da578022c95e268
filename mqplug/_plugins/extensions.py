"""Extensions, which wrap the hooks of a backend: made from a name and settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from mqplug._model.errors import ConfigError, Error, PluginError
from mqplug._settings.settings import Complaint, config_error, structured, unknown


@attrs.frozen
class Extension:
    """An extension and its name."""

    name: str
    plugin: object

    @classmethod
    def of(cls, given: object) -> Extension:
        """Return an extension that was given as an object, named after its class or its module."""
        if isinstance(given, Extension):
            return given
        return cls(getattr(given, "__name__", type(given).__name__), given)


def make_extension(name: str, found: object, settings: Mapping[str, Any]) -> Extension:
    """Return an extension from its entry point: a class or function is called with the settings."""
    if not inspect.isclass(found) and not inspect.isroutine(found):
        if settings:
            raise ConfigError(f"the extension {name!r} takes no settings", fix="Remove them")
        return Extension(name, found)
    try:
        if inspect.isclass(found) and attrs.has(found):
            return Extension(name, structured(found, settings, f"extension.{name}"))
        _check_keywords(name, found, settings)
        return Extension(name, found(**settings))
    except Error:
        raise
    except Exception as error:
        raise PluginError(f"the extension {name!r} does not start: {type(error).__name__}: {error}") from error


def _check_keywords(name: str, make: Callable[..., object], settings: Mapping[str, Any]) -> None:
    signature = inspect.signature(make)
    try:
        signature.bind(**settings)
    except TypeError as error:
        known, path = signature.parameters, f"extension.{name}"
        strange = [unknown(key, f"{path}.{key}", path, known) for key in settings if key not in known]
        raise config_error(strange or [Complaint(f"{path!r}: {error}")]) from None

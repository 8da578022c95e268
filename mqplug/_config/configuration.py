"""The configuration: the layers of all sources, in order of precedence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import attrs

from mqplug._config.layers import TOP_LEVEL_KEYS, Given, Layer, unset
from mqplug._model.errors import ConfigError
from mqplug._plugins.discovery import PluginRules
from mqplug._settings.fields import Text, fields_of
from mqplug._settings.secrets import redact
from mqplug._settings.settings import Complaint, config_error, quoted, structured
from mqplug._settings.urls import shown, split_url
from mqplug.spi._descriptor import Descriptor, Url

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class TopLevel:
    """The keys above the sections.

    ``backend`` names the backend to use. Without it, ``mode`` decides: "standalone" takes the first configured backend
    of rocksmq, pulsar, kafka; "cluster" of pulsar, kafka. ``url`` gives a backend and its address in one string.
    ``extensions`` wrap the backend, the first outermost.
    """

    backend: str | None = None
    mode: Literal["standalone", "cluster"] = "standalone"
    url: str | None = attrs.field(default=None, repr=False)
    extensions: list[str] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class CoreSettings:
    """The settings of any backend that the core reads. ``debug`` checks the backend's drivers, for their authors."""

    debug: bool = False


DEBUG: Final = "debug"


@attrs.frozen(kw_only=True)
class Plugins:
    """The plugins that may be loaded. ``allow`` lists the only ones that may. ``deny`` lists those that may not."""

    allow: list[str] | None = None
    deny: list[str] = attrs.field(factory=list)


@attrs.frozen
class Configuration:
    """The settings of all layers, in order of precedence."""

    layers: Sequence[Layer]

    def keys(self) -> dict[str, Given]:
        """Return each key above the sections, from the first layer that has it."""
        found = {name: next(filter(None, (layer.key(name) for layer in self.layers)), None) for name in TOP_LEVEL_KEYS}
        return {name: given for name, given in found.items() if given is not None}

    def top(self) -> TopLevel:
        """Return the keys above the sections, checked."""
        return checked(TopLevel, self.keys(), "")

    def named(self) -> tuple[str, Given] | None:
        """Return the backend that the first layer with ``backend`` or ``url`` names, or None."""
        for layer in self.layers:
            backend, url = layer.key("backend"), layer.key("url")
            if url is None:
                if backend is not None:
                    return str(backend.value), backend
                continue
            name = split_url(url.value)[0].backend
            if backend is not None and str(backend.value) != name:
                raise ConfigError(
                    f"{quoted(backend.place)} names {backend.value!r}, but {quoted(url.place)} names {name!r}"
                )
            return name, backend or url
        return None

    def rules(self) -> PluginRules:
        """Return the rules about the plugins that may be loaded."""
        lists = checked(Plugins, self.section("plugins"), "plugins")
        return PluginRules(**attrs.asdict(lists))

    def section(self, *path: str) -> dict[str, Given]:
        """Return a section, each key from the first layer that has it."""
        found: dict[str, Given] = {}
        for layer in self.layers:
            found = {**layer.section(*path), **found}
        return found

    def settings(self, descriptor: Descriptor) -> dict[str, Given]:
        """Return the settings of the chosen backend. A URL is complete: later layers add nothing to it."""
        found: dict[str, Given] = {}
        for layer in self.layers:
            url = layer.key("url")
            at = None if url is None or descriptor.name != split_url(url.value)[0].backend else url
            spread = {} if at is None else dict(_from_url(descriptor, at))
            found = {**layer.section(descriptor.name), **spread, **layer.loose(), **found}
            if at is not None:
                break
        return found


def checked(kind: type[T], givens: Mapping[str, Given], path: str, backend: str | None = None) -> T:
    """Return settings of this class. Errors name the place of each setting."""
    check_variables(givens, path)
    places = {key: given.place for key, given in givens.items() if given.place}
    plain = {key: given.value for key, given in givens.items()}
    return structured(kind, plain, path, places=places, backend=backend)


def check_variables(givens: Mapping[str, Given], path: str) -> None:
    """Raise ``ConfigError`` for each referenced variable that is not set."""
    missing = [
        Complaint(f"{quoted(place)} needs the environment variable {variable!r}, which is not set", f"Set {variable}")
        for key, given in givens.items()
        for place, variable in unset(given.value, given.place or f"{path}.{key}")
    ]
    if missing:
        raise config_error(missing)


def _from_url(descriptor: Descriptor, given: Given) -> Iterator[tuple[str, Given]]:
    url, query = split_url(given.value)
    fields = fields_of(descriptor.settings)
    for key, value in _parts(descriptor, url, given.value).items():
        yield key, Given(value, given.source, "")
    for key, text in query.items():
        yield key, Given(Text(text) if key in fields or key == DEBUG else text, given.source, "")


def _parts(descriptor: Descriptor, url: Url, text: str) -> Mapping[str, Any]:
    """Return the settings that the plugin reads from a URL. Convert any error to a ``ConfigError`` without secrets."""
    if url.scheme not in {descriptor.name, *descriptor.schemes}:
        known = " or ".join(f"{scheme}://" for scheme in (descriptor.name, *sorted(descriptor.schemes)))
        raise ConfigError(f"unknown scheme {url.scheme}://", backend=descriptor.name, fix=f"Write {known}")
    login = [each for each in (url.user, url.password) if each]
    try:
        return dict(descriptor.from_url(url))
    except ConfigError as error:
        redact(error, login)
        error.at(backend=descriptor.name)
        raise
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        reason = type(error).__name__ + ("" if login else f": {error}")  # the error's text may show part of a login
    raise ConfigError(f"the plugin cannot read the URL {shown(text)!r}: {reason}", backend=descriptor.name)

"""The choice of the backend: the named one, or the first of the mode's backends that is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

import attrs

from mqplug._config.configuration import Configuration
from mqplug._config.layers import Given, is_backend
from mqplug._model.errors import ConfigError
from mqplug._plugins.backend import Backend
from mqplug._plugins.discovery import load
from mqplug._settings.fields import address_fields
from mqplug._settings.settings import Complaint, config_error, nearest, quoted, unknown
from mqplug._settings.urls import split_url

MODE_BACKENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "standalone": ("rocksmq", "pulsar", "kafka"),
    "cluster": ("pulsar", "kafka"),
}
ADDRESS_SETTINGS: Final = {"rocksmq": "path", "pulsar": "service_url", "kafka": "servers"}
"""The settings that hold an address, listed here so that skipped backends need not be loaded."""

_FOREIGN: Final = ("address", "brokerList", "brokers", "hosts", "url", "bootstrap_servers", "bootstrap.servers")
FOREIGN_QUEUES: Final = ("woodpecker", "natsmq")  # Milvus' own queues

_EXAMPLE: Final = {
    "standalone": "[rocksmq] and path = \"./mq\" in mqplug.toml, or connect('rocksmq', path='./mq')",
    "cluster": "[kafka] and servers = [\"host:9092\"] in mqplug.toml, or connect('kafka://host:9092')",
}


@attrs.frozen
class Choice:
    """The chosen backend, and the reason."""

    name: str
    reason: str


def choose(configuration: Configuration) -> Choice:
    """Return the backend to use. Raise ``ConfigError`` if none can be chosen."""
    top = configuration.top()
    named = configuration.named()
    if named is not None:
        name, given = named
        if name == "rocksmq" and top.mode == "cluster":
            raise ConfigError(
                f"rocksmq, which {quoted(given.place)} names, is a log of one machine, but the mode is 'cluster'",
                backend=name,
                fix="Use pulsar or kafka, or set mode='standalone'",
            )
        if name in FOREIGN_QUEUES and not is_backend(name):
            raise ConfigError(
                f"{quoted(given.place)} names {name!r}, a queue of Milvus' own that mqplug does not support",
                fix=f"Choose another with backend=: {', '.join(ADDRESS_SETTINGS)}",
            )
        return Choice(name, f"{given.place if given.source in given.place else given.source} names it")
    order = MODE_BACKENDS[top.mode]
    for name in order:
        if is_configured(name, configuration):
            return Choice(name, f"mode is {top.mode}: the first of {', '.join(order)} that is configured")
    raise _none(configuration, top.mode)


def is_configured(name: str, configuration: Configuration) -> bool:
    """Return whether a section or a URL gives the backend's address. Raise for a section with a misspelled address."""
    section = configuration.section(name)
    for layer in configuration.layers:
        url = layer.key("url")
        if url is not None:
            parts = split_url(url.value)[0]
            if parts.backend == name and (parts.hosts or parts.path):
                return True
    known = ADDRESS_SETTINGS.get(name)
    addresses = (known,) if known else _addresses(name, configuration)
    if any(not _blank(section[key].value) for key in addresses if key in section):
        return True
    _check_spelling(name, section, addresses)
    return False


def _addresses(name: str, configuration: Configuration) -> tuple[str, ...]:
    plugin = load(name, configuration.rules())
    return address_fields(Backend(name, plugin).descriptor.settings)


def _check_spelling(name: str, section: Mapping[str, Given], addresses: tuple[str, ...]) -> None:
    """Raise ``ConfigError`` for a misspelled address, because its section would be skipped for another backend."""
    for key, given in section.items():
        if key in addresses:
            continue
        if get_close_matches(key, addresses, n=1, cutoff=0.75):
            raise config_error([unknown(key, given.place, name, addresses)], name)
        if get_close_matches(key, _FOREIGN, n=1, cutoff=0.75):
            fix = f"Set {' or '.join(addresses)}; put Milvus' own settings into a YAML file with milvus in its name"
            raise config_error([Complaint(f"unknown setting {quoted(given.place)}", fix)], name)


def _blank(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple) and all(_blank(each) for each in value))


def _none(configuration: Configuration, mode: str) -> ConfigError:
    text = "; ".join(["no backend was named, and none is configured", *_hints(configuration, mode)])
    return ConfigError(text, fix=f"Write {_EXAMPLE[mode]}")


def _hints(configuration: Configuration, mode: str) -> Iterator[str]:
    """Yield each present section and key, and why it does not choose a backend."""
    for layer in configuration.layers:
        for key in layer.loose():
            yield f"{key!r} belongs to no backend ({nearest(key, ['backend', 'mode', 'url', *ADDRESS_SETTINGS])})"
    for name, address in ADDRESS_SETTINGS.items():
        if configuration.section(name):
            chosen = name in MODE_BACKENDS[mode]
            yield f"{name} has no {address}" if chosen else f"{name} is never chosen in mode {mode!r}"
    for name in {name: None for layer in configuration.layers for name in layer.backends()}:
        if name not in ADDRESS_SETTINGS:
            yield f"{name} is chosen only by name (write backend = {name!r})"

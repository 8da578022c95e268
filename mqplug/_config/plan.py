"""The plan of a ``connect``: the backend and its settings, determined before any I/O."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from mqplug._base.deadline import Deadline
from mqplug._config.choice import Choice, choose
from mqplug._config.configuration import DEBUG, Configuration, CoreSettings, check_variables, checked
from mqplug._config.contexts import Context
from mqplug._config.files import check_backend_name, find_config_file, read_config_file
from mqplug._config.layers import (
    BACKEND_SECTIONS,
    TOP_LEVEL_TABLES,
    Document,
    Environment,
    Given,
    Layer,
)
from mqplug._model.errors import ConfigError, ConnectError
from mqplug._plugins.backend import Backend
from mqplug._plugins.discovery import PluginRules, load, load_extension
from mqplug._settings.fields import address_fields, fields_of
from mqplug._settings.secrets import redact, secrets_of
from mqplug._settings.settings import nearest, quoted

_BORROWED_FIX: Final = (
    "For a store of your own, set path to another directory, because nothing is created in a directory of Milvus; "
    "if Milvus uses another queue, also set its environment variables here, such as MQ_TYPE"
)

Target = str | os.PathLike[str] | Mapping[str, Any] | Context | None


@attrs.frozen
class ConnectionPlan:
    """A chosen backend, and its settings with the source of each."""

    backend: Backend
    choice: Choice
    settings: Any = attrs.field(repr=False)
    givens: Mapping[str, Given] = attrs.field(repr=False)
    keys: Mapping[str, Given] = attrs.field(repr=False)
    layers: Sequence[Layer] = attrs.field(repr=False)

    def connect(self, deadline: Deadline) -> Backend:
        """Return the backend with a connection.

        Errors and their causes show no secrets. Errors about an unreachable server name its address.
        """
        try:
            return self.backend.connect(self.settings, deadline)
        except Exception as error:
            if isinstance(error, ConnectError):
                self._name_address(error)
            redact(error, secrets_of(type(self.settings), self.settings))
            borrowed = _borrowed(self.givens)
            if borrowed is not None and isinstance(error, ConfigError):
                error.message += f"; {quoted(borrowed.place)} names it"
                error.fix = _BORROWED_FIX
            raise

    def _name_address(self, error: ConnectError) -> None:
        values = [getattr(self.settings, name) for name in address_fields(type(self.settings))]
        addresses = [str(each) for value in values for each in (value if isinstance(value, list) else [value]) if each]
        if addresses and not any(re.split("//|@", each)[-1] in str(error) for each in addresses):
            error.message = f"{error.message}, at {', '.join(addresses)}"

    def looking(self) -> ConnectionPlan:
        """Return the same plan, with a ``connect`` that creates nothing unless the settings request it."""
        fields = fields_of(type(self.settings)).values()
        quiet = {field.name: False for field in fields if field.creates and field.name not in self.givens}
        return attrs.evolve(self, settings=attrs.evolve(self.settings, **quiet))


def plan(target: Target, settings: Mapping[str, Any], extensions: Sequence[object] | None = None) -> ConnectionPlan:
    """Return the plan. Raise ``ConfigError`` or ``PluginError`` for any obstacle."""
    if isinstance(extensions, str):
        raise TypeError("extensions must be a list of names and objects, not a str")
    configuration = sources(target, settings)
    rules = configuration.rules()
    choice = choose(configuration)
    wanted = configuration.top().extensions if extensions is None else extensions
    around = [_extension(configuration, each, rules) if isinstance(each, str) else each for each in wanted]
    plugin = load(choice.name, rules)
    backend = Backend(choice.name, plugin, around)
    givens = configuration.settings(backend.descriptor)
    kind = backend.descriptor.settings
    if _is_watched(givens, kind, choice.name):
        backend = Backend(choice.name, plugin, [*around, load_extension(DEBUG).plugin])
    _check_tables(givens, kind)
    made = checked(kind, givens, choice.name, backend=choice.name)
    result = ConnectionPlan(backend, choice, made, givens, configuration.keys(), configuration.layers)
    return result if _borrowed(givens) is None else result.looking()


def sources(target: Target, settings: Mapping[str, Any]) -> Configuration:
    """Return the sources of the settings. The more a call specifies, the fewer sources are read."""
    said: list[Layer] = [Document("a keyword", settings)] if settings else []
    variables = os.environ
    match target:
        case None:
            path = find_config_file(variables)
            files = [] if path is None else [read_config_file(path, variables)]
            return Configuration([*said, Environment(variables), *files])
        case str():
            _check_said_once(settings)
            if "://" in target:
                return Configuration([*said, Document("the URL", {"url": target}), Environment(variables, "plugins")])
            check_backend_name(target)
            return Configuration([*said, Document("the call", {"backend": target}), Environment(variables, "sections")])
        case Context():
            return Configuration([*said, target.document, Environment(variables, "plugins")])
        case Mapping():
            return Configuration([*said, Document("the mapping", target), Environment(variables, "plugins")])
        case os.PathLike():
            return Configuration([*said, Environment(variables), read_config_file(target, variables)])
    raise TypeError(f"connect() takes a name, a URL, a mapping or a path, not {type(target).__name__}")


def _check_said_once(settings: Mapping[str, Any]) -> None:
    for key in ("backend", "url"):
        if key in settings:
            raise ConfigError(f"both the target and {key}= name the backend", fix=f"Remove {key}=")


def _borrowed(givens: Mapping[str, Given]) -> Given | None:
    return next((given for given in givens.values() if given.borrowed), None)


def _is_watched(givens: dict[str, Given], kind: type[Any], name: str) -> bool:
    """Return whether to watch the backend's drivers. Remove that setting, which the backend does not know."""
    if DEBUG in fields_of(kind) or DEBUG not in givens:
        return False
    return checked(CoreSettings, {DEBUG: givens.pop(DEBUG)}, name).debug


def _check_tables(givens: Mapping[str, Given], kind: type[Any]) -> None:
    for key, given in givens.items():
        if key not in fields_of(kind) and isinstance(given.value, Mapping) and not given.place:
            sections = [*TOP_LEVEL_TABLES, *BACKEND_SECTIONS, *fields_of(kind)]
            raise ConfigError(f"unknown section {key!r}", fix=nearest(key, sections))


def _extension(configuration: Configuration, name: str, rules: PluginRules) -> object:
    given = configuration.section("extension", name)
    check_variables(given, f"extension.{name}")
    return load_extension(name, {key: each.value for key, each in given.items()}, rules)

"""The state of each installed plugin. Each is loaded and checked; a broken one does not hide the others."""

from __future__ import annotations

import inspect as python
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import attrs

from mqplug._plugins.backend import Backend
from mqplug._plugins.discovery import (
    ALLOW_ALL,
    GROUPS,
    Conflict,
    Denied,
    Extension,
    Kind,
    PluginRules,
    entry_points,
    import_one,
    installed,
    load,
    registered,
)
from mqplug._plugins.hooks import Hooks, Incompatible, api_version, check_extension

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

State = Literal["ok", "broken", "conflict", "denied", "incompatible"]


@attrs.frozen
class PluginState:
    """One plugin. Unknown facts are None; ``reason`` describes the problem and its fix."""

    kind: Kind
    name: str
    distribution: str | None = None
    version: str | None = None
    api_version: int | None = None
    state: State = "ok"
    reason: str = ""


def inspect_plugins(rules: PluginRules = ALLOW_ALL) -> list[PluginState]:
    """Return all plugins, by kind and name. Forbidden ones are listed but not loaded."""
    found = [state for kind in GROUPS for state in _states(kind, rules)]
    return sorted(found, key=lambda each: (each.kind, each.name, each.distribution or ""))


def settings_class(backend: str, rules: PluginRules = ALLOW_ALL) -> type[Any]:
    """Return the class of a backend's settings."""
    return Backend(backend, load(backend, rules)).descriptor.settings


def commands_of(backend: str) -> list[Any]:
    """Return the click commands of a backend; none if it has none or is not installed."""
    if backend not in installed():
        return []
    return list(chain.from_iterable(Hooks(backend, load(backend)).call.mqplug_commands()))


def _states(kind: Kind, rules: PluginRules) -> Iterator[PluginState]:
    ours = registered(kind)
    for name, plugin in ours.items():
        yield _looked_at(PluginState(kind, name, "registered"), rules, partial(_as_it_is, plugin))
    points = [point for point in entry_points(kind) if point.name not in ours]  # registered plugins override others
    for point in points:
        rivals = [each for each in points if each.name == point.name]
        yield _looked_at(_unloaded(kind, point), rules, partial(import_one, kind, rivals))


def _as_it_is(plugin: object) -> object:
    return plugin


def _unloaded(kind: Kind, point: EntryPoint) -> PluginState:
    if point.dist is None:
        return PluginState(kind, point.name)
    return PluginState(kind, point.name, point.dist.name, point.dist.version)


def _looked_at(plugin: PluginState, rules: PluginRules, load: Callable[[], object]) -> PluginState:
    """Return the plugin with its state, found by loading it if the rules allow that."""
    try:
        rules.check(plugin.kind, plugin.name)
        return attrs.evolve(plugin, api_version=_version(plugin.kind, plugin.name, load()))
    except Denied as error:
        return attrs.evolve(plugin, state="denied", reason=str(error))
    except Conflict as error:
        return attrs.evolve(plugin, state="conflict", reason=str(error))
    except Incompatible as error:
        return attrs.evolve(plugin, api_version=error.api_version, state="incompatible", reason=str(error))
    except Exception as error:  # noqa: BLE001 - no error of one plugin may hide the others
        return attrs.evolve(plugin, state="broken", reason=str(error))


def _version(kind: Kind, name: str, found: object) -> int:
    """Return the version of the interface that a plugin implements. Raise if anything is wrong with it."""
    if kind == "backend":
        return Backend(name, found).descriptor.api_version
    if python.isroutine(found):
        return api_version(found)  # its hooks are known only after a call with its settings
    plugin = _unmade(found) if python.isclass(found) else found
    check_extension(Extension(name, plugin))
    return api_version(plugin)


def _unmade(kind: type[object]) -> object:
    """Return an instance without settings, whose hooks can be inspected but not called."""
    with suppress(TypeError):
        return kind.__new__(kind)
    return kind

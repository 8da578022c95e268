"""Discovery of plugins: by entry point, lazily, one at a time.

Only the named backend or extension is loaded. Names that the rules forbid are refused before anything is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mqplug._model.errors import ConfigError, Error, PluginError
from mqplug._settings.settings import Complaint, config_error, structured, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import TracebackType


Kind = Literal["backend", "extension"]

GROUPS: Final[Mapping[Kind, str]] = {"backend": "mqplug.backends", "extension": "mqplug.extensions"}
PUBLISHED: Final[Mapping[Kind, Mapping[str, str]]] = {  # with their distributions
    "backend": {name: f"mqplug-{name}" for name in ("rocksmq", "kafka", "pulsar")},
    "extension": dict.fromkeys(("debug", "faults", "recording"), "mqplug-testing"),
}

_registered: dict[tuple[Kind, str], object] = {}


class Denied(PluginError):
    """A plugin that the rules forbid."""


class Conflict(PluginError):
    """Several distributions provide a plugin of one name."""


@attrs.frozen
class PluginRules:
    """The plugins that may be loaded, by name. Without an ``allow`` list, all that are not on the ``deny`` list may."""

    allow: frozenset[str] | None = attrs.field(default=None, converter=attrs.converters.optional(frozenset))
    deny: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)

    def check(self, kind: Kind, name: str) -> None:
        """Raise ``PluginError``, naming the list, if this plugin may not be loaded."""
        if name in self.deny:
            raise _about(Denied, kind, name, "is on the deny list and is not loaded", "Remove it from that list")
        if self.allow is not None and name not in self.allow:
            raise _about(Denied, kind, name, "is not on the allow list and is not loaded", "Add it to that list")


ALLOW_ALL: Final = PluginRules()


def load(name: str, rules: PluginRules = ALLOW_ALL) -> object:
    """Return the backend of this name. Nothing else is imported."""
    return _load("backend", name, rules)


def load_extension(name: str, settings: Mapping[str, Any] | None = None, rules: PluginRules = ALLOW_ALL) -> Extension:
    """Return the extension of this name, created with its settings. Nothing else is imported."""
    return make_extension(name, _load("extension", name, rules), settings or {})


class Registration:
    """A registered plugin. ``undo()``, or the end of a ``with`` block, restores the previous registration."""

    def __init__(self, kind: Kind, name: str, plugin: object) -> None:
        self._key = (kind, name)
        self._before = _registered.get(self._key)
        self._plugin = plugin
        _registered[self._key] = plugin

    def undo(self) -> None:
        """Forget this plugin. Register the one again that had this name before, if any."""
        if _registered.get(self._key) is not self._plugin:
            return
        if self._before is None:
            del _registered[self._key]
        else:
            _registered[self._key] = self._before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def register(name: str, plugin: object, *, kind: Kind = "backend") -> Registration:
    """Register a plugin without an entry point, for tests and frozen applications. It overrides an installed one."""
    if kind not in GROUPS:
        raise ValueError(f"kind must be 'backend' or 'extension', not {kind!r}")
    return Registration(kind, name, plugin)


def installed(kind: Kind = "backend") -> dict[str, str]:
    """Return the name of each installed plugin, and its distribution. Loads none."""
    found = {point.name: owner(point) for point in entry_points(kind)}
    return found | dict.fromkeys(registered(kind), "registered")


def registered(kind: Kind) -> dict[str, object]:
    """Return the plugins that ``register`` added, by name."""
    return {name: plugin for (of, name), plugin in _registered.items() if of == kind}


def import_one(kind: Kind, points: list[EntryPoint]) -> object:
    """Import the only one of these entry points. Raise ``PluginError`` for every failure."""
    point, *rivals = points
    if rivals:
        owners = " and by ".join(sorted(owner(each) for each in points))
        raise _about(Conflict, kind, point.name, f"is provided by {owners}", "Uninstall all but one of them")
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        reason = f"of {owner(point)} cannot be loaded: {type(error).__name__}: {error}"
        fix = f"Reinstall it: pip install --force-reinstall {owner(point)}"
        raise _about(PluginError, kind, point.name, reason, fix) from error


def entry_points(kind: Kind, name: str | None = None) -> list[EntryPoint]:
    """Return the entry points of backends or extensions, of one name or of all."""
    points = [point for point in points_of_group(GROUPS[kind]) if name in {None, point.name}]
    if len(points) < 2:
        return points  # finding a point's owner means parsing its distribution's metadata, which is slow
    return list({(point.name, point.value, owner(point)): point for point in points}.values())


def owner(point: EntryPoint) -> str:
    """Return the distribution of an entry point."""
    return point.dist.name if point.dist is not None else point.value


def package_of(kind: Kind, name: str) -> str | None:
    """Return the distribution of a plugin, installed or published; None if it is unknown."""
    return next((owner(point) for point in entry_points(kind, name)), PUBLISHED[kind].get(name))


def _load(kind: Kind, name: str, rules: PluginRules) -> object:
    rules.check(kind, name)
    if (kind, name) in _registered:
        return _registered[kind, name]
    found = entry_points(kind, name)
    if not found:
        raise _missing(kind, name)
    return import_one(kind, found)


def points_of_group(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, of all installed distributions."""
    from importlib import metadata  # takes 40 ms, so not at `import mqplug`

    try:
        return list(metadata.entry_points(group=group))
    except Exception:  # noqa: BLE001 - one distribution's broken metadata must not hide other plugins
        return [point for found in metadata.distributions() for point in _points_of(found, group)]


def _points_of(distribution: Any, group: str) -> list[EntryPoint]:
    try:
        return list(distribution.entry_points.select(group=group))
    except Exception:  # noqa: BLE001
        return []


def _missing(kind: Kind, name: str) -> ConfigError | PluginError:
    if name in PUBLISHED[kind]:
        return PluginError(f"the {kind} {name!r} is not installed", fix=f"Run pip install {PUBLISHED[kind][name]}")
    names = sorted({*installed(kind), *PUBLISHED[kind]})
    near = get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Use one of {', '.join(names)}"
    return ConfigError(f"unknown {kind} {name!r}", fix=hint)


def _about(error: type[PluginError], kind: Kind, name: str, what: str, fix: str) -> PluginError:
    return error(f"the {kind} {name!r} {what}", backend=name if kind == "backend" else None, fix=fix)


@attrs.frozen
class Extension:
    """An extension with its name."""

    name: str
    plugin: object

    @classmethod
    def of(cls, given: object) -> Extension:
        """Return an extension that was given as an object, named after its class or its module."""
        if isinstance(given, Extension):
            return given
        return cls(getattr(given, "__name__", type(given).__name__), given)


def make_extension(name: str, found: object, settings: Mapping[str, Any]) -> Extension:
    """Return an extension from its entry point. A class or function is called with the settings."""
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
        raise PluginError(f"the extension {name!r} cannot be started: {type(error).__name__}: {error}") from error


def _check_keywords(name: str, make: Callable[..., object], settings: Mapping[str, Any]) -> None:
    signature = inspect.signature(make)
    try:
        signature.bind(**settings)
    except TypeError as error:
        known, path = signature.parameters, f"extension.{name}"
        strange = [unknown(key, f"{path}.{key}", path, known) for key in settings if key not in known]
        raise config_error(strange or [Complaint(f"{path!r}: {error}")]) from None

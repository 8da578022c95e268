"""Finding backends: by entry point, lazily, one at a time."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from mqplug._errors import ConfigError, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "mqplug.backends"
KNOWN = ("rocksmq", "kafka", "pulsar")  # what can be installed by a name that we know

_registered: dict[str, object] = {}


def register(name: str, plugin: object) -> None:
    """Make a backend known without an entry point: for tests and frozen applications."""
    _registered[name] = plugin


def load(name: str) -> object:
    """The plugin of this name. Nothing else is imported."""
    if name in _registered:
        return _registered[name]
    found = _entry_points(name)
    if not found:
        raise _missing(name)
    if len(found) > 1:
        owners = " and ".join(sorted(_owner(point) for point in found))
        raise PluginError(
            f"the backend {name!r} is offered by {owners}", backend=name, fix="Uninstall all but one of them"
        )
    try:
        return found[0].load()
    except Exception as error:
        raise PluginError(
            f"the plugin {_owner(found[0])} does not load: {type(error).__name__}: {error}",
            backend=name,
            fix=f"Reinstall it: pip install --force-reinstall {_owner(found[0])}",
        ) from error


def installed() -> dict[str, str]:
    """The name of each backend that can be opened, and the distribution that brings it. Loads none."""
    return {point.name: _owner(point) for point in _entry_points()} | dict.fromkeys(_registered, "registered")


def _entry_points(name: str | None = None) -> list[EntryPoint]:
    from importlib.metadata import entry_points  # 40 ms: not at `import mqplug`

    points = entry_points(group=GROUP) if name is None else entry_points(group=GROUP, name=name)
    unique = {(point.name, point.value, _owner(point)): point for point in points}
    return list(unique.values())


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _missing(name: str) -> ConfigError | PluginError:
    if name in KNOWN:
        return PluginError(f"the backend {name!r} is not installed", fix=f"Run pip install mqplug-{name}")
    names = sorted({*installed(), *KNOWN})
    near = get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}"
    return ConfigError(f"there is no backend {name!r}", fix=hint)

"""The hooks of one client: the backend's, wrapped by those of the extensions.

The plugin of each hook is known, so that an error names the plugin that caused it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import CodeType, FrameType, GeneratorType, TracebackType
from typing import Final, cast

import pluggy

from mqplug._model.errors import ConfigError, PluginError
from mqplug._plugins.discovery import Extension, Kind, package_of
from mqplug.spi import hookspecs
from mqplug.spi._descriptor import API_VERSION

PROJECT: Final = "mqplug"
HOOK_NAMES: Final = tuple(sorted(name for name in vars(hookspecs) if name.startswith("mqplug_")))


class Hooks:
    """A backend and the extensions around it. The first extension is the outermost."""

    def __init__(self, name: str, backend: object, extensions: Sequence[object] = ()) -> None:
        manager = _manager()
        self.call = manager.hook
        self._owners: dict[CodeType, list[tuple[object, str | None]]] = {}
        self._homes: dict[str, str | None] = {}
        hooks = _plug(manager, f"the backend {name!r}", backend)
        for each in reversed([Extension.of(given) for given in extensions]):  # the last one registered is outermost
            self._own(_spoken(each), each.plugin, _plug_extension(manager, each))
        self._own(None, backend, hooks)

    def _own(self, who: str | None, plugin: object, hooks: Iterable[pluggy.HookImpl]) -> None:
        for code in (getattr(inspect.unwrap(hook.function), "__code__", None) for hook in hooks):
            if code is not None:
                self._owners.setdefault(code, []).append((plugin, who))
        self._homes[_home(plugin)] = who

    def extension_of(self, error: BaseException) -> str | None:
        """Return the extension that raised this; None if the backend did, or if it is unknown."""
        if isinstance(error.__cause__, StopIteration):  # Python converted it to a RuntimeError as it left a wrapper
            error = error.__cause__
        frames = _frames_from_inside(error.__traceback__)
        for frame in frames:
            if owners := self._owners.get(_code(frame)):
                return _owner(frame, owners)
        homes = (_top(frame.f_globals.get("__name__", "")) for frame in frames)  # a driver or a proxy, not a hook
        return next((self._homes[home] for home in homes if home in self._homes), None)


class Incompatible(PluginError):
    """A plugin that implements a version of the interface that this core does not know."""

    api_version: int | None = None


def check_version(kind: Kind, name: str, version: object) -> None:
    """Raise ``PluginError``, with what to upgrade, unless this core knows that version."""
    where = name if kind == "backend" else None
    if not isinstance(version, int):
        raise PluginError(f"the api_version of the {kind} {name!r} must be an int, not {version!r}", backend=where)
    if API_VERSION - 1 <= version <= API_VERSION:
        return
    package = package_of(kind, name) if version < API_VERSION else PROJECT
    error = Incompatible(
        f"the {kind} {name!r} implements version {version} of the interface; this mqplug has version {API_VERSION}",
        backend=where,
        fix=f"Run pip install --upgrade {package}" if package else f"Upgrade the {kind} {name!r}",
    )
    error.api_version = version
    raise error


def check_extension(extension: Extension) -> None:
    """Raise ``PluginError`` unless the extension's hooks and version are valid."""
    _plug_extension(_manager(), extension)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _plug_extension(manager: pluggy.PluginManager, extension: Extension) -> list[pluggy.HookImpl]:
    check_version("extension", extension.name, api_version(extension.plugin))
    return _plug(manager, _spoken(extension), extension.plugin)


def api_version(extension: object) -> int:
    """Return the version of the interface that an extension was written for, by default the current one."""
    return cast(int, getattr(extension, "api_version", API_VERSION))


def _plug(manager: pluggy.PluginManager, who: str, plugin: object) -> list[pluggy.HookImpl]:
    """Register a plugin, and return its hooks if all are valid."""
    _check_instance(who, plugin)
    try:
        manager.register(plugin, f"{who} ({len(manager.get_plugins())})")
    except pluggy.PluginValidationError as error:
        raise PluginError(f"{who} has an invalid hook: {_reason(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{who} is listed twice", fix="List each extension once") from error
    hooks = {
        hook: caller
        for caller in manager.get_hookcallers(plugin) or ()
        for hook in caller.get_hookimpls()
        if hook.plugin is plugin
    }
    for hook, caller in hooks.items():
        if not caller.has_spec() and not hook.optionalhook:
            raise _unknown(who, caller.name)
    _check_unmarked(who, plugin, {caller.name for caller in hooks.values()})
    return list(hooks)


def _frames_from_inside(trace: TracebackType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while trace is not None:
        frames.insert(0, trace.tb_frame)
        trace = trace.tb_next
    return frames


def _code(frame: FrameType) -> CodeType:
    """Return the code that a frame is about. If pluggy complains about a wrapper's yields, that is the wrapper's."""
    wrapper = frame.f_locals.get("wrap_controller")
    return wrapper.gi_code if isinstance(wrapper, GeneratorType) else frame.f_code


def _owner(frame: FrameType, owners: Sequence[tuple[object, str | None]]) -> str | None:
    """Return the plugin whose hook runs in a frame. Plugins of one class share its code, but not ``self``."""
    first = frame.f_code.co_varnames[:1]
    me = frame.f_locals.get(first[0]) if first else None
    return next((who for plugin, who in owners if plugin is me), owners[0][1])


def _check_instance(who: str, plugin: object) -> None:
    """Raise ``PluginError`` for a class, whose hooks would lack ``self``."""
    if inspect.isclass(plugin) and any(
        inspect.isfunction(inspect.getattr_static(plugin, name, None)) for name in HOOK_NAMES
    ):
        raise PluginError(f"{who} is a class, whose hooks need an object", fix=f"Pass an instance of {plugin.__name__}")


def _check_unmarked(who: str, plugin: object, marked: set[str]) -> None:
    """Raise ``PluginError`` for a hook without its decorator, which would never be called."""
    if not marked:
        raise PluginError(f"{who} has no hooks", fix="Decorate its hooks with mqplug.spi.hookimpl")
    for name in set(HOOK_NAMES) - marked:
        if inspect.isroutine(inspect.getattr_static(plugin, name, None)):
            raise PluginError(f"{who} has an undecorated {name}", fix="Decorate it with mqplug.spi.hookimpl")


def _unknown(who: str, name: str) -> PluginError:
    near = get_close_matches(name, HOOK_NAMES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(HOOK_NAMES)}"
    return PluginError(f"{who} has an unknown hook {name}", fix=hint)


def _reason(error: pluggy.PluginValidationError) -> str:
    """Return pluggy's reason on one line, without the plugin's name."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    return "; ".join(line for line in lines[1:] if line) or lines[0]


def _spoken(extension: Extension) -> str:
    return f"the extension {extension.name!r}"


def _home(plugin: object) -> str:
    """Return the package of a plugin's code."""
    module = plugin.__name__ if inspect.ismodule(plugin) else type(plugin).__module__
    return _top(module)


def _top(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == PROJECT else parts[0]

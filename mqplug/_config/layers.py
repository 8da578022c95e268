"""Layers: the uninterpreted settings of one source each: keywords, a mapping, a URL, a file, the environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, runtime_checkable

import attrs

from mqplug._plugins.discovery import PUBLISHED, installed
from mqplug._settings.fields import Text
from mqplug._settings.settings import Complaint, config_error, nearest, quoted

IN_TREE: Final = "memory"
TOP_LEVEL_KEYS: Final = ("backend", "mode", "url", "extensions")  # the keys above the sections
TOP_LEVEL_TABLES: Final = ("context", "extension", "plugins")
BACKEND_SECTIONS: Final = (IN_TREE, "rocksmq", "kafka", "pulsar")
VARIABLE_PREFIX: Final = "MQPLUG_"

Scope = Literal["all", "sections", "plugins"]


@attrs.frozen
class Unset:
    """A placeholder for a reference to an unset variable, which is an error only if the value is needed."""

    variable: str


@attrs.frozen
class Given:
    """A value as it was given, with its human-readable ``source`` and its name in errors, ``place``.

    ``borrowed`` values belong to another program: connecting creates nothing there.
    """

    value: Any = attrs.field(repr=False)
    source: str
    place: str
    borrowed: bool = False


class Layer(Protocol):
    """One source of settings."""

    @property
    def source(self) -> str:
        """The human-readable name of the source."""
        ...

    def key(self, name: str) -> Given | None:
        """Return a key above the sections, such as ``backend``, ``mode`` or ``url``."""
        ...

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return a section, such as ``("kafka",)`` or ``("extension", "faults")``."""
        ...

    def backends(self) -> Iterable[str]:
        """Return the known backends that have a section."""
        ...

    def loose(self) -> Mapping[str, Given]:
        """Return the settings outside sections, which belong to the chosen backend."""
        ...


@attrs.frozen
class LeftAlone:
    """An unused key or section, and the reason."""

    key: str
    reason: str


@runtime_checkable
class ForeignLayer(Layer, Protocol):
    """The settings in another program's file."""

    def left_alone(self, chosen: str | None) -> Iterable[LeftAlone]:
        """Return each key without a meaning for mqplug, or for the chosen backend."""
        ...


def unset(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield the place of each missing variable in a value, and its name."""
    if isinstance(value, Unset):
        yield place, value.variable
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from unset(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from unset(inner, place)


def is_backend(name: str) -> bool:
    """Return whether a backend of this name is installed or published. Loads none."""
    return name == IN_TREE or name in PUBLISHED["backend"] or name in installed()


@attrs.frozen
class Document:
    """A layer of written settings. A ``file`` has only sections; other documents may have settings outside sections."""

    source: str
    content: Mapping[str, Any] = attrs.field(repr=False)
    file: bool = False
    tables: frozenset[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _tables_of(self.content), takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        complaints = [complaint for key, value in self.content.items() for complaint in self._check(key, value)]
        if complaints:
            raise config_error(complaints)

    def key(self, name: str) -> Given | None:
        """Return a key above the sections."""
        if name not in TOP_LEVEL_KEYS or self.content.get(name) is None:
            return None
        return Given(self.content[name], self.source, self._place(name))

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return a section."""
        if path[0] not in self.tables:
            return {}
        found: Any = self.content
        for name in path:
            found = found.get(name, {})
        return {key: Given(value, self.source, self._place(*path, key)) for key, value in found.items()}

    def backends(self) -> Iterable[str]:
        """Return the backends that have a section."""
        return [key for key in self.content if key in self.tables and key not in TOP_LEVEL_TABLES]

    def loose(self) -> Mapping[str, Given]:
        """Return the settings outside sections, which belong to the chosen backend."""
        return {
            key: Given(value, self.source, "")
            for key, value in self.content.items()
            if key not in TOP_LEVEL_KEYS and key not in self.tables
        }

    def _place(self, *path: str) -> str:
        dotted = ".".join(path)
        return f"{dotted} in {self.source}" if self.file else dotted

    def _check(self, key: Any, value: object) -> list[Complaint]:
        if not isinstance(key, str):
            return [Complaint(f"a key of {self.source} must be a string, not {type(key).__name__}")]
        if key in TOP_LEVEL_TABLES:
            return self._check_table(key, value)
        if key in TOP_LEVEL_KEYS or not self.file or key in self.tables:
            return []
        if is_backend(key):
            return [
                Complaint(f"{quoted(self._place(key))}: expected a table, not {type(value).__name__}", f"Write [{key}]")
            ]
        if isinstance(value, Mapping):
            sections = [*TOP_LEVEL_TABLES, *BACKEND_SECTIONS]
            return [Complaint(f"unknown section {quoted(self._place(key))}", nearest(key, sections))]
        fix = nearest(key, list(TOP_LEVEL_KEYS))
        stop = "" if fix.endswith("?") else "."
        return [
            Complaint(
                f"unknown key {quoted(self._place(key))}", f"{fix}{stop} Put a backend's settings into its section"
            )
        ]

    def _check_table(self, key: str, value: object) -> list[Complaint]:
        if not isinstance(value, Mapping):
            return [Complaint(f"{quoted(self._place(key))}: expected a table, not {type(value).__name__}")]
        if key == "plugins":
            return []
        return [
            Complaint(f"{quoted(self._place(key, str(name)))}: expected a table, not {type(inner).__name__}")
            for name, inner in value.items()
            if not isinstance(inner, Mapping)
        ]


def _tables_of(content: Mapping[str, Any]) -> frozenset[str]:
    held = [key for key, value in content.items() if isinstance(value, Mapping)]
    return frozenset(key for key in held if key in TOP_LEVEL_TABLES or is_backend(key))


@attrs.frozen
class Environment:
    """A layer of variables: ``MQPLUG_BACKEND``, ``MQPLUG_URL``, ``MQPLUG_KAFKA_SERVERS``. An empty one counts as unset.

    ``scope`` limits which are read; variables about plugins are always read.
    """

    variables: Mapping[str, str] = attrs.field(repr=False)
    scope: Scope = "all"
    source: str = "the environment"

    def key(self, name: str) -> Given | None:
        """Return a key above the sections."""
        return self._given(VARIABLE_PREFIX + name.upper()) if self.scope == "all" else None

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return a section."""
        if path == ("plugins",):
            found = {name: self._given(VARIABLE_PREFIX + name.upper()) for name in ("allow", "deny")}
            return {name: given for name, given in found.items() if given is not None}
        if self.scope == "plugins":
            return {}
        prefix = VARIABLE_PREFIX + "".join(f"{name}_" for name in path).upper().replace("-", "_")
        found = {name[len(prefix) :].lower(): self._given(name) for name in self.variables if name.startswith(prefix)}
        return {key: given for key, given in found.items() if key and given is not None}

    def backends(self) -> Iterable[str]:
        """Return nothing: the variables of a backend are known only when its section is read."""
        return ()

    def loose(self) -> Mapping[str, Given]:
        """Return nothing: each variable names its section."""
        return {}

    def _given(self, variable: str) -> Given | None:
        text = self.variables.get(variable)
        return Given(Text(text), variable, variable) if text else None

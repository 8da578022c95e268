"""Layers: the settings of each source, before they are interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import attrs

from mqplug._plugins.discovery import PUBLISHED, installed

IN_TREE: Final = "memory"
TOP_LEVEL_KEYS: Final = ("backend", "mode", "url", "extensions")  # the keys above the sections


@attrs.frozen
class Unset:
    """A placeholder for ``${NAME}`` without such a variable: an error only where the value is needed."""

    variable: str


@attrs.frozen
class Given:
    """A value as it was given, and where: ``source`` for people, ``place`` for its name in errors."""

    value: Any = attrs.field(repr=False)
    source: str
    place: str


class Layer(Protocol):
    """One source of settings."""

    @property
    def source(self) -> str:
        """The name of the source, for people."""
        ...

    def key(self, name: str) -> Given | None:
        """Return a key above the sections: ``backend``, ``mode``, ``url`` and so on."""
        ...

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return a section, ``("kafka",)`` or ``("extension", "faults")``."""
        ...

    def backends(self) -> Iterable[str]:
        """Return the backends that have a section, as far as it is known."""
        ...

    def loose(self) -> Mapping[str, Given]:
        """Return the settings outside of sections, which belong to whichever backend is chosen."""
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
    """Return whether there is a backend of this name, installed or published. Loads none."""
    return name == IN_TREE or name in PUBLISHED["backend"] or name in installed()

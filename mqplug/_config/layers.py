"""The protocol of layers, each the uninterpreted settings of one source, and the values in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from mqplug._plugins.discovery import PUBLISHED, installed

IN_TREE: Final = "memory"
TOP_LEVEL_KEYS: Final = ("backend", "mode", "url", "extensions")  # the keys above the sections


@attrs.frozen
class Unset:
    """A placeholder for a reference to a variable that is not set: an error only if the value is needed."""

    variable: str


@attrs.frozen
class Given:
    """A value as it was given, with its ``source`` for people and its name in errors, ``place``.

    ``borrowed`` values name what belongs to another program: connecting creates nothing there.
    """

    value: Any = attrs.field(repr=False)
    source: str
    place: str
    borrowed: bool = False


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
        """Return the backends that have a section, as far as they are known."""
        ...

    def loose(self) -> Mapping[str, Given]:
        """Return the settings outside of sections, which belong to the chosen backend."""
        ...


@attrs.frozen
class LeftAlone:
    """A key or a whole section that is not used, and the reason."""

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
    """Return whether a backend of this name is installed or published. Load none."""
    return name == IN_TREE or name in PUBLISHED["backend"] or name in installed()

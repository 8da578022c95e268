"""Layers: what each source says about the configuration, before anybody asks what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import attrs

from mqplug._plugins.discovery import PUBLISHED, installed

IN_TREE: Final = "memory"
TOP_LEVEL_KEYS: Final = ("backend", "mode", "url", "extensions")  # what stands above the sections


@attrs.frozen
class Unset:
    """What stands for ``${NAME}`` where there is no such variable: an error only for who needs the value."""

    variable: str


@attrs.frozen
class Given:
    """A value as it was given, and where: ``source`` for people, ``place`` is how an error calls it."""

    value: Any = attrs.field(repr=False)
    source: str
    place: str


class Layer(Protocol):
    """One source of settings."""

    @property
    def source(self) -> str:
        """What people call it."""
        ...

    def key(self, name: str) -> Given | None:
        """What it says at the top: ``backend``, ``mode``, ``url`` and so on."""
        ...

    def section(self, *path: str) -> Mapping[str, Given]:
        """What it says in a section, ``("kafka",)`` or ``("extension", "faults")``."""
        ...

    def backends(self) -> Iterable[str]:
        """The backends that have a section, as far as that can be told."""
        ...

    def loose(self) -> Mapping[str, Given]:
        """Settings of whichever backend is chosen."""
        ...


def unset(value: object, place: str) -> Iterator[tuple[str, str]]:
    """The place of each missing variable in a value, and its name."""
    if isinstance(value, Unset):
        yield place, value.variable
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from unset(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from unset(inner, place)


def is_backend(name: str) -> bool:
    """Whether there is a backend of this name, here or to be installed. Loads none."""
    return name == IN_TREE or name in PUBLISHED["backend"] or name in installed()

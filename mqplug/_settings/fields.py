"""The fields of a settings class: their types, defaults and marks, and the type of textual values."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs

_FACTORY: Final[Any] = type(attrs.Factory(list))


@attrs.frozen
class Field:
    """One setting. ``kind`` is its type without None."""

    name: str
    kind: Any
    required: bool
    default: Any
    secret: bool
    marked: bool
    creates: bool

    @property
    def nested(self) -> type[Any] | None:
        """The settings class that this field holds, or None."""
        return self.kind if isinstance(self.kind, type) and attrs.has(self.kind) else None


def fields_of(kind: type[Any]) -> Mapping[str, Field]:
    """Return the settings of a class, by name."""
    hints = typing.get_type_hints(kind)
    return {each.name: _field(each, hints[each.name]) for each in attrs.fields(kind) if each.init}


def address_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the settings that hold a backend's address.

    They are marked with ``metadata={"address": True}``. If none is marked, they are the settings without a default.
    """
    fields = fields_of(kind).values()
    marked = tuple(field.name for field in fields if field.marked)
    return marked or tuple(field.name for field in fields if field.required)


def _field(found: attrs.Attribute[Any], hint: Any) -> Field:
    default: Any = found.default
    if isinstance(default, _FACTORY):
        default = None if default.takes_self else default.factory()
    return Field(
        name=found.name,
        kind=_without_none(hint),
        required=found.default is attrs.NOTHING,
        default=None if default is attrs.NOTHING else default,
        secret=found.repr is False,
        marked=bool(found.metadata.get("address")),
        creates=bool(found.metadata.get("creates")),
    )


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else typing.Union[tuple(kinds)]  # noqa: UP007
    return hint


class Text(str):
    """A value from a source that has only text: a URL, a variable, or ``${…}`` in a file.

    It is converted to the setting's type.
    """

    __slots__ = ()

"""The JSON Schema of ``mqplug.toml``, made from the settings classes, for completion and checks in editors."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Any, Final

import attrs

from mqplug._config.configuration import CoreSettings, Plugins, TopLevel
from mqplug._settings.fields import Field, fields_of
from mqplug._settings.reading import is_function

Schema = dict[str, Any]

_PLAIN: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_REFERENCE: Final[Schema] = {"type": "string", "pattern": r"\$\{[^}]*\}"}
_SENTENCE: Final = re.compile(r"(?<=\.)\s+|;\s+")


def schema_of(backends: Mapping[str, type[Any]]) -> Schema:
    """Return the schema of a file with a section for each of these backends, by name and settings class."""
    extension = {"description": "The settings of each extension, by name.", "type": "object"}
    context = {
        "description": "Backends that the command line knows by name: `mqplug topics --context NAME`. Each has what a "
        "mapping for connect() has: a url, or a backend with its settings.",
        "type": "object",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mqplug.toml",
        "description": "Which backend mqplug uses, and with which settings.",
        "type": "object",
        "properties": {
            **_properties(TopLevel),
            "plugins": _table(Plugins),
            "context": {**context, "additionalProperties": {"type": "object"}},
            "extension": {**extension, "additionalProperties": {"type": "object"}},
            **{name: {"title": name, **_section(kind)} for name, kind in sorted(backends.items())},
        },
        "additionalProperties": False,
    }


def _section(kind: type[Any]) -> Schema:
    """Return the schema of a backend's section, with the settings that the core reads."""
    table = _table(kind)
    return {**table, "properties": {**table["properties"], **_properties(CoreSettings)}}


def _table(kind: type[Any]) -> Schema:
    return {
        "description": _text(kind).split("\n\n")[0].replace("``", "`").replace("\n", " "),
        "type": "object",
        "properties": _properties(kind),
        "additionalProperties": False,
    }


def _properties(kind: type[Any]) -> Schema:
    return {name: _property(kind, field) for name, field in fields_of(kind).items()}


def _property(kind: type[Any], field: Field) -> Schema:
    found = _value(field.kind)
    if found.get("type") not in {"string", "object"}:
        found = {"anyOf": [found, _REFERENCE]}  # a reference is converted to the setting's type
    description = _described(kind, field.name)
    if description:
        found = {"description": description, **found}
    if not field.secret and isinstance(field.default, bool | int | float | str):
        return {**found, "default": field.default}
    return found


def _value(kind: Any) -> Schema:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    if isinstance(kind, type) and attrs.has(kind):
        return _table(kind)
    if isinstance(kind, UnionType) or origin is typing.Union:
        kinds = [_value(each) for each in inner if each is not type(None) and not is_function(each)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _value(inner[1])}
    if origin in {list, tuple, set, frozenset}:
        return {"type": "array", "items": _value(inner[0])}
    return {"type": "string"} if isinstance(kind, type) else {}


def _described(kind: type[Any], name: str) -> str:
    """Return the sentences of the class's docstring that name a setting."""
    sentences = _SENTENCE.split(" ".join(_text(kind).split()))
    return " ".join(each.rstrip(".") + "." for each in sentences if f"``{name}``" in each).replace("``", "`")


def _text(kind: type[Any]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")

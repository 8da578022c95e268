"""A validator for the JSON Schema of ``mqplug.toml``, and the backends that it covers."""

from __future__ import annotations

import re
from typing import Any

from mqplug.introspection import inspect_plugins, settings_class

BACKENDS = ["kafka", "memory", "pulsar", "rocksmq"]


def complaints(schema: Any, value: Any, path: str = "$") -> list[str]:
    """Return a validator's complaints, for the part of JSON Schema that ours uses."""
    if "anyOf" in schema:
        found = [complaints(each, value, path) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [path]
    if not _is(schema.get("type"), value):
        return [path]
    if isinstance(value, str):
        return [] if re.search(schema.get("pattern", ""), value) else [path]
    if isinstance(value, list):
        inside = schema.get("items", {})
        return [each for index, item in enumerate(value) for each in complaints(inside, item, f"{path}[{index}]")]
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in _member(schema, key, inner, f"{path}.{key}")]
    return []


def _member(schema: Any, key: str, value: Any, path: str) -> list[str]:
    known = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    if key in known:
        return complaints(known[key], value, path)
    return complaints(more, value, path) if isinstance(more, dict) else [] if more else [path]


def _is(kind: str | None, value: Any) -> bool:
    kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}
    if kind is None or kind == "boolean":
        return kind is None or isinstance(value, bool)
    return isinstance(value, kinds[kind]) and not isinstance(value, bool)


def installed() -> dict[str, type[Any]]:
    """Return the settings class of each installed backend."""
    found = {plugin.name for plugin in inspect_plugins() if plugin.kind == "backend"}
    return {name: settings_class(name) for name in BACKENDS if name in found}

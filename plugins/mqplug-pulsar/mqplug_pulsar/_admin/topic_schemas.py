"""The schema that a topic is created with, or altered to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import mqplug
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused

OPTION = "schema"
KEYS = {"type", "schema", "properties"}


def schema_option(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the options of a topic, checked as far as possible without a broker."""
    if unknown := options.keys() - {OPTION}:
        raise mqplug.ConfigError(
            f"Pulsar topics have no option {min(unknown)!r}", fix=f"Leave it out: the only option is {OPTION!r}"
        )
    if OPTION not in options:
        return None
    given = options[OPTION]
    try:
        schema = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        schema = None
    if not isinstance(schema, Mapping) or not schema.keys() <= KEYS or not isinstance(schema.get("type"), str):
        raise mqplug.ConfigError(
            "the option schema is not a schema as pulsar-admin uploads it",
            fix='Write {"type": "AVRO", "schema": "...", "properties": {}}, as JSON or a mapping',
        )
    definition = schema.get("schema", "")
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return {"type": schema["type"], "schema": text, "properties": dict(schema.get("properties") or {})}


def upload_schema(admin: AdminInterface, full: str, schema: dict[str, Any], timeout: float) -> None:
    """Give a topic its first schema, or a new version of it."""
    path = "/".join(quote(part, safe="") for part in full.partition("://")[2].split("/", 2))
    try:
        admin.post(f"schemas/{path}/schema", schema, timeout)
    except AdminRefused as error:
        raise mqplug.ConfigError(
            f"Pulsar refuses the schema: {error.reason}", topic=full, fix="Correct the option schema"
        ) from error

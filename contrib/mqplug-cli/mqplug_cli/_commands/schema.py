"""``mqplug schema``: the JSON Schema of ``mqplug.toml``."""

from __future__ import annotations

import click

from mqplug_cli._output.formats import Output


@click.command()
def schema() -> None:
    """Print the JSON Schema of mqplug.toml.

    It has a section for each installed backend.

    Examples:
      $ mqplug schema > mqplug.schema.json
    """
    from mqplug.tools import inspect_plugins, schema_of, settings_class, sources

    rules = sources(None, {}).rules()
    names = [each.name for each in inspect_plugins(rules) if each.kind == "backend" and each.state == "ok"]
    Output("json").value(schema_of({name: settings_class(name, rules) for name in names}))

"""``mqplug schema``: the JSON Schema of ``mqplug.toml``."""

from __future__ import annotations

import click

from mqplug.cli._output.formats import Output


@click.command()
def schema() -> None:
    """Print the JSON Schema of mqplug.toml.

    It has a section for each installed backend.

    Examples:
      $ mqplug schema > mqplug.schema.json
    """
    from mqplug._config.plan import sources
    from mqplug._config.schema import schema_of
    from mqplug._plugins.backend import Backend
    from mqplug._plugins.discovery import load
    from mqplug._plugins.inspection import inspect_plugins

    rules = sources(None, {}).rules()
    names = [each.name for each in inspect_plugins(rules) if each.kind == "backend" and each.state == "ok"]
    Output("json").value(schema_of({name: Backend(name, load(name, rules)).descriptor.settings for name in names}))

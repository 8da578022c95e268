"""``mqplug plugins``: the installed plugins and their states."""

from __future__ import annotations

import click

from mqplug_cli._output.formats import Output, output_option

PLUGIN_COLUMNS = ("kind", "name", "distribution", "version", "api_version", "state", "reason")


@click.command()
@click.option("--check", is_flag=True, help="Exit with 1 if any plugin is not ok.")
@output_option
@click.pass_context
def plugins(context: click.Context, check: bool, output: Output) -> None:
    """List backends and extensions. Each is loaded; an error of one is shown as its reason, and hides no other.

    Examples:
      $ mqplug plugins
      $ mqplug plugins -o json
    """
    import attrs

    from mqplug.tools import inspect_plugins, sources

    found = inspect_plugins(sources(None, {}).rules())
    rows = [{**attrs.asdict(plugin), "reason": " ".join(plugin.reason.split())} for plugin in found]
    output.rows(PLUGIN_COLUMNS, rows)
    if check and any(plugin.state != "ok" for plugin in found):
        context.exit(1)

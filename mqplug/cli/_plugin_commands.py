"""The commands of mqplug: its own verbs, by theme, and ``mqplug NAME COMMAND`` of a plugin.

A plugin is loaded only when its name is typed.
"""

from __future__ import annotations

from itertools import chain

import click

from mqplug.cli._verbs import VERBS, verb_named


class CommandGroup(click.Group):
    """The verbs of mqplug. Any other word may be the name of an installed backend with commands of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs, for completion."""
        return sorted(chain.from_iterable(VERBS.values()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of this name, or the commands of the plugin of this name."""
        return verb_named(cmd_name) or plugin_commands(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, theme by theme."""
        width = max(map(len, chain.from_iterable(VERBS.values())))
        for theme, verbs in VERBS.items():
            with formatter.section(theme):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in verbs.items()])


def plugin_commands(name: str) -> click.Group | None:
    """Return the commands of the backend of this name, or None if it has none or is not installed."""
    from mqplug._plugins.discovery import installed, load
    from mqplug._plugins.hooks import Hooks

    if name not in installed():
        return None
    commands = list(chain.from_iterable(Hooks(name, load(name)).call.mqplug_commands()))
    if not commands:
        return None
    return click.Group(name, commands, help=f"Commands of the backend {name}.", short_help=f"Commands of {name}.")

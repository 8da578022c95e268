"""Commands of plugins: ``mqplug NAME COMMAND``. A plugin is loaded only when its name is typed."""

from __future__ import annotations

from itertools import chain

import click


class CommandGroup(click.Group):
    """The commands of mqplug. Any other word may be the name of an installed backend with commands of its own."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or the commands of the plugin of this name."""
        return super().get_command(ctx, cmd_name) or plugin_commands(cmd_name)


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

"""Commands that plugins bring: ``mqplug NAME COMMAND``. A plugin is loaded when its name is typed, and no other."""

from __future__ import annotations

from itertools import chain

import click


class CommandGroup(click.Group):
    """The verbs of mqplug. Any other word may be the name of an installed backend that brings commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name, or the commands of the plugin of this name."""
        return super().get_command(ctx, cmd_name) or plugin_commands(cmd_name)


def plugin_commands(name: str) -> click.Group | None:
    """What the backend of this name brings; None if there is no such backend, or it brings nothing."""
    from mqplug._plugins.discovery import installed, load
    from mqplug._plugins.hooks import Hooks

    if name not in installed():
        return None
    brought = list(chain.from_iterable(Hooks(name, load(name)).call.mqplug_commands()))
    if not brought:
        return None
    return click.Group(name, brought, help=f"Commands of the backend {name}.", short_help=f"Commands of {name}.")

"""The commands of mqplug: its own verbs, by theme, and ``mqplug NAME COMMAND`` of a plugin.

A plugin is loaded only when its name is typed.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain
from typing import Final

import click

from mqplug_cli._verbs import VERBS, verb_named

WORDS_OF_OTHERS: Final = {
    "brokers": "cluster", "cat": "consume", "config": "describe", "list": "topics", "ls": "topics", "nodes": "cluster",
    "publish": "produce", "reset": "seek", "send": "produce", "subscribe": "consume", "tail": "consume --follow",
}  # fmt: skip


class CommandGroup(click.Group):
    """The verbs of mqplug. Any other word may be the name of an installed backend with commands of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs, for completion."""
        return sorted(chain.from_iterable(VERBS.values()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of this name, or the commands of the plugin of this name."""
        return verb_named(cmd_name) or plugin_commands(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that is called. The error for an unknown one names the verb that it may mean."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            word = args[0].lower()
            near = get_close_matches(word, self.list_commands(ctx), 1)
            if meant := WORDS_OF_OTHERS.get(word) or next(iter(near), None):
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean 'mqplug {meant}'?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, theme by theme."""
        width = max(map(len, chain.from_iterable(VERBS.values())))
        for theme, verbs in VERBS.items():
            with formatter.section(theme):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in verbs.items()])


def plugin_commands(name: str) -> click.Group | None:
    """Return the commands of the backend of this name, or None if it has none or is not installed."""
    from mqplug.tools import commands_of

    commands = commands_of(name)
    if not commands:
        return None
    return click.Group(name, commands, help=f"Commands of the backend {name}.", short_help=f"Commands of {name}.")

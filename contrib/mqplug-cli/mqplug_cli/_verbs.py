"""The verbs by theme, with the first line of their help, and the commands of plugins: ``mqplug NAME COMMAND``.

A verb's module is loaded when the verb is called, a plugin when its name is typed. So ``mqplug --help`` loads none, and
stays fast however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from typing import Final

import click

VERBS: Final[Mapping[str, Mapping[str, str]]] = {
    "Look": {
        "caps": "Show the capabilities and limits of a backend.",
        "cluster": "Show the brokers of a cluster and their addresses.",
        "describe": "Show the settings and the partitions of a topic.",
        "doctor": "Show the configuration, and try to connect.",
        "groups": "List the groups with their number of members.",
        "lag": "Show how many messages a group has yet to read.",
        "offsets": "Show the position of a time in each partition.",
        "plugins": "List backends and extensions.",
        "state": "Show the positions and the members of a group.",
        "topics": "List the topics, one per line.",
        "watermarks": "Show the retained range of each partition.",
    },
    "Change": {
        "add-partitions": "Grow a topic to TOTAL partitions.",
        "alter": "Change the retention or the options of a topic.",
        "create": "Create a topic.",
        "delete": "Delete a topic with all its messages.",
        "delete-group": "Delete a group with its positions on all topics.",
        "seek": "Move a group to a place, on all of its topics.",
        "trim": "Remove the messages of a topic before a place.",
    },
    "Produce and consume": {
        "consume": "Write the messages of topics to standard output.",
        "produce": "Send the lines of standard input to a topic.",
    },
    "Measure": {
        "bench": "Measure throughput and latency.",
        "verify": "Check each message of a topic, or compare two topics.",
    },
    "Watch": {
        "top": "Watch topics and groups live, and change them.",
    },
    "Configure": {
        "completion": "Print a completion script for SHELL.",
        "context": "List, choose and show contexts.",
        "docs": "Print a PAGE of the documentation, or list the pages.",
        "schema": "Print the JSON Schema of mqplug.toml.",
    },
    "Prove": {
        "demo": "Exercise a log under faults, and check each message.",
        "test": "Run the contract kit on a backend.",
    },
}
_MODULES: Final = {  # verbs that share a module; every other verb has a module of its own name
    **dict.fromkeys(("caps", "cluster", "doctor", "plugins"), "backend"),
    **dict.fromkeys(("describe", "groups", "offsets", "state", "topics", "watermarks"), "look"),
    **dict.fromkeys(VERBS["Change"], "change"),
    **dict.fromkeys(VERBS["Configure"], "configure"),
    **dict.fromkeys(VERBS["Prove"], "prove"),
}
ENTRY_POINTS: Final = "mqplug.commands"
"""Packages that are no backends: a function that returns click commands, under the word after ``mqplug``."""
EXAMPLES: Final = "\n\nExamples:\n"  # the last part of a verb's help: lines `$ mqplug …`, which a test runs


def verb_named(name: str) -> click.Command | None:
    """Return the command of a verb: the function of its name, from its module."""
    if not any(name in verbs for verbs in VERBS.values()):
        return None
    module = import_module(f"mqplug_cli._commands.{_MODULES.get(name, name)}")
    command: click.Command = getattr(module, name.replace("-", "_"))
    _keep_example_lines(command)
    return command


def _keep_example_lines(command: click.Command) -> None:
    """Keep the line breaks of examples in the help of a command and its subcommands."""
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = cleandoc(each.help or "").replace(EXAMPLES, f"\n\n\b{EXAMPLES[1:]}")


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
        """Return the called verb. The error for an unknown one suggests a verb."""
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
    """Return the commands of the backend or the other package of this name, or None if there are none."""
    from importlib.metadata import entry_points

    from mqplug.introspection import commands_of

    if commands := commands_of(name):
        return click.Group(name, commands, help=f"Commands of the backend {name}.", short_help=f"Commands of {name}.")
    for point in entry_points(group=ENTRY_POINTS, name=name):
        return click.Group(name, point.load()(), help=f"Commands of {point.dist.name if point.dist else name}.")
    return None

"""The verbs by theme, with the first line of their help. A verb's module is loaded when it is called.

``mqplug --help`` thus loads none, and stays quick however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from typing import Final

import click

VERBS: Final[Mapping[str, Mapping[str, str]]] = {
    "Look": {
        "caps": "Show the capabilities of a backend, and its limits.",
        "cluster": "Show the brokers of a cluster, with their addresses.",
        "describe": "Show the settings and the partitions of a topic.",
        "doctor": "Show the configuration, and try to connect.",
        "groups": "List the groups with their number of members.",
        "lag": "Show by how many messages a group is behind.",
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
        "delete-group": "Delete a group: its positions on all topics.",
        "seek": "Move a group to a place, on all of its topics.",
        "trim": "Remove the messages of a topic before a place.",
    },
    "Produce and consume": {
        "consume": "Write the messages of topics to standard output.",
        "produce": "Send lines of standard input to a topic.",
    },
    "Measure": {
        "bench": "Time sending, receiving, and the way from send to receive.",
        "verify": "Check each message of a topic, or compare two topics.",
    },
    "Watch": {
        "top": "Watch topics, groups and rates, and change them.",
    },
    "Configure": {
        "completion": "Print a completion script for SHELL.",
        "context": "List the contexts, choose one, show what is chosen.",
        "docs": "Print a PAGE of the documentation, or list all.",
        "schema": "Print the JSON Schema of mqplug.toml.",
    },
    "Prove": {
        "demo": "Use a log under faults, and check each message.",
        "test": "Run the contract kit over a backend.",
    },
}
EXAMPLES: Final = "\n\nExamples:\n"  # the last part of a verb's help: lines `$ mqplug …`, which a test runs


def verb_named(name: str) -> click.Command | None:
    """Return the command of a verb, from the module and the function of its name."""
    if not any(name in verbs for verbs in VERBS.values()):
        return None
    word = name.replace("-", "_")
    command: click.Command = getattr(import_module(f"mqplug_cli._commands.{word}"), word)
    _keep_example_lines(command)
    return command


def _keep_example_lines(command: click.Command) -> None:
    """Keep the lines of the examples in a command's help, and in those of its subcommands, as they are written."""
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = cleandoc(each.help or "").replace(EXAMPLES, f"\n\n\b{EXAMPLES[1:]}")

"""Asks before something is destroyed."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from mqplug_cli._exit_codes import FAILED

SLICE_S: Final = 0.1


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes`` to a command. The function gets ``yes``."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(what: str, yes: bool) -> None:
    """Ask whether to do it, unless ``--yes`` was given. Without a terminal that is refused; a no ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}: this asks first, and there is no terminal to ask on. Add --yes")
    if not _agreed(what):
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(FAILED)


def _agreed(what: str) -> bool:
    """Ask until the answer is a yes or a no. The end of the input is a no."""
    while True:
        click.echo(f"{what}? [y/N]: ", nl=False, err=True)
        _wait_for_line()
        match sys.stdin.readline().strip(" ").lower():
            case "y\n" | "yes\n":
                return True
            case "n\n" | "no\n" | "\n":
                return False
            case "":
                click.echo(err=True)
                return False
            case _:
                click.echo("Answer y or n.", err=True)


def _wait_for_line() -> None:
    """Wait for a line of the terminal, in slices.

    A signal that comes just before Python begins to read is told only once it has read.
    """
    while not select.select([sys.stdin], [], [], SLICE_S)[0]:
        pass

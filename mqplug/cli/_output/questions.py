"""Asks before something is destroyed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from mqplug.cli._exit_codes import FAILED


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes`` to a command. The function gets ``yes``."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(what: str, yes: bool) -> None:
    """Ask whether to do it, unless ``--yes`` was given. Without a terminal that is refused; a no ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}: this asks first, and there is no terminal to ask on. Add --yes")
    if not click.confirm(f"{what}?", err=True):
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(FAILED)

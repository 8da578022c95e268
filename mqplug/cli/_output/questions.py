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
    if not _agreed(what):
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(FAILED)


def _agreed(what: str) -> bool:
    """Ask. The end of the input is a no; Ctrl-C and SIGTERM end the command as they do anywhere."""
    try:
        return click.confirm(f"{what}?", err=True)
    except click.Abort as ended:
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise ended.__context__ from None
        click.echo(err=True)
        return False

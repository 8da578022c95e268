"""Asks before something is destroyed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes`` to a command. The function gets ``yes``."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(what: str, yes: bool) -> None:
    """Ask whether to do it, unless ``--yes`` was given. Without a terminal that is refused; a no ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}: this asks first, and there is no terminal to ask on. Add --yes")
    click.confirm(f"{what}?", abort=True, err=True)

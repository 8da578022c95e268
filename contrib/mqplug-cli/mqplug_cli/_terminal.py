"""Terminal interaction besides the output: questions before destructive changes, and progress."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import click

from mqplug_cli._exit_codes import FAILED

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

SLICE_S: Final = 0.1


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes`` to a command. The function receives ``yes``."""
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def confirm(what: str, yes: bool) -> None:
    """Ask for confirmation, unless ``--yes`` was given. Without a terminal, refuse; a no ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}: this needs confirmation, and there is no terminal to ask on. Add --yes")
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
    """Wait for a line from the terminal, in slices.

    A signal that arrives just before Python begins to read is handled only after the read.
    """
    while not select.select([sys.stdin], [], [], SLICE_S)[0]:
        pass


QUIET_S: Final = 2.0
_REFRESH_S: Final = 0.2


class Progress:
    """The progress of some work. Nothing is shown if standard error is not a terminal."""

    def __init__(self, label: str, total: int | None, unit: str = "messages") -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._done = 0
        self._began = time.monotonic()
        self._next = self._began + QUIET_S if sys.stderr.isatty() else float("inf")
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._show()
            self._bar.stop()

    def advance(self, count: int = 1) -> None:
        """Count finished work."""
        self._done += count
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_S
            self._show()

    def _show(self) -> None:
        if self._bar is None:
            self._bar = self._begin()
        rate = self._done / (time.monotonic() - self._began)
        self._bar.update(self._bar.task_ids[0], completed=self._done, rate=f"{rate:,.0f}", refresh=True)

    def _begin(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn, TimeRemainingColumn

        bar = RichProgress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} " + self._unit),
            TextColumn("{task.fields[rate]}/s"), TimeRemainingColumn(),
            console=Console(stderr=True), auto_refresh=False, transient=True,
        )  # fmt: skip
        bar.add_task(self._label, total=self._total, rate="")
        bar.start()
        return bar

"""``mqplug top``: topics, groups and rates, live and full-screen."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._exit_codes import HUNG_UP, INTERRUPTED, TERMINATED

if TYPE_CHECKING:
    from mqplug_cli._top.app import TopApp

SHORTEST_INTERVAL_S: Final = 0.2
PICTURE_SIZE: Final = (110, 30)
LEAVE_S: Final = 3.0
_SIGNAL_CODES: Final[dict[int, int]] = {
    signal.SIGTERM: TERMINATED, signal.SIGINT: INTERRUPTED, signal.SIGHUP: HUNG_UP,
}  # fmt: skip


@click.command(cls=ClientCommand)
@client_options
@click.option(
    "--every", type=click.FloatRange(min=SHORTEST_INTERVAL_S), default=2, show_default=True, metavar="SECONDS",
    help="Query the backend this often.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Offer no changes.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the first screen to this file as SVG, and exit. Needs no terminal.",
)  # fmt: skip
def top(client: ClientOptions, every: float, read_only: bool, picture: Path | None) -> int:
    """Watch topics and groups live, and change them.

    \b
    Examples:
      $ mqplug top rocksmq:///tmp/mq  # on a terminal, until q is pressed
      $ mqplug top rocksmq:///tmp/mq --every 0.5 --picture top.svg
    """  # noqa: D301
    if picture is None:
        check_terminal()
    app_class = _app_class()
    from mqplug_cli._top.model import Subject

    with client.open() as mq:
        shown = " ".join(client.words) or mq.backend
        subject = Subject(mq, shown, client.words, client.timeout, read_only)
        app = app_class(subject, every)
        if picture is not None:
            picture.write_text(app.picture(get_terminal_size(PICTURE_SIZE)), encoding="utf-8")
            return 0
        code = run(app)
    if code == HUNG_UP:
        _forget_terminal()
    for line in app.commands:
        click.echo(line)
    return code


def check_terminal() -> None:
    """Refuse to run without a terminal that can be drawn on."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("top needs a terminal. In programs, use mqplug lag or mqplug watermarks with -o json")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise click.UsageError("top cannot draw on this terminal: TERM is not set, or dumb")


def _app_class() -> type[TopApp]:
    os.environ.setdefault("TEXTUAL_DISABLE_KITTY_KEY", "1")  # not every terminal ignores unknown sequences
    try:
        from mqplug_cli._top.app import TopApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise mqplug.ConfigError("mqplug top needs textual", fix="Run pip install 'mqplug[top]'") from None
    return TopApp


def run(app: TopApp) -> int:
    """Run the program on the terminal, and return its exit code. Raise the defect that ended it."""
    with ended_by_signals(app):
        code = app.run(mouse=False)
    if app.defect is not None:
        raise app.defect
    return 1 if code is None else code


def _forget_terminal() -> None:
    """Discard further output: the interpreter would exit with a code of its own if it cannot write."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        for output in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), output.fileno())


@contextmanager
def ended_by_signals(app: TopApp) -> Iterator[None]:
    """Exit on signals, and restore the terminal.

    If the terminal is gone, restoring it would wait forever: the process then ends after ``LEAVE_S``.
    """
    timers: list[Timer] = []

    def end(number: int, frame: FrameType | None) -> None:
        app.end_soon(_SIGNAL_CODES[number])
        timers.append(Timer(LEAVE_S, os._exit, (_SIGNAL_CODES[number],)))
        timers[-1].daemon = True
        timers[-1].start()

    before = {number: signal.signal(number, end) for number in _SIGNAL_CODES}
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)

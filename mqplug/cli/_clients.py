"""The options that the commands share, and a client that closes at once after a failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

import mqplug

CLOSE_AFTER_FAILURE_S = 0.5

url_argument = click.argument("url")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@contextmanager
def open_client(url: str, timeout: float = 30, *, creates: bool = False) -> Iterator[mqplug.Client]:
    """Open a client for the block. After a failure it is closed quickly, so that Ctrl-C ends the command.

    A command that only reads does not create a missing store: a misspelt path is an error, and leaves no trace.
    """
    from mqplug._config.targets import target_of  # not at `mqplug --help`

    client = mqplug.connect(target_of(url), timeout=timeout, must_exist=not creates)
    try:
        yield client
    except BaseException:
        with suppress(mqplug.Error):
            client.close(CLOSE_AFTER_FAILURE_S)
        raise
    client.close(timeout)

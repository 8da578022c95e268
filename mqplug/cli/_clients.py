"""What the verbs share: their options, and a client that lets go at once when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

import mqplug
from mqplug._client.connect import look
from mqplug._config.targets import target_of

HASTE = 0.5  # seconds for closing after a failure or Ctrl-C

url_argument = click.argument("url")
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), default=30, show_default=True, metavar="SECONDS", help="Give up after."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@contextmanager
def open_client(url: str, timeout: float = 30, *, creates: bool = False) -> Iterator[mqplug.Client]:
    """A client. After a failure it is closed in haste, so that Ctrl-C ends the command.

    A verb that only looks makes no store where none is: a misspelt path is an error, and leaves no trace.
    """
    connect = mqplug.connect if creates else look
    client = connect(target_of(url), timeout=timeout)
    try:
        yield client
    except BaseException:
        with suppress(mqplug.Error):
            client.close(HASTE)
        raise
    client.close(timeout)

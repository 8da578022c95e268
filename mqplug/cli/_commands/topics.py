"""``mqplug topics``: lists the topics of a backend."""

from __future__ import annotations

import click

from mqplug.cli._clients import json_option, open_client, timeout_option, url_argument
from mqplug.cli._tables import show_json


@click.command()
@url_argument
@timeout_option
@json_option
def topics(url: str, timeout: float, as_json: bool) -> None:
    """List the topics at URL, one per line."""
    with open_client(url, timeout) as mq:
        names = mq.topics(timeout=timeout)
    if as_json:
        show_json(names)
    else:
        click.echo("".join(f"{name}\n" for name in names), nl=False)

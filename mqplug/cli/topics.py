"""``mqplug topics``: what topics there are."""

from __future__ import annotations

import json

import click

from mqplug.cli._session import opened, output_option, timeout_option, url_argument


@click.command()
@url_argument
@timeout_option
@output_option
def topics(url: str, timeout: float, output: str) -> None:
    """List the topics at URL, one a line."""
    with opened(url, timeout) as mq:
        names = mq.topics(timeout=timeout)
    if output == "json":
        click.echo(json.dumps(names, indent=2))
    else:
        click.echo("".join(f"{name}\n" for name in names), nl=False)

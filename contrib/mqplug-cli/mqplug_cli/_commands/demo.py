"""``mqplug demo``: uses a log under faults, and prints a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from urllib.parse import quote

import click


@click.command()
@click.option("--url", help="Use another backend, as in kafka://host:9092, with a topic that is deleted afterwards.")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10, show_default=True, help="Approximate duration.")
@click.pass_context
def demo(context: click.Context, url: str | None, seconds: float) -> None:
    """Use a log under faults, and check each message.

    It sends, shares, acks, kills, reopens and seeks back, and counts the messages lost, repeated or out of order.
    Without --url it runs on RocksMQ in a temporary directory, without a server.

    Examples:
      $ mqplug demo --seconds 2
      $ mqplug demo --seconds 2 --url kafka://localhost:9092
    """
    from mqplug_cli._demo.demo_run import DemoRun

    with _demo_url(url) as demo_url:
        outcome = DemoRun(demo_url, seconds, click.echo).run()
    click.echo(str(outcome.findings))
    if outcome.findings.clean and not outcome.problems:
        click.echo("verdict     good: every acknowledged message was received once, and in order")
        return
    click.echo(f"verdict     FAILED: {'; '.join([str(outcome.findings), *outcome.problems])}")
    context.exit(1)


@contextmanager
def _demo_url(url: str | None) -> Iterator[str]:
    """Yield the URL, or that of a temporary store."""
    if url is not None:
        yield url
        return
    with TemporaryDirectory(prefix="mqplug-demo-", ignore_cleanup_errors=True) as directory:
        yield f"rocksmq://{quote(directory)}/store"

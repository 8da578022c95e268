"""``mqplug cluster``: shows the brokers of a cluster."""

from __future__ import annotations

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.tables import show_table


@click.command(cls=ClientCommand)
@client_options
@output_option
def cluster(client: ClientOptions, output: Output) -> None:
    """Show the brokers of a cluster, with their addresses.

    A backend without brokers, such as RocksMQ, has none to show.

    Examples:
      $ mqplug cluster kafka://localhost:9092
    """
    with client.open() as mq:
        backend = mq.backend
        try:
            found = mq.describe_cluster(timeout=client.timeout)
        except mqplug.Unsupported:
            if mq.capabilities.multi_node:
                raise
            found = mqplug.ClusterInfo("", ())
    rows = [{"name": each.name, "address": each.address} for each in found.brokers]
    if not output.for_people:
        output.value({"backend": backend, "cluster": found.name or None, "brokers": rows})
    elif not rows:
        click.echo(f"{client.place()} has no brokers")
    else:
        click.echo(f"{backend} cluster {found.name}\n")
        show_table(("name", "address"), rows)

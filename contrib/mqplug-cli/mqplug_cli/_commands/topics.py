"""``mqplug topics``: lists the topics of a backend."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option


@click.command(cls=ClientCommand)
@client_options
@output_option
def topics(client: ClientOptions, output: Output) -> None:
    """List the topics, one per line.

    Examples:
      $ mqplug topics rocksmq:///tmp/mq
    """
    with client.open() as mq:
        names = mq.topics(timeout=client.timeout)
    if output.for_people:
        click.echo("".join(f"{name}\n" for name in names), nl=False)
    else:
        output.value(names)

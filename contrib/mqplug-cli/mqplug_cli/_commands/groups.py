"""``mqplug groups``: lists the groups of a backend, or of a topic."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic", required=False)
@output_option
def groups(client: ClientOptions, topic: str | None, output: Output) -> None:
    """List the groups with their number of members.

    A group is listed if it has a position: on TOPIC, or on any topic. The number of members is empty where the backend
    does not report it.

    Examples:
      $ mqplug groups rocksmq:///tmp/mq
      $ mqplug groups rocksmq:///tmp/mq orders -o json
    """
    with client.open() as mq:
        found = mq.groups(topic, timeout=client.timeout)
    output.rows(("name", "members"), [{"name": each.name, "members": each.members} for each in found])

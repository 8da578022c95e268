"""``mqplug delete-group``: deletes a group."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.questions import confirm, yes_option


@click.command("delete-group", cls=ClientCommand)
@client_options
@click.argument("group")
@yes_option
@output_option
def delete_group(client: ClientOptions, group: str, yes: bool, output: Output) -> None:
    """Delete a group: its positions on all topics.

    It asks first, and says on which topics. While the group has members it is refused, and names them.

    Examples:
      $ mqplug delete-group rocksmq:///tmp/mq billing --yes
    """
    from mqplug_cli._queries.members import refuse_members

    with client.open() as mq:
        found = mq.describe_group(group, timeout=client.timeout)
        refuse_members(found)
        topics = ", ".join(found.topics) or "no topic"
        confirm(f"Delete the group {group} of {client.place()} with its positions on {topics}", yes)
        mq.delete_group(group, timeout=client.timeout)
    if output.for_people:
        click.echo(f"deleted {group}, which had positions on {topics}")
    else:
        output.value({"group": group, "topics": list(found.topics)})

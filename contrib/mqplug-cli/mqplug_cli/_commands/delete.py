"""``mqplug delete``: deletes a topic."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.questions import confirm, yes_option


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@yes_option
@output_option
def delete(client: ClientOptions, topic: str, yes: bool, output: Output) -> None:
    """Delete a topic with all its messages.

    It asks first, and says how many messages there are and which groups read them.

    Examples:
      $ mqplug delete rocksmq:///tmp/mq orders --yes
    """
    from mqplug_cli._queries.counting import stored

    with client.open() as mq:
        count = stored(mq, topic, client.timeout)
        groups = [each.name for each in mq.groups(topic, timeout=client.timeout)] if mq.capabilities.groups else []
        read_by = f", read by {', '.join(groups)}" if groups else ""
        confirm(f"Delete the topic {topic} of {client.place()} with {count}{read_by}", yes)
        mq.delete_topic(topic, timeout=client.timeout)
    if output.for_people:
        click.echo(f"deleted {topic} with {count}")
    else:
        output.value({"topic": topic, "messages": count.messages, "exact": count.exact, "groups": groups})

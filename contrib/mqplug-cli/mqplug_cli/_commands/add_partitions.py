"""``mqplug add-partitions``: grows a topic."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.topic_values import settings_text, topic_value


@click.command("add-partitions", cls=ClientCommand)
@client_options
@click.argument("topic")
@click.argument("total", type=click.IntRange(min=1))
@output_option
def add_partitions(client: ClientOptions, topic: str, total: int, output: Output) -> None:
    """Grow a topic to TOTAL partitions.

    Messages stay where they are. New messages of a key may go to another partition than earlier ones of that key.

    Examples:
      $ mqplug add-partitions rocksmq:///tmp/mq orders 4
    """
    with client.open() as mq:
        mq.add_partitions(topic, total, timeout=client.timeout)
        info = mq.describe(topic, timeout=client.timeout)
    if output.for_people:
        click.echo(f"grew {topic} of {client.place()}: {settings_text(info)}")
    else:
        output.value(topic_value(info))

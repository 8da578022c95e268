"""``mqplug create``: creates a topic."""

from __future__ import annotations

from typing import Any

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._arguments.topic_settings import topic_settings
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.topic_values import settings_text, topic_value


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("-p", "--partitions", type=click.IntRange(min=1), default=1, show_default=True, metavar="N")
@topic_settings
@click.option("--exist-ok", is_flag=True, help="Accept a topic that exists with the same settings.")
@output_option
def create(
    client: ClientOptions, topic: str, partitions: int, settings: dict[str, Any], exist_ok: bool, output: Output
) -> None:
    """Create a topic.

    Without --retention the backend's default applies. Options with -X are the backend's own, such as Kafka's
    configuration of topics.

    Examples:
      $ mqplug create rocksmq:///tmp/mq invoices --partitions 4 --retention 7d
      $ mqplug create rocksmq:///tmp/mq orders --partitions 2 --exist-ok
    """
    with client.open(creates=True) as mq:
        mq.create_topic(topic, partitions=partitions, exist_ok=exist_ok, timeout=client.timeout, **settings)
        info = mq.describe(topic, timeout=client.timeout)
    if output.for_people:
        click.echo(f"created {topic} of {client.place()}: {settings_text(info)}")
    else:
        output.value(topic_value(info))

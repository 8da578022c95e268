"""``mqplug alter``: changes the settings of a topic."""

from __future__ import annotations

from typing import Any

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._arguments.topic_settings import topic_settings
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.questions import confirm, yes_option
from mqplug_cli._output.topic_values import settings_text, topic_value


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@topic_settings
@yes_option
@output_option
def alter(client: ClientOptions, topic: str, settings: dict[str, Any], yes: bool, output: Output) -> None:
    """Change the retention or the options of a topic.

    What is not given stays as it is. Kafka takes each setting of a topic, as in --set min.insync.replicas=2. A shorter
    retention removes messages: then it asks first, and says how many.

    Examples:
      $ mqplug alter rocksmq:///tmp/mq orders --retention 30d --retention-bytes 10g --yes
      $ mqplug alter kafka://localhost:9092 orders --retention forever
    """
    from mqplug_cli._queries.shorter_retention import loss

    if not settings:
        raise click.UsageError("Give --retention, --retention-bytes or --set: there is nothing to change.")
    with client.open() as mq:
        lost = loss(mq, topic, settings, client.timeout)
        if lost is not None:
            confirm(f"Keep less of the topic {topic} of {client.place()}, which removes {lost}", yes)
        info = mq.alter_topic(topic, timeout=client.timeout, **settings)
    if output.for_people:
        click.echo(f"altered {topic} of {client.place()}: {settings_text(info)}")
    else:
        output.value(topic_value(info))

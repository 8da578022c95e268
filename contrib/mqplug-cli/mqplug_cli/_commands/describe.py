"""``mqplug describe``: shows a topic's settings and partitions."""

from __future__ import annotations

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text
from mqplug_cli._output.tables import TableRow, show_table
from mqplug_cli._output.topic_values import settings_text, topic_value


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@output_option
def describe(client: ClientOptions, topic: str, output: Output) -> None:
    """Show the settings and the partitions of a topic.

    Its options are those that are set for this topic, as alter --set changes them. Each partition has its retained
    range with the first and the last message. The ids can be given wherever a place in a log is wanted.

    Examples:
      $ mqplug describe rocksmq:///tmp/mq orders
      $ mqplug describe rocksmq:///tmp/mq orders -o json
    """
    with client.open() as mq:
        info = mq.describe(topic, timeout=client.timeout)
        marks = mq.watermarks(topic, timeout=client.timeout)
        bounds = mq.bounds(topic, timeout=client.timeout)
        groups = mq.groups(topic, timeout=client.timeout) if mq.capabilities.groups else []
    rows = [_row(log, marks[log.partition], bounds[log.partition]) for log in info.logs]
    names = [group.name for group in groups]
    if not output.for_people:
        output.value({**topic_value(info), "groups": names, "logs": rows})
        return
    click.echo(f"{info.name}: {settings_text(info)}")
    click.echo(f"groups: {', '.join(names) or 'none'}")
    if info.options:
        click.echo(f"options: {', '.join(f'{name}={value}' for name, value in info.options.items())}")
    click.echo()
    show_table(("partition", "low", "high", "messages", "exact", "first_id", "last_id"), rows)


def _row(log: mqplug.Log, marks: mqplug.Watermarks, bounds: mqplug.Bounds) -> TableRow:
    return {
        "partition": log.partition,
        "incarnation": log.incarnation,
        "low": position_text(marks.low),
        "high": position_text(marks.high),
        "messages": marks.count,
        "exact": marks.exact,
        "first_id": None if bounds.first_id is None else str(bounds.first_id),
        "last_id": None if bounds.last_id is None else str(bounds.last_id),
    }

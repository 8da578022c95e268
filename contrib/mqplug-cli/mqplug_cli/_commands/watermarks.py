"""``mqplug watermarks``: shows the retained range of each partition of a topic."""

from __future__ import annotations

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text
from mqplug_cli._output.tables import TableRow


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@output_option
def watermarks(client: ClientOptions, topic: str, output: Output) -> None:
    """Show the retained range of each partition.

    It extends from low up to, but not including, high.

    Examples:
      $ mqplug watermarks rocksmq:///tmp/mq orders
      $ mqplug watermarks rocksmq:///tmp/mq orders -o json
    """
    with client.open() as mq:
        found = mq.watermarks(topic, timeout=client.timeout)
    rows = [_row(partition, marks) for partition, marks in sorted(found.items())]
    output.rows(("partition", "low", "high", "messages", "exact"), rows)


def _row(partition: int, marks: mqplug.Watermarks) -> TableRow:
    return {
        "partition": partition,
        "low": position_text(marks.low),
        "high": position_text(marks.high),
        "messages": marks.count,
        "exact": marks.exact,
    }

"""``mqplug offsets``: shows where a time is in each partition of a topic."""

from __future__ import annotations

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._arguments.places import Moment
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("--at", type=Moment(), required=True, metavar="TIME", help="2026-01-31T12:00, or -10m: that long ago.")
@output_option
def offsets(client: ClientOptions, topic: str, at: mqplug.Start, output: Output) -> None:
    """Show the position of a time in each partition.

    It is that of the first message stored at this time or later, with the number of messages from there to the end. The
    place, which -o json prints too, can be given wherever a place in a log is wanted.

    Examples:
      $ mqplug offsets rocksmq:///tmp/mq orders --at -1h
      $ mqplug offsets rocksmq:///tmp/mq orders --at 2026-01-31T12:00 -o json
    """
    from mqplug_cli._queries.counting import between

    rows = []
    with client.open() as mq:
        marks = mq.watermarks(topic, timeout=client.timeout)
        for partition, position in sorted(mq.resolve(topic, at, timeout=client.timeout).items()):
            range_ = marks[partition]
            count = between(mq, position, range_.high, range_, client.timeout)
            rows.append(
                {"partition": partition, "position": position_text(position), "high": position_text(range_.high),
                 "messages": count.messages, "exact": count.exact, "place": str(position)}
            )  # fmt: skip
    columns = ("partition", "position", "high", "messages", "exact")
    output.rows(columns if output.for_people else (*columns, "place"), rows)

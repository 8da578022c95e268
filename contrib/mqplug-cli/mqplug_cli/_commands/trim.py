"""``mqplug trim``: removes the messages of a topic before a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._arguments.places import OFFSET_HELP, PLACES_HELP, Offset, Place
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text
from mqplug_cli._output.questions import confirm, yes_option
from mqplug_cli._output.tables import TableRow

if TYPE_CHECKING:
    from mqplug_cli._queries.trimming import Removal

COLUMNS = ("partition", "from", "to", "messages", "exact")


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option(
    "--before", type=Place(offsets=True), required=True, metavar="PLACE", help=f"{PLACES_HELP}, {OFFSET_HELP}."
)
@click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, metavar="N", help="Only this. May be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@yes_option
@output_option
def trim(
    client: ClientOptions,
    topic: str,
    before: mqplug.Start | Offset,
    partitions: tuple[int, ...],
    dry_run: bool,
    yes: bool,
    output: Output,
) -> None:
    """Remove the messages of a topic before a place.

    It asks first, and says how many.

    Examples:
      $ mqplug trim rocksmq:///tmp/mq orders --before @-30d --dry-run
      $ mqplug trim rocksmq:///tmp/mq orders --before -10 --yes
    """
    from mqplug_cli._queries.counting import total
    from mqplug_cli._queries.trimming import removals

    with client.open() as mq:
        if isinstance(before, Offset):
            before = before.position(mq, [topic], partitions, client.timeout)
        found = removals(mq, topic, before, partitions, client.timeout)
        rows = [_row(each) for each in found]
        if dry_run:
            output.rows(COLUMNS, rows)
            return
        lost = total(each.messages for each in found)
        confirm(f"Remove {lost} from the topic {topic} of {client.place()}", yes)
        mq.trim(topic, {each.partition: each.until for each in found}, timeout=client.timeout)
    if output.for_people:
        click.echo(f"removed {lost} from {topic}")
    else:
        output.rows(COLUMNS, rows)


def _row(removal: Removal) -> TableRow:
    return {
        "partition": removal.partition,
        "from": position_text(removal.start),
        "to": position_text(removal.until),
        "messages": removal.messages.messages,
        "exact": removal.messages.exact,
    }

"""``mqplug trim``: removes the messages of a topic before a place."""

from __future__ import annotations

import click

import mqplug
from mqplug.cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug.cli._arguments.places import PLACES_HELP, Place
from mqplug.cli._output.formats import Output, output_option
from mqplug.cli._output.positions import position_text
from mqplug.cli._output.questions import confirm, yes_option

COLUMNS = ("partition", "from", "to", "messages", "exact")


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("--before", type=Place(), required=True, metavar="PLACE", help=f"{PLACES_HELP}.")
@click.option("--partition", "partitions", type=int, multiple=True, metavar="N", help="Only this. May be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@yes_option
@output_option
def trim(
    client: ClientOptions,
    topic: str,
    before: mqplug.Start,
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
    from mqplug.cli._queries.counting import between, total

    with client.open() as mq:
        wanted = mq.resolve(topic, before, partitions=partitions or None, missing="next", timeout=client.timeout)
        marks = mq.watermarks(topic, timeout=client.timeout)
        counts = {each: between(mq, marks[each].low, at, marks[each], client.timeout) for each, at in wanted.items()}
        rows = [
            {"partition": each, "from": position_text(marks[each].low), "to": position_text(at),
             "messages": counts[each].messages, "exact": counts[each].exact}
            for each, at in sorted(wanted.items())
        ]  # fmt: skip
        if dry_run:
            output.rows(COLUMNS, rows)
            return
        lost = total(counts.values())
        confirm(f"Remove {lost} from the topic {topic} of {client.place()}", yes)
        mq.trim(topic, wanted, timeout=client.timeout)
    if output.for_people:
        click.echo(f"removed {lost} from {topic}")
    else:
        output.rows(COLUMNS, rows)

"""``mqplug seek``: moves a group to a place in its topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._arguments.places import PLACES_HELP, Place
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text
from mqplug_cli._output.questions import confirm, yes_option
from mqplug_cli._output.tables import TableRow

if TYPE_CHECKING:
    from mqplug_cli._queries.seeking import Missing, Move

COLUMNS = ("topic", "partition", "from", "to", "again", "passed", "exact")


@click.command(cls=ClientCommand)
@client_options
@click.argument("group")
@click.option("--to", type=Place(), required=True, metavar="PLACE", help=f"{PLACES_HELP}.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only on this topic. May be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and move nothing.")
@click.option(
    "--missing",
    type=click.Choice(["error", "next"]),
    default="error",
    show_default=True,
    help="If retention removed the place: an error, or the first message that there is.",
)
@click.option("--create", is_flag=True, help="Create the group if there is none, on the topics of --topic.")
@yes_option
@output_option
def seek(
    client: ClientOptions,
    group: str,
    to: mqplug.Start,
    topics: tuple[str, ...],
    dry_run: bool,
    missing: Missing,
    create: bool,
    yes: bool,
    output: Output,
) -> None:
    """Move a group to a place, on all of its topics.

    For each partition it shows from where to where, how many messages come again, and how many are passed over; then it
    asks. The numbers are estimates where they are not exact. While the group has members it is refused, and names them.

    Examples:
      $ mqplug seek rocksmq:///tmp/mq billing --to @-1h --dry-run
      $ mqplug seek rocksmq:///tmp/mq billing --to earliest --topic orders --yes
    """
    from mqplug_cli._queries.members import refuse_members
    from mqplug_cli._queries.seeking import moves, summary, topics_to_seek

    if create and not topics:
        raise click.UsageError("--create needs --topic.")
    with client.open() as mq:
        known = _known(mq, group, client.timeout, missing_ok=create)
        names = topics or topics_to_seek(known, to)
        planned = list(moves(mq, group, to, names, missing, client.timeout))
        rows = [_row(each) for each in planned]
        if dry_run or output.for_people:
            output.rows(COLUMNS, rows)
        refuse_members(known)
        if dry_run:
            return
        confirm(f"Move the group {group} of {client.place()}: {summary(planned)}", yes)
        for done, topic in enumerate(names):
            with _telling(group, names[:done]):
                mq.reset_group(group, topic, to, missing=missing, must_exist=not create, timeout=client.timeout)
    if output.for_people:
        click.echo(f"moved {group} on {', '.join(names)}")
    else:
        output.rows(COLUMNS, rows)


@contextmanager
def _telling(group: str, done: Sequence[str]) -> Iterator[None]:
    """If the block fails, say on which topics the group was moved before."""
    try:
        yield
    except BaseException:
        if done:
            click.echo(f"moved {group} on {', '.join(done)} before", err=True)
        raise


def _known(mq: mqplug.Client, group: str, timeout: float, *, missing_ok: bool) -> mqplug.GroupDescription:
    try:
        return mq.describe_group(group, timeout=timeout)
    except mqplug.GroupNotFound:
        if missing_ok:
            return mqplug.GroupDescription(group, ())
        raise


def _row(move: Move) -> TableRow:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "from": position_text(move.start),
        "to": position_text(move.until),
        "again": move.again,
        "passed": move.passed,
        "exact": move.exact,
    }

"""Changes of topics and groups. Destructive verbs say what would be lost, and ask first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output import Output, TableRow, output_option, position_text, settings_text, topic_value
from mqplug_cli._places import OFFSET_HELP, PLACES_HELP, Offset, Place
from mqplug_cli._terminal import confirm, yes_option
from mqplug_cli._topic_settings import topic_settings

if TYPE_CHECKING:
    from mqplug_cli._effects import Missing, Move, Removal


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Number of partitions.",
)  # fmt: skip
@topic_settings
@click.option("--exist-ok", is_flag=True, help="Succeed if the topic exists with the same settings.")
@output_option
def create(
    client: ClientOptions, topic: str, partitions: int, settings: dict[str, Any], exist_ok: bool, output: Output
) -> None:
    """Create a topic.

    Without --retention, the backend's default applies. -X sets the backend's own options, such as Kafka's topic
    configuration.

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


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@topic_settings
@yes_option
@output_option
def alter(client: ClientOptions, topic: str, settings: dict[str, Any], yes: bool, output: Output) -> None:
    """Change the retention or the options of a topic.

    Settings that are not given stay as they are. Kafka takes any topic setting, as in --set min.insync.replicas=2. If a
    shorter retention removes messages, alter says how many and asks first.

    Examples:
      $ mqplug alter rocksmq:///tmp/mq orders --retention 30d --retention-bytes 10g --yes
      $ mqplug alter kafka://localhost:9092 orders --retention forever
    """
    from mqplug_cli._effects import loss

    if not settings:
        raise click.UsageError("Nothing to change. Give --retention, --retention-bytes or --set.")
    with client.open() as mq:
        lost = loss(mq, topic, settings, client.timeout)
        if lost is not None:
            confirm(f"Shorten the retention of the topic {topic} of {client.place()}, which removes {lost}", yes)
        info = mq.alter_topic(topic, timeout=client.timeout, **settings)
    if output.for_people:
        click.echo(f"altered {topic} of {client.place()}: {settings_text(info)}")
    else:
        output.value(topic_value(info))


@click.command("add-partitions", cls=ClientCommand)
@client_options
@click.argument("topic")
@click.argument("total", type=click.IntRange(min=1))
@output_option
def add_partitions(client: ClientOptions, topic: str, total: int, output: Output) -> None:
    """Grow a topic to TOTAL partitions.

    Stored messages stay where they are. New messages of a key may go to a different partition than earlier ones.

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


REMOVAL_COLUMNS = ("partition", "from", "to", "messages", "exact")


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option(
    "--before", type=Place(offsets=True), required=True, metavar="PLACE", help=f"{PLACES_HELP}, {OFFSET_HELP}."
)
@click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, metavar="N",
    help="Only this partition. May be repeated.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be removed without removing it.")
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

    It says how many messages would be removed, and asks first.

    Examples:
      $ mqplug trim rocksmq:///tmp/mq orders --before @-30d --dry-run
      $ mqplug trim rocksmq:///tmp/mq orders --before -10 --yes
    """
    from mqplug_cli._effects import removals, total

    with client.open() as mq:
        if isinstance(before, Offset):
            before = before.position(mq, [topic], partitions, client.timeout)
        found = removals(mq, topic, before, partitions, client.timeout)
        rows = [_removal_row(each) for each in found]
        if dry_run:
            output.rows(REMOVAL_COLUMNS, rows)
            return
        lost = total(each.messages for each in found)
        confirm(f"Remove {lost} from the topic {topic} of {client.place()}", yes)
        mq.trim(topic, {each.partition: each.until for each in found}, timeout=client.timeout)
    if output.for_people:
        click.echo(f"removed {lost} from {topic}")
    else:
        output.rows(REMOVAL_COLUMNS, rows)


def _removal_row(removal: Removal) -> TableRow:
    return {
        "partition": removal.partition,
        "from": position_text(removal.start),
        "to": position_text(removal.until),
        "messages": removal.messages.messages,
        "exact": removal.messages.exact,
    }


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@yes_option
@output_option
def delete(client: ClientOptions, topic: str, yes: bool, output: Output) -> None:
    """Delete a topic with all its messages.

    It says how many messages the topic has and which groups read it, and asks first.

    Examples:
      $ mqplug delete rocksmq:///tmp/mq orders --yes
    """
    from mqplug_cli._effects import stored

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


MOVE_COLUMNS = ("topic", "partition", "from", "to", "again", "passed", "exact")


@click.command(cls=ClientCommand)
@client_options
@click.argument("group")
@click.option("--to", type=Place(), required=True, metavar="PLACE", help=f"{PLACES_HELP}.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only on this topic. May be repeated.")
@click.option("--dry-run", is_flag=True, help="Show the moves without making them.")
@click.option(
    "--missing",
    type=click.Choice(["error", "next"]),
    default="error",
    show_default=True,
    help="If retention has removed the place: fail, or use the first retained message.",
)
@click.option("--create", is_flag=True, help="Create the group on the topics of --topic if it does not exist.")
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

    It shows for each partition the old and the new position, how many messages come again, and how many are passed
    over; then it asks. Where "exact" is "no", the numbers are estimates. A group with members is not moved; the error
    names them.

    Examples:
      $ mqplug seek rocksmq:///tmp/mq billing --to @-1h --dry-run
      $ mqplug seek rocksmq:///tmp/mq billing --to earliest --topic orders --yes
    """
    from mqplug_cli._effects import moves, summary, topics_to_seek

    if create and not topics:
        raise click.UsageError("--create needs --topic.")
    with client.open() as mq:
        known = _known(mq, group, client.timeout, missing_ok=create)
        names = topics or topics_to_seek(known, to)
        planned = list(moves(mq, group, to, names, missing, client.timeout))
        rows = [_move_row(each) for each in planned]
        if dry_run or output.for_people:
            output.rows(MOVE_COLUMNS, rows)
        refuse_members(known)
        if dry_run:
            return
        confirm(f"Move the group {group} of {client.place()}: {summary(planned)}", yes)
        for done, topic in enumerate(names):
            with _reporting_moves(group, names[:done]):
                mq.reset_group(group, topic, to, missing=missing, must_exist=not create, timeout=client.timeout)
    if output.for_people:
        click.echo(f"moved {group} on {', '.join(names)}")
    else:
        output.rows(MOVE_COLUMNS, rows)


@contextmanager
def _reporting_moves(group: str, done: Sequence[str]) -> Iterator[None]:
    """If the block fails, report the topics on which the group was already moved."""
    try:
        yield
    except BaseException:
        if done:
            click.echo(f"moved {group} only on {', '.join(done)}", err=True)
        raise


def _known(mq: mqplug.Client, group: str, timeout: float, *, missing_ok: bool) -> mqplug.GroupDescription:
    try:
        return mq.describe_group(group, timeout=timeout)
    except mqplug.GroupNotFound:
        if missing_ok:
            return mqplug.GroupDescription(group, ())
        raise


def _move_row(move: Move) -> TableRow:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "from": position_text(move.start),
        "to": position_text(move.until),
        "again": move.again,
        "passed": move.passed,
        "exact": move.exact,
    }


@click.command("delete-group", cls=ClientCommand)
@client_options
@click.argument("group")
@yes_option
@output_option
def delete_group(client: ClientOptions, group: str, yes: bool, output: Output) -> None:
    """Delete a group with its positions on all topics.

    It says on which topics the group has positions, and asks first. A group with members is not deleted; the error
    names them.

    Examples:
      $ mqplug delete-group rocksmq:///tmp/mq billing --yes
    """
    with client.open() as mq:
        found = mq.describe_group(group, timeout=client.timeout)
        refuse_members(found)
        topics = ", ".join(found.topics) or "no topic"
        confirm(f"Delete the group {group} of {client.place()} with its positions on {topics}", yes)
        mq.delete_group(group, timeout=client.timeout)
    if output.for_people:
        click.echo(f"deleted {group}, which had positions on {topics}")
    else:
        output.value({"group": group, "topics": list(found.topics)})


def refuse_members(group: mqplug.GroupDescription) -> None:
    """Raise ``ConsumerBusy`` with the names of the members if there are any, before prompting the user."""
    if group.members:
        names = ", ".join(map(str, group.members))
        raise mqplug.ConsumerBusy(
            f"the group {group.name!r} has members: {names}", fix="Close the consumers of the group first"
        )

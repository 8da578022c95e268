"""``mqplug topics``, ``describe``, ``watermarks`` and ``offsets`` of topics, ``groups`` and ``state`` of groups."""

from __future__ import annotations

from typing import Any

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output import Output, TableRow, output_option, position_text, settings_text, show_table, topic_value
from mqplug_cli._places import Moment


@click.command(cls=ClientCommand)
@client_options
@output_option
def topics(client: ClientOptions, output: Output) -> None:
    """List the topics, one per line.

    Examples:
      $ mqplug topics rocksmq:///tmp/mq
    """
    with client.open() as mq:
        names = mq.topics(timeout=client.timeout)
    if output.for_people:
        click.echo("".join(f"{name}\n" for name in names), nl=False)
    else:
        output.value(names)


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@output_option
def describe(client: ClientOptions, topic: str, output: Output) -> None:
    """Show the settings and the partitions of a topic.

    The options are those set for this topic; alter --set changes them. Each partition is shown with its retained range
    and the ids of its first and last message. Other verbs take these ids as places in a log.

    Examples:
      $ mqplug describe rocksmq:///tmp/mq orders
      $ mqplug describe rocksmq:///tmp/mq orders -o json
    """
    with client.open() as mq:
        info = mq.describe(topic, timeout=client.timeout)
        marks = mq.watermarks(topic, timeout=client.timeout)
        bounds = mq.bounds(topic, timeout=client.timeout)
        groups = mq.groups(topic, timeout=client.timeout) if mq.capabilities.groups else []
    rows = [_log_row(log, marks[log.partition], bounds[log.partition]) for log in info.logs]
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


def _log_row(log: mqplug.Log, marks: mqplug.Watermarks, bounds: mqplug.Bounds) -> TableRow:
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
    rows = [_range_row(partition, marks) for partition, marks in sorted(found.items())]
    output.rows(("partition", "low", "high", "messages", "exact"), rows)


def _range_row(partition: int, marks: mqplug.Watermarks) -> TableRow:
    return {
        "partition": partition,
        "low": position_text(marks.low),
        "high": position_text(marks.high),
        "messages": marks.count,
        "exact": marks.exact,
    }


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("--at", type=Moment(), required=True, metavar="TIME", help="2026-01-31T12:00, or -10m: ten minutes ago.")
@output_option
def offsets(client: ClientOptions, topic: str, at: mqplug.Start, output: Output) -> None:
    """Show the position of a time in each partition.

    It is the position of the first message stored at this time or later, with the number of messages from there to the
    end. -o json also prints it as a place in a log, which other verbs take.

    Examples:
      $ mqplug offsets rocksmq:///tmp/mq orders --at -1h
      $ mqplug offsets rocksmq:///tmp/mq orders --at 2026-01-31T12:00 -o json
    """
    from mqplug_cli._effects import between

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


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic", required=False)
@output_option
def groups(client: ClientOptions, topic: str | None, output: Output) -> None:
    """List the groups with their number of members.

    A group is listed if it has a position on TOPIC, or without TOPIC, on any topic. The number of members is empty if
    the backend does not report it.

    Examples:
      $ mqplug groups rocksmq:///tmp/mq
      $ mqplug groups rocksmq:///tmp/mq orders -o json
    """
    with client.open() as mq:
        found = mq.groups(topic, timeout=client.timeout)
    output.rows(("name", "members"), [{"name": each.name, "members": each.members} for each in found])


MOST_RANGES_SHOWN = 5


@click.command(cls=ClientCommand)
@client_options
@click.argument("group")
@output_option
def state(client: ClientOptions, group: str, output: Output) -> None:
    """Show the positions and the members of a group.

    All messages before the position are acked, and so are the ranges after it. Members are shown with their names at
    the backend, their hosts and their partitions, as far as the backend reports them.

    Examples:
      $ mqplug state rocksmq:///tmp/mq billing
      $ mqplug state rocksmq:///tmp/mq billing -o json
    """
    with client.open() as mq:
        found = mq.describe_group(group, timeout=client.timeout)
        rows = [row for topic in found.topics for row in _position_rows(mq, group, topic, client.timeout)]
    members = None if found.members is None else [_member(each) for each in found.members]
    if output.for_people:
        _show_state(rows, members)
    else:
        output.value({"group": group, "topics": list(found.topics), "positions": rows, "members": members})


def _position_rows(mq: mqplug.Client, group: str, topic: str, timeout: float) -> list[dict[str, Any]]:
    """Return the positions in a topic; none if it has been deleted."""
    from mqplug_cli._effects import positions

    try:
        found = positions(mq, group, topic, timeout)
    except mqplug.TopicNotFound:
        return []
    return [
        {"topic": topic, "partition": partition, "position": position_text(at.position), "acked": _ranges(at)}
        for partition, at in sorted(found.items())
    ]


def _ranges(at: mqplug.GroupPosition) -> list[list[str]]:
    return [[":".join(map(str, first)), ":".join(map(str, last))] for first, last in at.acked]


def _member(member: mqplug.GroupMember) -> dict[str, Any]:
    logs = member.logs
    holds = None if logs is None else [{"topic": log.topic, "partition": log.partition} for log in logs]
    return {"name": member.name, "host": member.host, "holds": holds}


def _show_state(rows: list[dict[str, Any]], members: list[dict[str, Any]] | None) -> None:
    show_table(
        ("topic", "partition", "position", "acked after it"),
        [{**row, "acked after it": _ranges_text(row["acked"])} for row in rows],
    )
    click.echo()
    if not members:
        click.echo("members: not reported" if members is None else "no members")
        return
    show_table(
        ("member", "host", "holds"), [{**each, "member": each["name"], "holds": _held(each)} for each in members]
    )


def _ranges_text(ranges: list[list[str]]) -> str:
    texts = [first if first == last else f"{first}-{last}" for first, last in ranges]
    more = len(texts) - MOST_RANGES_SHOWN
    return ", ".join(texts[:MOST_RANGES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _held(member: dict[str, Any]) -> str:
    if member["holds"] is None:
        return "not reported"
    by_topic: dict[str, list[str]] = {}
    for log in member["holds"]:
        by_topic.setdefault(log["topic"], []).append(str(log["partition"]))
    return ", ".join(f"{topic} {' '.join(numbers)}" for topic, numbers in by_topic.items())

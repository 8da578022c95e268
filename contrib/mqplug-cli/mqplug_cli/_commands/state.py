"""``mqplug state``: shows a group's positions and members."""

from __future__ import annotations

from typing import Any

import click

import mqplug
from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.positions import position_text
from mqplug_cli._output.tables import show_table

MOST_RANGES_SHOWN = 5


@click.command(cls=ClientCommand)
@client_options
@click.argument("group")
@output_option
def state(client: ClientOptions, group: str, output: Output) -> None:
    """Show the positions and the members of a group.

    All before the position is acked, and so are the ranges behind it. Members have their names at the backend, their
    hosts, and the partitions that they hold, as far as the backend reports them.

    Examples:
      $ mqplug state rocksmq:///tmp/mq billing
      $ mqplug state rocksmq:///tmp/mq billing -o json
    """
    with client.open() as mq:
        found = mq.describe_group(group, timeout=client.timeout)
        rows = [row for topic in found.topics for row in _rows(mq, group, topic, client.timeout)]
    members = None if found.members is None else [_member(each) for each in found.members]
    if output.for_people:
        _show(rows, members)
    else:
        output.value({"group": group, "topics": list(found.topics), "positions": rows, "members": members})


def _rows(mq: mqplug.Client, group: str, topic: str, timeout: float) -> list[dict[str, Any]]:
    """Return the positions in a topic; none if it was deleted meanwhile."""
    from mqplug_cli._queries.group_positions import positions

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


def _show(rows: list[dict[str, Any]], members: list[dict[str, Any]] | None) -> None:
    show_table(
        ("topic", "partition", "position", "acked behind it"),
        [{**row, "acked behind it": _ranges_text(row["acked"])} for row in rows],
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

"""``mqplug lag``: shows the lag of groups once, repeatedly, or as a check for cron."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._effects import positions
from mqplug_cli._exit_codes import BEHIND
from mqplug_cli._output import Output, output_option, position_text
from mqplug_cli._places import duration_option

if TYPE_CHECKING:
    Positions = Mapping[int, mqplug.GroupPosition]

COLUMNS = ("group", "topic", "partition", "position", "high", "lag")


@click.command(cls=ClientCommand)
@client_options
@click.argument("group", required=False)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic. May be repeated.")
@click.option("--all", "every", is_flag=True, help="Show all groups.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value="2s",
    callback=duration_option,
    metavar="TIME",
    help="Repeat every 2 seconds, or every TIME, until Ctrl-C.",
)
@click.option(
    "--max", "most", type=click.IntRange(min=0), metavar="N", help="Exit with 3 if a group lags by more than N."
)
@output_option
def lag(
    client: ClientOptions,
    group: str | None,
    topics: tuple[str, ...],
    every: bool,
    watch: float | None,
    most: int | None,
    output: Output,
) -> int:
    """Show how many messages a group has yet to read.

    The lag of each partition is the backend's estimate; it is 0 only if there is nothing to read. With --max N, it is a
    check for cron or a monitor: it prints one line, and exits with 3 if a group lags by more than N.

    Examples:
      $ mqplug lag rocksmq:///tmp/mq billing
      $ mqplug lag rocksmq:///tmp/mq billing --watch 1s  # until Ctrl-C
      $ mqplug lag rocksmq:///tmp/mq billing --topic orders --max 1000
      $ mqplug lag rocksmq:///tmp/mq --all --max 10  # exits with 3: billing lags by more
    """
    if (group is None) != every or (every and topics):
        raise click.UsageError("Give a GROUP, or --all without --topic.")
    if watch is not None and most is not None:
        raise click.UsageError("--max checks once. Give it without --watch.")
    with client.open() as mq:
        while True:
            found = list(lags_of_all(mq, client.timeout)) if group is None else lags(mq, group, topics, client.timeout)
            if most is not None:
                return _check(found, most, output)
            _show(found, output, repeated=watch is not None)
            if watch is None:
                return 0
            sys.stdout.flush()
            time.sleep(watch)


def _show(found: list[PartitionLag], output: Output, *, repeated: bool) -> None:
    rows = [each._asdict() for each in found]
    if not output.for_people:
        (output.line if repeated else output.value)(rows)
        return
    if repeated and sys.stdout.isatty():
        click.clear()
    output.rows(COLUMNS, rows)
    for name, messages in behind(found).items():
        click.echo(f"\n{name} lags by {messages:,}" + (time.strftime(" at %H:%M:%S\n") if repeated else ""))


def _check(found: list[PartitionLag], most: int, output: Output) -> int:
    """Print one line in the form that Nagios reads, and return the exit code."""
    counts = behind(found)
    late = [name for name, messages in counts.items() if messages > most]
    if output.for_people:
        numbers = " ".join(f"{name}={messages};;{most}" for name, messages in counts.items())
        shown = late or list(counts)
        text = ", ".join(f"{name} lags by {counts[name]:,}" for name in shown) or "there are no groups"
        click.echo(f"{'BEHIND' if late else 'OK'}: {text}" + (f" | {numbers}" if numbers else ""))
    else:
        output.value([each._asdict() for each in found])
    return BEHIND if late else 0


class PartitionLag(NamedTuple):
    """A group's lag in one partition. It is None if the group has no position, as one with only a new member."""

    group: str
    topic: str
    partition: int
    position: str | None
    high: str | None
    lag: int | None


def lags(mq: mqplug.Client, group: str, topics: Sequence[str], timeout: float) -> list[PartitionLag]:
    """Return the lags of a group in these topics, where it must have positions, or else in all of its topics.

    Of all of its topics, those deleted during the call are left out.
    """
    if topics:
        return _lags(mq, group, {each: mq.positions(each, group=group, timeout=timeout) for each in topics}, timeout)
    names = mq.describe_group(group, timeout=timeout).topics
    try:
        return _lags(mq, group, {each: positions(mq, group, each, timeout) for each in names}, timeout)
    except mqplug.TopicNotFound:
        return [row for each in names for row in _lags_if_there(mq, group, each, timeout)]


def _lags_if_there(mq: mqplug.Client, group: str, topic: str, timeout: float) -> list[PartitionLag]:
    try:
        return _lags(mq, group, {topic: positions(mq, group, topic, timeout)}, timeout)
    except mqplug.TopicNotFound:
        return []


def _lags(mq: mqplug.Client, group: str, stored: Mapping[str, Positions], timeout: float) -> list[PartitionLag]:
    """Return the lags in the topics with these stored positions."""
    found = mq.lag([topic for topic in stored if stored[topic]], group=group, timeout=timeout)
    marks = mq.watermarks(list(stored), timeout=timeout)
    return [
        PartitionLag(
            group, topic, partition,
            position_text(at[partition].position) if partition in at else None,
            position_text(each.high), found[topic][partition] if topic in found else None,
        )
        for topic, at in stored.items()
        for partition, each in sorted(marks[topic].items())
    ]  # fmt: skip


def lags_of_all(mq: mqplug.Client, timeout: float) -> Iterator[PartitionLag]:
    """Yield the lags of every group in all of its topics."""
    for info in mq.groups(timeout=timeout):
        with suppress(mqplug.GroupNotFound):  # deleted since it was listed
            yield from lags(mq, info.name, (), timeout)


def behind(found: Sequence[PartitionLag]) -> dict[str, int]:
    """Return the lag of each group over all partitions."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.group] = counts.get(each.group, 0) + (each.lag or 0)
    return counts

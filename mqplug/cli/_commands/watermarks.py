"""``mqplug watermarks``: shows the retained range of each partition of a topic."""

from __future__ import annotations

import click

import mqplug
from mqplug.cli._clients import json_option, open_client, timeout_option, url_argument
from mqplug.cli._tables import TableRow, show_rows


@click.command()
@url_argument
@click.argument("topic")
@timeout_option
@json_option
def watermarks(url: str, topic: str, timeout: float, as_json: bool) -> None:
    """Show the retained range of each partition.

    It extends from low up to, but not including, high.
    """
    with open_client(url, timeout) as mq:
        found = mq.watermarks(topic, timeout=timeout)
    rows = [_row(partition, marks) for partition, marks in sorted(found.items())]
    show_rows(("partition", "low", "high", "messages", "exact"), rows, as_json)


def _row(partition: int, marks: mqplug.Watermarks) -> TableRow:
    return {
        "partition": partition,
        "low": position_text(marks.low),
        "high": position_text(marks.high),
        "messages": marks.count,
        "exact": marks.exact,
    }


def position_text(position: mqplug.Position) -> str:
    """Return the coordinates of a position as text."""
    return ":".join(map(str, position.coordinates))

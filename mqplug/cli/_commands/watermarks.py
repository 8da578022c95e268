"""``mqplug watermarks``: what a topic retains."""

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
    """Show what each partition of TOPIC retains: from low up to, and without, high."""
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
    """The coordinates of a position, as people write them."""
    return ":".join(map(str, position.coordinates))

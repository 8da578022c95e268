"""``commitGroup``: a group of the backend that follows a query, so that tools that show lag see how far it is.

When Spark asks for the next batch, all before its start is processed; the group is moved there. So it is a batch behind
while a batch runs, and after a query that stops in the midst of one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from mqplug import Client, ConsumerBusy, Error, Position, Unsupported
from mqplug_spark._ranges.read_range import Partition

log = logging.getLogger("mqplug.spark")


class GroupCommits:
    """Moves one group. A group that cannot be moved is an error at first, and later a line in the log."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._moved: dict[Partition, Position] | None = None

    def move(self, client: Client, places: Mapping[Partition, Position]) -> None:
        """Move the group to these places. Topics whose places have not changed are left alone."""
        if self._moved is None:
            self._check(client)
            self._send(client, places)
        elif places != self._moved:
            try:
                self._send(client, places)
            except Error as error:
                log.warning(
                    "commitGroup: the group %r was not moved; the next batch tries again: %s", self._group, error
                )
                return
        self._moved = dict(places)

    def _check(self, client: Client) -> None:
        if not client.capabilities.durable_groups:
            raise Unsupported(
                "durable_groups", f"commitGroup is not possible here: {client.backend} stores no groups",
                backend=client.backend, operation="plan a stream", fix="Leave commitGroup out",
            )  # fmt: skip

    def _send(self, client: Client, places: Mapping[Partition, Position]) -> None:
        for topic, positions in _changed(places, self._moved or {}):
            try:
                client.reset_group(self._group, topic, positions, missing="next")
            except ConsumerBusy as error:
                raise ConsumerBusy(
                    f"commitGroup: the group {self._group!r} has consumers of its own",
                    backend=error.backend, topic=topic, operation="plan a stream",
                    fix="Close them, or name a group that only this query moves",
                ) from error  # fmt: skip


def _changed(
    places: Mapping[Partition, Position], moved: Mapping[Partition, Position]
) -> Iterator[tuple[str, dict[int, Position]]]:
    changed: dict[str, dict[int, Position]] = {}
    for partition, position in sorted(places.items()):
        if moved.get(partition) != position:
            changed.setdefault(partition.topic, {})[partition.number] = position
    yield from changed.items()

"""``commitGroup``: a group of the backend that follows a query, so that tools that show lag see its progress.

When Spark asks for the next batch, all messages before its start are processed, and the group is moved there. So it
lags by one batch while a batch runs, and stays there if the query is stopped during a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from mqplug import Client, ConsumerBusy, Error, Position, Unsupported
from mqplug_spark._ranges.read_range import Partition

log = logging.getLogger("mqplug.spark")


class GroupCommits:
    """The moves of one group. If the first move fails, that is an error; later failures are logged."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._moved: dict[Partition, Position] | None = None

    def move(self, client: Client, places: Mapping[Partition, Position]) -> None:
        """Move the group to these positions. Topics whose positions have not changed are skipped."""
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
                "durable_groups", f"commitGroup needs stored groups, which {client.backend} does not have",
                backend=client.backend, operation="plan a stream", fix="Remove commitGroup",
            )  # fmt: skip

    def _send(self, client: Client, places: Mapping[Partition, Position]) -> None:
        for topic, positions in _changed(places, self._moved or {}):
            try:
                client.reset_group(self._group, topic, positions, missing="next")
            except ConsumerBusy as error:
                raise ConsumerBusy(
                    f"commitGroup: the group {self._group!r} has consumers",
                    backend=error.backend, topic=topic, operation="plan a stream",
                    fix="Close them, or name a group that only this query uses",
                ) from error  # fmt: skip


def _changed(
    places: Mapping[Partition, Position], moved: Mapping[Partition, Position]
) -> Iterator[tuple[str, dict[int, Position]]]:
    changed: dict[str, dict[int, Position]] = {}
    for partition, position in sorted(places.items()):
        if moved.get(partition) != position:
            changed.setdefault(partition.topic, {})[partition.number] = position
    yield from changed.items()

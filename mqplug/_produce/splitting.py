"""Splits a batch into runs, one for each topic and partition that its records go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from mqplug._produce.columns import SendColumns, cut, rows_by
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._produce.handle import Wait
    from mqplug._produce.routing import Route

Rows = Sequence[int]


@attrs.frozen
class BatchSplitter:
    """Splits the batches of one producer into runs of at most ``most`` records and ``most_bytes``."""

    topic: str | None
    most: int
    most_bytes: int
    wait: Wait

    def runs(
        self, columns: SendColumns, rows: Rows, route: Callable[[str | None, int | None], Route]
    ) -> Iterator[tuple[SendRun, Rows]]:
        """Yield the runs of these rows, each with its rows."""
        for topic, of_topic in self._by_topic(columns, rows).items():
            there = route(topic, _highest(columns, of_topic))
            for partition, chosen in _by_partition(columns, of_topic, there).items():
                picked = columns.pick(chosen)
                for piece in cut(picked, self.most, self.most_bytes):
                    yield (
                        SendRun(there.topic, partition, picked.pick(piece), self.wait),
                        chosen[piece.start : piece.stop],
                    )

    def _by_topic(self, columns: SendColumns, rows: Rows) -> dict[str | None, Rows]:
        if columns.topics is None:
            return {self.topic: rows}
        named = columns.topics
        return rows_by([self.topic if named[row] is None else named[row] for row in rows], rows)


def _highest(columns: SendColumns, rows: Rows) -> int | None:
    """Return the highest partition that these rows name."""
    if columns.partitions is None:
        return None
    return max((columns.partitions[row] for row in rows if type(columns.partitions[row]) is int), default=None)


def _by_partition(columns: SendColumns, rows: Rows, route: Route) -> dict[int, Rows]:
    keys = None if columns.keys is None else [columns.keys[row] for row in rows]
    given = None if columns.partitions is None else [columns.partitions[row] for row in rows]
    if given and given.count(given[0]) == len(given) and given[0] is not None:
        return {route.check(given[0]): rows}
    chosen = _choose(keys, given, len(rows), route)
    return {chosen: rows} if isinstance(chosen, int) else rows_by(chosen, rows)


def _choose(
    keys: Sequence[bytes | None] | None, given: Sequence[int | None] | None, number: int, route: Route
) -> int | list[int]:
    if given is None:
        return route.chooser.batch(keys, number, True)
    free = [row for row, partition in enumerate(given) if partition is None]
    left = [None if keys is None else keys[row] for row in free]
    where = route.chooser.batch(left, len(free), False) if free else 0
    chosen = iter(where if isinstance(where, list) else [where] * len(free))
    return [next(chosen) if partition is None else route.check(partition) for partition in given]

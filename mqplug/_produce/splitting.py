"""Splits a batch into runs, one for each topic and partition that its records go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from mqplug._produce.columns import SendColumns, cut, rows_by
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._produce.pump import Wait
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
            there = columns.pick(of_topic)
            way = route(topic, _highest(there))
            for partition, chosen in _by_partition(there, way).items():
                picked, numbers = there.pick(chosen), _picked(of_topic, chosen)
                for piece in cut(picked, self.most, self.most_bytes):
                    run = SendRun(way.topic, partition, picked.pick(piece), self.wait)
                    yield run, numbers[piece.start : piece.stop]

    def _by_topic(self, columns: SendColumns, rows: Rows) -> dict[str | None, Rows]:
        if columns.topics is None:
            return {self.topic: rows} if rows else {}
        named = columns.topics
        return rows_by([self.topic if named[row] is None else named[row] for row in rows], rows)


def _picked(rows: Rows, chosen: Rows) -> Rows:
    """Return the numbers in the batch of some rows of a topic."""
    return rows if len(chosen) == len(rows) else [rows[row] for row in chosen]


def _highest(columns: SendColumns) -> int | None:
    """Return the highest partition that is named."""
    return max((each for each in columns.partitions or () if type(each) is int), default=None)


def _by_partition(columns: SendColumns, route: Route) -> dict[int, Rows]:
    given, rows = columns.partitions, range(len(columns))
    if given and given.count(given[0]) == len(given) and given[0] is not None:
        return {route.check(given[0]): rows}
    chosen = _choose(columns.keys, given, len(rows), route)
    if isinstance(chosen, int) or chosen.count(chosen[0]) == len(chosen):
        return {chosen if isinstance(chosen, int) else chosen[0]: rows}
    return rows_by(chosen, rows)


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

"""A sent batch: its runs, one for each topic and partition, and the ids of its records in their original order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, cast, overload

import attrs

from mqplug._model.errors import Error, SendFailed
from mqplug._model.ids import MessageId
from mqplug._produce.columns import SendColumns, cut, rows_by
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._produce.handle import IdParts
    from mqplug._produce.pump import Wait
    from mqplug._produce.routing import Route

Rows = Sequence[int]


@attrs.frozen
class BatchSplitter:
    """A splitter of one producer's batches into runs of at most ``most`` records and ``most_bytes``."""

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
    """Return the rows of the batch for some rows of a topic."""
    return rows if len(chosen) == len(rows) else [rows[row] for row in chosen]


def _highest(columns: SendColumns) -> int | None:
    """Return the highest named partition, or None."""
    return max((each for each in columns.partitions or () if type(each) is int), default=None)


def _by_partition(columns: SendColumns, route: Route) -> dict[int, Rows]:
    given, rows = columns.partitions, range(len(columns))
    if given and given.count(given[0]) == len(given) and given[0] is not None:
        return {route.check(given[0]): rows}
    hashed = _choose_by_hash(columns, route) if given is None and route.chooser.by_murmur2 else None
    chosen = _choose(columns.keys, given, len(rows), route) if hashed is None else hashed
    if isinstance(chosen, int) or chosen.count(chosen[0]) == len(chosen):
        return {chosen if isinstance(chosen, int) else chosen[0]: rows}
    return rows_by(chosen, rows)


def _choose_by_hash(columns: SendColumns, route: Route) -> list[int] | None:
    """Return the partition of each record if all have a key, in an Arrow array of many; otherwise None."""
    keys = columns.arrow(("key",)).get("key")
    if keys is None or keys.null_count:
        return None
    from mqplug._produce.arrow_murmur2 import partitions_by_murmur2

    return partitions_by_murmur2(keys, route.partitions)


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


class SentIds(Sequence[MessageId]):
    """The ids of a sent batch, in order. Each is built when it is read. Equal to a list of the same ids."""

    __slots__ = ("_count", "_find", "_found")

    def __init__(self, count: int, find: Callable[[], Sequence[IdParts]]) -> None:
        self._count = count
        self._find = find
        self._found: Sequence[IdParts] | None = None

    @property
    def _places(self) -> Sequence[IdParts]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        if isinstance(index, slice):
            return list(starmap(MessageId, self._places[index]))
        return MessageId(*self._places[index])

    def __iter__(self) -> Iterator[MessageId]:
        return starmap(MessageId, self._places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SentIds | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __repr__(self) -> str:
        return repr(list(self))


@attrs.frozen
class SentBatch:
    """A batch of ``count`` records: its runs, each with its rows, and the rows that were refused."""

    count: int
    runs: Sequence[tuple[SendRun, Rows]]
    refused: dict[int, Error]

    def ids(self) -> Sequence[MessageId]:
        """Return the id of each record, or raise ``SendFailed``. An unsettled record counts as timed out."""
        for run, _ in self.runs:
            run.was_seen = True
        if not self.refused and all(run.is_stored for run, _ in self.runs):
            return SentIds(self.count, self._places)
        results = self._results()
        failed = [each for each in results if isinstance(each, Error)]
        if failed:
            raise SendFailed(
                f"{len(failed)} of {self.count} messages failed, first: {failed[0]}",
                results=[each if isinstance(each, Error) else MessageId(*each) for each in results],
            ) from failed[0]
        return SentIds(self.count, self._places)

    def _places(self) -> list[IdParts]:
        return cast("list[IdParts]", self._results())

    def _results(self) -> Sequence[IdParts | Error]:
        if len(self.runs) == 1 and not self.refused:
            return self.runs[0][0].results()
        found: dict[int, IdParts | Error] = {**self.refused}
        for run, rows in self.runs:
            found.update(zip(rows, run.results(), strict=True))
        return [found[row] for row in range(self.count)]

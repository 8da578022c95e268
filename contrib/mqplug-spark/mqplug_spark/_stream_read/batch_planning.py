"""Decides which messages each batch of a query covers, in the one process that plans the batches."""

from __future__ import annotations

from functools import partial

from mqplug import Client
from mqplug_spark._clients import ask
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.data_loss import LossReports
from mqplug_spark._ranges.read_range import ReadRange, split_ranges
from mqplug_spark._stream_read.backlog import Marks, backlogs, end_offset, not_beyond, present
from mqplug_spark._stream_read.group_commits import GroupCommits
from mqplug_spark._stream_read.initial_offset import initial_offset
from mqplug_spark._stream_read.limits import BatchDelay, at_most, check_limits, counting, everything, is_held
from mqplug_spark._stream_read.stream_offsets import StreamOffset, plan_batch

NOTHING = StreamOffset({})


class Progress:
    """The planner of a query's batches. Creating it sends no request, because Spark creates readers for tasks too."""

    def __init__(self, options: ReadOptions, *, knows_starts: bool) -> None:
        self._options = options
        self._knows_starts = knows_starts
        self._ask = partial(ask, options.backend, patience=options.poll_timeout)
        self._losses = LossReports(fail=options.fail_on_data_loss)
        self._group = GroupCommits(options.commit_group) if options.commit_group else None
        self._delay = BatchDelay(options.min_offsets_per_trigger or 0, options.max_trigger_delay)
        self._initial: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._planned = NOTHING
        self.seen: StreamOffset | None = None

    def initial(self) -> StreamOffset:
        """Return where a new query begins: the same at every call, and never after a planned batch."""
        if self._initial is None:
            found = self._ask(self._find_initial)
            self._initial = found if self.seen is None else _not_after(found, self.seen)
        return self._initial

    def set_target(self) -> None:
        """Record the current end: no batch of this run reads beyond it."""
        self._target = _ends(self._ask(lambda client: self._marks(client, NOTHING)))

    def next(self, start: StreamOffset, *, most: int | None = None, limited: bool = False) -> StreamOffset:
        """Return the end of the next batch, within limits if it is ``limited``; ``start`` if there is none now."""
        return self._ask(lambda client: self._next(client, start, most, limited))

    def latest(self) -> StreamOffset:
        """Return the current end, for a Spark that does not pass the start of a batch."""
        self._planned = self.next(self._planned)
        return self._planned

    def processed(self, offset: StreamOffset) -> None:
        """Move ``commitGroup`` to an offset whose batch is processed."""
        if group := self._group:
            self._ask(lambda client: group.move(client, offset.reached))

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[ReadRange]:
        """Return the ranges that the tasks of a batch read. They depend only on the offsets and the options.

        If the first batch of a query runs again, its start is new, and may have partitions that its end does not have.
        """
        if start == self._initial:
            start = StreamOffset({each: at for each, at in start.reached.items() if each in end.reached})
        ranges, options = plan_batch(start, end, self._losses, compared=self._knows_starts), self._options
        if options.min_partitions is None and options.max_records_per_partition is None:
            return ranges
        return self._ask(lambda client: split_ranges(client, ranges, options))

    def _find_initial(self, client: Client) -> StreamOffset:
        check_limits(client, self._options)
        return initial_offset(client, self._options, self._losses)

    def _next(self, client: Client, start: StreamOffset, most: int | None, limited: bool) -> StreamOffset:
        before, marks = self.seen, self._marks(client, start)
        count = counting(client)
        at_end = frozenset() if count or not before else start.common(before)
        found = backlogs(start, marks, self._losses, count, at_end)
        if self._group:
            places = {partition: at for partition, at in start.reached.items() if partition in found}
            self._group.move(client, places)
        first = start == self._initial
        if self._target is not None:
            found = not_beyond(found, self._target.reached)
        elif limited and self._options.min_offsets_per_trigger and is_held(client, found, self._delay) and not first:
            return start
        ends = everything(found) if most is None else at_most(client, found, most)
        return end_offset(start, ends, found, first=first)

    def _marks(self, client: Client, start: StreamOffset) -> Marks:
        check_limits(client, self._options)
        marks = present(client, self._options.topics, {each.topic for each in start.reached})
        self.seen = _ends(marks)
        return marks


def _ends(marks: Marks) -> StreamOffset:
    return StreamOffset({partition: mark.readable for partition, mark in marks.items()})


def _not_after(found: StreamOffset, planned: StreamOffset) -> StreamOffset:
    """Return where a query begins if Spark asks only after planning its first batch, as older versions do."""
    return StreamOffset(
        {partition: min(at, planned.reached.get(partition, at)) for partition, at in found.reached.items()}
    )

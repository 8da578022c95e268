"""One topic, read to its current end without a group: the count, order and checksum of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import ge
from typing import Final

import attrs

import mqplug
from mqplug_cli._measuring.checksums import PartitionChecksum

BATCH_MESSAGES: Final = 5_000


class TopicReading:
    """A topic that is being read from its first message to the end it had when it was opened.

    ``marks`` are its watermarks of that time, and ``ends`` the positions reached by the batches.
    """

    def __init__(self, consumer: mqplug.Consumer, marks: Mapping[int, mqplug.Watermarks], timeout: float) -> None:
        self.marks = marks
        self._consumer = consumer
        self._timeout = timeout

    @property
    def ends(self) -> dict[int, mqplug.Position]:
        """The position up to which each partition was read."""
        return self._consumer.position()

    def batches(self) -> Iterator[mqplug.Batch]:
        """Iterate over the messages. Raise ``Timeout`` if none arrives in time before the end."""
        while batch := self._consumer.receive_many(BATCH_MESSAGES, self._timeout):
            yield batch
        unread = [partition for partition, position in self.ends.items() if position < self.marks[partition].high]
        if unread:
            raise mqplug.Timeout(
                f"no message arrived within {self._timeout:g} s, and the end of partition {unread[0]} is not reached",
                fix="Give a longer --timeout: an open transaction may hold messages back",
            )


@contextmanager
def reading(mq: mqplug.Client, topic: str, timeout: float) -> Iterator[TopicReading]:
    """Open a whole topic for reading."""
    marks = mq.watermarks(topic, timeout=timeout)
    with mq.consumer(topic, start=mqplug.EARLIEST, until=mqplug.LATEST, timeout=timeout) as consumer:
        yield TopicReading(consumer, marks, timeout)


@contextmanager
def partition_batches(
    mq: mqplug.Client, topic: str, until: mqplug.Position, timeout: float
) -> Iterator[Iterator[mqplug.Batch]]:
    """Open one partition to read it again, from its first message to a position."""
    partition = until.log.partition
    with mq.consumer(topic, start=mqplug.EARLIEST, until=until, partitions=[partition], timeout=timeout) as consumer:
        yield TopicReading(consumer, {partition: _only_end(until)}, timeout).batches()


def _only_end(until: mqplug.Position) -> mqplug.Watermarks:
    return mqplug.Watermarks(until, until, 0)


@attrs.define
class PartitionCheck:
    """The findings in one partition."""

    partition: int
    checksum: PartitionChecksum
    first_id: mqplug.MessageId | None = None
    last_id: mqplug.MessageId | None = None
    disorder: mqplug.MessageId | None = None  # the first id that is not above the previous one
    problem: str | None = None

    @property
    def messages(self) -> int:
        """The number of messages read."""
        return self.checksum.messages

    def add(self, batch: mqplug.Batch) -> None:
        """Check the next batch of this partition."""
        if self.disorder is None:
            self._check_order(batch)
        if self.first_id is None:
            self.first_id = batch.id(0)
        self.last_id = batch.id(len(batch) - 1)
        self.checksum.add(batch)

    def finish(self, before: mqplug.Watermarks, now: mqplug.Watermarks) -> None:
        """Compare the count with the backend's, unless messages were removed during the reading."""
        if self.disorder is not None:
            self.problem = f"the id {self.disorder} is not above the previous one"
        elif before.exact and before.low == now.low and self.messages < before.count:
            self.problem = f"{before.count:,} messages are stored, but {self.messages:,} were received"

    def _check_order(self, batch: mqplug.Batch) -> None:
        ids = batch.coordinates
        if self.last_id is not None and ids[0] <= self.last_id.coordinates:
            self.disorder = batch.id(0)
        elif any(map(ge, ids, islice(ids, 1, None))):
            self.disorder = batch.id(_first_disorder(ids))


class TopicCheck:
    """The checks of all partitions of a topic, in one reading."""

    def __init__(self, topic: TopicReading, fields: Sequence[str]) -> None:
        self._topic = topic
        self.partitions = {each: PartitionCheck(each, PartitionChecksum(fields)) for each in sorted(topic.marks)}

    @property
    def messages(self) -> int:
        """The number of messages read."""
        return sum(each.messages for each in self.partitions.values())

    @property
    def expected(self) -> int:
        """The number of messages as the backend counts or estimates it."""
        return sum(each.count for each in self._topic.marks.values())

    @property
    def problems(self) -> list[str]:
        """The problems, partition by partition."""
        checks = self.partitions.values()
        return [f"partition {each.partition}: {each.problem}" for each in checks if each.problem is not None]

    def batches(self) -> Iterator[mqplug.Batch]:
        """Iterate over the messages of the topic, checking each batch."""
        for batch in self._topic.batches():
            self.partitions[batch.log.partition].add(batch)
            yield batch

    def finish(self, now: Mapping[int, mqplug.Watermarks]) -> None:
        """Compare the counts with those of the backend."""
        for partition, check in self.partitions.items():
            check.finish(self._topic.marks[partition], now[partition])


def _first_disorder(ids: Sequence[tuple[int, ...]]) -> int:
    return next(row for row in range(1, len(ids)) if ids[row] <= ids[row - 1])

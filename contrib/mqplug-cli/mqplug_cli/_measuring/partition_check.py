"""Checks each partition of one topic: its count, the order of its ids, its checksum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import ge

import attrs

import mqplug
from mqplug_cli._measuring.checksums import PartitionChecksum
from mqplug_cli._measuring.topic_reading import TopicReading


@attrs.define
class PartitionCheck:
    """What was found in one partition so far."""

    partition: int
    checksum: PartitionChecksum
    first_id: mqplug.MessageId | None = None
    last_id: mqplug.MessageId | None = None
    disorder: mqplug.MessageId | None = None  # the first id that is not above the one before it
    problem: str | None = None

    @property
    def messages(self) -> int:
        """The number of messages that were read."""
        return self.checksum.messages

    def add(self, batch: mqplug.Batch) -> None:
        """Check a batch, which is the next of this partition."""
        if self.disorder is None:
            self._check_order(batch)
        if self.first_id is None:
            self.first_id = batch.id(0)
        self.last_id = batch.id(len(batch) - 1)
        self.checksum.add(batch)

    def finish(self, before: mqplug.Watermarks, now: mqplug.Watermarks) -> None:
        """Compare the count with what the backend said, unless messages were removed meanwhile."""
        if self.disorder is not None:
            self.problem = f"the id {self.disorder} is not above the one before it"
        elif before.exact and before.low == now.low and self.messages < before.count:
            self.problem = f"{before.count:,} messages are stored, but {self.messages:,} were received"

    def _check_order(self, batch: mqplug.Batch) -> None:
        ids = batch.coordinates
        if self.last_id is not None and ids[0] <= self.last_id.coordinates:
            self.disorder = batch.id(0)
        elif any(map(ge, ids, islice(ids, 1, None))):
            self.disorder = batch.id(_first_disorder(ids))


class TopicCheck:
    """One topic, which is read once: the check of each of its partitions."""

    def __init__(self, topic: TopicReading, fields: Sequence[str]) -> None:
        self._topic = topic
        self.partitions = {each: PartitionCheck(each, PartitionChecksum(fields)) for each in sorted(topic.marks)}

    @property
    def messages(self) -> int:
        """The number of messages that were read so far."""
        return sum(each.messages for each in self.partitions.values())

    @property
    def expected(self) -> int:
        """The number of messages that there are, as the backend estimates it."""
        return sum(each.count for each in self._topic.marks.values())

    @property
    def problems(self) -> list[str]:
        """What is wrong, partition by partition."""
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

"""Reads a topic to the end that it has now, without a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import mqplug

BATCH_MESSAGES: Final = 5_000


class TopicReading:
    """A topic that is being read, from its first message to the end that it had when this was made.

    ``marks`` are its watermarks of that time, and ``ends`` the positions to which the batches have come.
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
        """Iterate over the messages. Where the log is held back before the end, wait, and then raise ``Timeout``."""
        while batch := self._consumer.receive_many(BATCH_MESSAGES, self._timeout):
            yield batch
        behind = [partition for partition, position in self.ends.items() if position < self.marks[partition].high]
        if behind:
            raise mqplug.Timeout(
                f"no message came within {self._timeout:g} s, and the end of partition {behind[0]} is not reached",
                fix="An open transaction may hold messages back: give a longer --timeout",
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
    """Open one partition, to read it from its first message to a position again."""
    partition = until.log.partition
    with mq.consumer(topic, start=mqplug.EARLIEST, until=until, partitions=[partition], timeout=timeout) as consumer:
        yield TopicReading(consumer, {partition: _only_end(until)}, timeout).batches()


def _only_end(until: mqplug.Position) -> mqplug.Watermarks:
    return mqplug.Watermarks(until, until, 0)

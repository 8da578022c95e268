"""The steps of ``mqplug verify``: check a topic by itself, or compare it with another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import attrs

import mqplug
from mqplug_cli._measuring.checksums import FIELDS
from mqplug_cli._measuring.comparison import Contents, Difference, NamedMessages, first_difference
from mqplug_cli._measuring.topic_check import PartitionCheck, TopicCheck, TopicReading, partition_batches, reading

NAMED_DIFFERENCES: Final = 16  # partitions whose first difference is looked for
Count = Callable[[int], None]


@attrs.frozen
class VerifiedTopic:
    """A topic and the client that reads it."""

    mq: mqplug.Client
    name: str
    timeout: float


class Verification:
    """The check of one topic, or the comparison of two. ``fields`` are compared."""

    def __init__(self, topics: Sequence[VerifiedTopic], fields: Sequence[str], *, any_partition: bool) -> None:
        self.topics = topics
        self.fields = fields
        self.any_partition = any_partition and len(topics) == 2
        self.checks: list[TopicCheck] = []
        self.differences: list[str | Difference] = []
        self._contents = [Contents(fields) for _ in topics] if self.any_partition else []

    @property
    def read(self) -> int:
        """The number of messages read from all topics."""
        return sum(each.messages for each in self.checks)

    @property
    def expected(self) -> int:
        """The number of messages as the backends count or estimate it."""
        return sum(each.expected for each in self.checks)

    @property
    def problems(self) -> list[str]:
        """The problems within a topic."""
        return [
            f"{topic.name}, {problem}"
            for topic, check in zip(self.topics, self.checks, strict=False)
            for problem in check.problems
        ]

    @property
    def compares_keys(self) -> bool:
        """Whether the order of each key was compared across partitions."""
        return "key" in self.fields and all(each.knows_keys for each in self._contents)

    @contextmanager
    def opened(self) -> Iterator[Callable[[Count], None]]:
        """Open the topics and note their current ends. Yield a function that reads them."""
        with ExitStack() as stack:
            readings = [stack.enter_context(reading(each.mq, each.name, each.timeout)) for each in self.topics]
            self.checks = [TopicCheck(each, self.fields) for each in readings]
            yield lambda count: self._read(readings, count)

    def _read(self, readings: Sequence[TopicReading], count: Count) -> None:
        for number, (topic, check) in enumerate(zip(self.topics, self.checks, strict=True)):
            for batch in check.batches():
                if self.any_partition:
                    self._contents[number].add(batch)
                count(len(batch))
            check.finish(topic.mq.watermarks(topic.name, timeout=topic.timeout))
        if self.any_partition:
            self._compare_contents(count)
        elif len(readings) == 2:
            self._compare_partitions([each.ends for each in readings])

    def _compare_partitions(self, ends: Sequence[dict[int, mqplug.Position]]) -> None:
        sizes = [len(check.partitions) for check in self.checks]
        if sizes[0] != sizes[1]:
            self.differences.append(
                f"{sizes[0]} partitions against {sizes[1]}. --any-partition compares regardless of partitions"
            )
            return
        unlike = [partition for partition in ends[0] if not self.is_same(partition)]
        for partition in sorted(unlike)[:NAMED_DIFFERENCES]:
            with ExitStack() as stack:
                mine, other = (
                    stack.enter_context(partition_batches(topic.mq, topic.name, end[partition], topic.timeout))
                    for topic, end in zip(self.topics, ends, strict=True)
                )
                found = first_difference(partition, mine, other, self.fields)
            self.differences.append(found or f"partition {partition} changed while it was read")
        if len(unlike) > NAMED_DIFFERENCES:
            self.differences.append(f"{len(unlike) - NAMED_DIFFERENCES} more partitions differ")

    def _compare_contents(self, count: Count) -> None:
        mine, other = self._contents
        buckets = mine.unlike_buckets(other)
        keys = mine.unlike_keys(other) if not buckets and self.compares_keys else set()
        if not buckets and not keys:
            return
        named = [NamedMessages(self.fields, buckets, keys) for _ in self.topics]
        for topic, messages in zip(self.topics, named, strict=True):
            with reading(topic.mq, topic.name, topic.timeout) as again:
                for batch in again.batches():
                    messages.add(batch)
                    count(len(batch))
        for which, lacking, (one, two) in (("first", "second", named), ("second", "first", named[::-1])):
            for message_id, times in one.beyond(two):
                often = "" if times == 1 else f" {times} times more"
                self.differences.append(f"only the {which} topic has {message_id}{often}; the {lacking} lacks it")
        self.differences += [f"messages of the key {key!r} are ordered differently" for key in sorted(named[0].keys)]

    def is_same(self, partition: int) -> bool:
        """Return whether a partition of both topics has the same checksum."""
        mine, other = (check.partitions.get(partition) for check in self.checks)
        return mine is not None and other is not None and mine.checksum.text == other.checksum.text

    def report(self) -> dict[str, Any]:
        """Return the findings as a JSON value."""
        first, *rest = self.checks
        return {
            "topic": self.topics[0].name,
            "messages": first.messages,
            "partitions": [_row(each) for each in first.partitions.values()],
            "against": {
                "topic": self.topics[1].name,
                "messages": rest[0].messages,
                "partitions": [_row(each) for each in rest[0].partitions.values()],
            } if rest else None,
            "compared": list(self.fields),
            "any_partition": self.any_partition,
            "same": not self.differences if rest else None,
            "differences": [_as_json(each) for each in self.differences],
            "problems": self.problems,
        }  # fmt: skip


def _row(check: PartitionCheck) -> dict[str, Any]:
    return {
        "partition": check.partition,
        "messages": check.messages,
        "bytes": check.checksum.bytes,
        "checksum": check.checksum.text,
        "first_id": _text(check.first_id),
        "last_id": _text(check.last_id),
    }


def _as_json(difference: str | Difference) -> dict[str, Any]:
    if isinstance(difference, str):
        return {"says": difference}
    return {
        "says": str(difference),
        "partition": difference.partition,
        "message": difference.number,
        "fields": list(difference.fields),
        "ids": [_text(each) for each in difference.ids],
    }


def _text(message_id: mqplug.MessageId | None) -> str | None:
    return None if message_id is None else str(message_id)


def compared_fields(ignored: Sequence[str]) -> list[str]:
    """Return the fields to compare."""
    return [each for each in FIELDS if each not in ignored]

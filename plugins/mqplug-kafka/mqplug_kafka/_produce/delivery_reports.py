"""The reports on records that were handed to the native client together.

The native client calls back for each record, but does not say which one it was. It keeps the order inside a partition,
and a key has one partition; so the offsets of those that were stored, sorted, are theirs in the order in which they
were sent. Those that failed are told by their content; of records that are equal, it makes no difference which failed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug import Error, Log, OutcomeUnknown
from mqplug.spi import Numbers, Sending
from mqplug_kafka._cluster.errors import NOT_STORED_CODES, maybe_stored, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs

FailedRecord = tuple[KafkaError | None, bytes | None, bytes | None]
"""The error, and the record's value and key; no error: it is stored, but nobody knows where."""


class RecordGroup(Protocol):
    """Records that are sent together: a run, or single ones that happened to come one after the other."""

    topic: str
    partition: int

    @property
    def values(self) -> Sequence[bytes | None]: ...
    @property
    def keys(self) -> Sequence[bytes | None] | None: ...
    def __len__(self) -> int: ...
    def sendings(self) -> Sequence[Sending]: ...
    def stored(self, log: Log, coordinates: Sequence[Numbers]) -> None: ...
    def failed(self, error: Error) -> None: ...


class DeliveryReports:
    """Collects the reports on records that were sent together, and settles them."""

    __slots__ = ("_enough", "_failures", "_found", "_names", "_partitions", "_refused", "_together", "_where")

    def __init__(self, together: RecordGroup, names: CurrentLogs) -> None:
        self._together = together
        self._names = names
        self._found: list[int] = []  # the offsets of what is stored
        self._where: list[tuple[int, int]] = []  # with their partitions, where the native client chooses them
        self._partitions: dict[bytes | None, int] | None = {} if together.partition < 0 else None  # by key
        self._failures: list[FailedRecord] = []
        self._refused: Mapping[int, KafkaError] | None = None  # what was not taken, by row; None: not known yet
        self._enough = len(together)  # with so many found, it may be all

    def produce(self, native: Producer) -> None:
        """Hand the records over."""
        sent = self._together
        if sent.keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in sent.values]
        else:
            messages = [{"value": value, "key": key} for value, key in zip(sent.values, sent.keys, strict=True)]
        try:
            native.produce_batch(sent.topic, messages, sent.partition, on_delivery=self)
        except KafkaException as error:
            sent.failed(not_stored(error))
            return
        self._refused = {row: each["_error"] for row, each in enumerate(messages) if "_error" in each}
        if self._refused:
            self._enough = 0
        self._settle_if_complete()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """One report."""
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            if self._partitions is not None:
                partition = self._partitions[message.key()] = message.partition() or 0
                self._where.append((partition, offset))
            self._found.append(offset)
        else:
            self._failures.append((error, message.value(), message.key()))
            self._enough = 0
        if len(self._found) >= self._enough:
            self._settle_if_complete()

    def _settle_if_complete(self) -> None:
        refused = self._refused
        if refused is None or len(self._found) + len(self._failures) + len(refused) < len(self._together):
            return
        simple = self._partitions is None and not refused and not self._failures
        self._names.when_known(self._together.topic, self._settle_all if simple else self._settle_each)

    def _settle_all(self) -> None:
        sent = self._together
        log = self._names.log(sent.topic, sent.partition)
        sent.stored(log, list(zip(sorted(self._found), strict=True)))

    def _settle_each(self) -> None:
        sendings = self._together.sendings()
        offsets: defaultdict[int, deque[int]] = defaultdict(deque)
        if self._partitions is None:
            offsets[self._together.partition].extend(sorted(self._found))
        for partition, offset in sorted(self._where):
            offsets[partition].append(offset)
        for row in self._without_failures(sendings):
            sending = sendings[row]
            partition = sending.partition if self._partitions is None else self._partitions[sending.key]
            sending.stored(self._names.log(sending.topic, partition), (offsets[partition].popleft(),))

    def _without_failures(self, sendings: Sequence[Sending]) -> Sequence[int]:
        """The rows of what was stored; the others are settled."""
        if not self._refused and not self._failures:
            return range(len(sendings))
        refused = self._refused or {}
        for row, error in refused.items():
            sendings[row].failed(not_stored(error))
        rows: defaultdict[tuple[bytes | None, bytes | None], deque[int]] = defaultdict(deque)
        for row, sending in enumerate(sendings):
            if row not in refused:
                rows[sending.value, sending.key].append(row)
        for failure, value, key in self._failures:
            settle_failure(sendings[rows[value, key].popleft()], failure)
        return sorted(chain.from_iterable(rows.values()))


def settle_failure(sending: Sending, error: KafkaError | None) -> None:
    """Tell a record what went wrong, and whether that proves that it is not stored."""
    if error is None:
        sending.unknown(OutcomeUnknown("it is stored, but the broker did not say where"))
    elif error.code() in NOT_STORED_CODES:
        sending.failed(not_stored(error))
    else:
        sending.unknown(maybe_stored(error))

"""The records of an open transaction: handed to the producer of its name, and pending until the transaction has ended.

Unlike an ordinary producer, it never sends a refused record again: a transaction that loses one cannot be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from mqplug import Error, Log
from mqplug.spi import Headers, Numbers, Run, Sending
from mqplug.spi.proxies import SendingProxy
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import code_of
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.outcomes import RecordOutcome, RunOutcome
from mqplug_kafka._produce.producer import unstorable
from mqplug_kafka._produce.transactional_client import TransactionalClient

if TYPE_CHECKING:
    import pyarrow

PURGED_CODES = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
"""Codes of records that the client drops when another one has doomed the transaction."""

Settle = Callable[["Sending | Run"], None]


class TransactionalSends:
    """Hands records to the client's producer of a transaction name, and takes its delivery reports."""

    def __init__(self, connection: KafkaConnection, client: TransactionalClient) -> None:
        self._client = client
        self._future_max = connection.settings.future_max
        self._current_logs = CurrentLogs(connection)

    def send(self, sendings: Sequence[Sending], records: PendingRecords) -> None:
        """Hand over records one by one."""
        for each in sendings:
            self._send(PendingRecord(each, records))

    def send_run(self, run: Run, records: PendingRecords) -> None:
        """Hand over records together."""
        self._current_logs.prepare(self._client.producer, run.topic, run.partition)
        pending = PendingRun(run, records)
        if not RunOutcome(pending, self._current_logs).hand_to(self._client.producer.sender, self._future_max):
            for each in pending.sendings():
                self._send(each)

    def settle(self, timeout: float) -> None:
        """Look up the logs to which records were sent."""
        self._current_logs.settle(timeout)

    def _send(self, sending: Sending) -> None:
        if (error := unstorable(sending, self._future_max)) is not None:
            sending.failed(error)
            return
        self._current_logs.prepare(self._client.producer, sending.topic, sending.partition)
        RecordOutcome(sending, self._current_logs).hand_to(self._client.producer.sender)


class PendingRecords:
    """The sent records of one transaction, until they are settled."""

    def __init__(self, reason: Callable[[], Error | None]) -> None:
        self._reason = reason
        self._outcomes: list[PendingOutcome] = []
        self._over = False
        self.failure: Error | None = None
        """Why the transaction cannot be committed: the error of the first refused record."""
        self.doubt: Error | None = None
        """Why it cannot be committed, if no broker gave a reason: the error of the first unconfirmed record."""
        self.topics: set[str] = set()
        self.last: dict[Log, int] = {}
        """The offset of the last stored record in each log."""

    def outcome(self, inner: Sending | Run) -> PendingOutcome:
        """Return the outcome of a record or a run, which waits for the end of the transaction."""
        made = PendingOutcome(inner, self)
        self.topics.add(inner.topic)
        self._outcomes.append(made)
        return made

    @property
    def doomed(self) -> bool:
        """Whether a record was lost, so that the transaction cannot be committed."""
        return self.failure is not None or self.doubt is not None

    def refused(self, error: Error) -> Error | None:
        """Note that a record was refused. Return the error to settle it with; None if it must wait for the end."""
        if self._over:
            return None
        if (broken := self._reason()) is not None:
            error = broken
        elif code_of(error) in PURGED_CODES:  # because of another record
            self.doubt = self.doubt or error
            return None
        self.failure = self.failure or error
        return error

    def doubted(self, error: Error) -> None:
        """Note that a record was not confirmed."""
        self.doubt = self.doubt or error

    def delivered(self) -> None:
        """Settle the records reported as stored, although the transaction may still be aborted."""
        self._outcomes = [each for each in self._outcomes if not each.deliver()]

    def committed(self, missing: Error) -> None:
        """Settle all according to their reports; ``missing`` is for a record without a report."""
        self._end(None, missing)

    def failed(self, error: Error) -> None:
        """Settle all as not stored, whatever their reports are."""
        self._end(lambda inner: inner.failed(error), error)

    def unknown(self, error: Error) -> None:
        """Settle all as possibly stored."""
        self._end(lambda inner: inner.unknown(error), error)

    def _end(self, settle: Settle | None, missing: Error) -> None:
        self._over = True
        outcomes, self._outcomes = self._outcomes, []
        for each in outcomes:
            each.end(settle, missing)


class PendingOutcome:
    """The outcome of one record, or of a run that is settled as a whole."""

    __slots__ = ("_inner", "_records", "_report", "settled")

    def __init__(self, inner: Sending | Run, records: PendingRecords) -> None:
        self._inner = inner
        self._records = records
        self._report: Callable[[], None] | None = None
        self.settled = False

    def keep(self, report: Callable[[], None], log: Log, last: int) -> None:
        """Keep the report that it is stored, up to this offset, until the transaction is committed."""
        self._report = report
        ends = self._records.last
        ends[log] = max(ends.get(log, 0), last)

    def failed(self, error: Error) -> None:
        """Settle it as not stored, at once: a transaction that loses a record is never committed."""
        final = self._records.refused(error)
        if final is not None and not self.settled:
            self.settled = True
            self._inner.failed(final)

    def unknown(self, error: Error) -> None:
        """Note that it may be stored. The transaction will be aborted."""
        self._records.doubted(error)

    def deliver(self) -> bool:
        """Settle it if it is reported as stored. Return whether it is settled."""
        if not self.settled and self._report is not None:
            self.settled = True
            self._report()
        return self.settled

    def end(self, settle: Settle | None, missing: Error) -> None:
        """Settle it at the end of the transaction."""
        if self.settled:
            return
        self.settled = True
        if settle is not None:
            settle(self._inner)
        elif self._report is not None:
            self._report()
        else:
            self._inner.unknown(missing)


class PendingRecord(SendingProxy):
    """A record of an open transaction."""

    __slots__ = ("_outcome",)

    def __init__(self, inner: Sending, records: PendingRecords) -> None:
        super().__init__(inner)
        self._outcome = records.outcome(inner)

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._outcome.keep(partial(self.inner.stored, log, coordinates, detail), log, coordinates[0])

    def failed(self, error: Error) -> None:
        self._outcome.failed(error)

    def unknown(self, error: Error) -> None:
        self._outcome.unknown(error)


class PendingRun:
    """Records of an open transaction that were handed over together."""

    __slots__ = ("_inner", "_outcome", "_records", "_sendings", "partition", "size", "topic")

    def __init__(self, inner: Run, records: PendingRecords) -> None:
        self._inner = inner
        self._records = records
        self._outcome = records.outcome(inner)
        self._sendings: Sequence[Sending] | None = None
        self.topic: str = inner.topic
        self.partition: int = inner.partition
        self.size: int = inner.size

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def values(self) -> Sequence[bytes | None]:
        return self._inner.values

    @property
    def keys(self) -> Sequence[bytes | None] | None:
        return self._inner.keys

    @property
    def headers(self) -> Sequence[Headers] | None:
        return self._inner.headers

    @property
    def timestamps(self) -> Sequence[int | None] | None:
        return self._inner.timestamps

    @property
    def ends(self) -> Sequence[int]:
        return self._inner.ends

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        return self._inner.arrow(names)

    def sendings(self) -> Sequence[Sending]:
        """Return the single records. From now on each is settled by itself."""
        if self._sendings is None:
            self._outcome.settled = True
            self._sendings = [PendingRecord(each, self._records) for each in self._inner.sendings()]
        return self._sendings

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        self._outcome.keep(partial(self._inner.stored, log, coordinates, details), log, coordinates[-1][0])

    def failed(self, error: Error) -> None:
        self._outcome.failed(error)

    def unknown(self, error: Error) -> None:
        self._outcome.unknown(error)

"""The holder of a transaction name: records, positions of groups and the mark of a step, all or nothing.

A commit has three stages: the records are delivered, the positions are stored in the transaction, and the transaction
is ended. A failure in the first two proves that nothing is committed. The answer to the third may be late or lost: then
the outcome is unknown until the client knows it, and the next ``begin`` waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

import attrs

from mqplug import ConnectError, Error, Fenced, NotCommitted, OutcomeUnknown, Timeout
from mqplug.spi import Deadline, GroupMove, Run, Sending, TransactionDriver, TransactionMark, TransactionOptions
from mqplug_kafka._admin.group_positions import as_committed
from mqplug_kafka._admin.log_offsets import readable, wait_until_readable
from mqplug_kafka._admin.transaction_marks import mark_as_committed, mark_group, reached_mark
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import BATCH_TOO_LARGE_CODES, code_of
from mqplug_kafka._produce.producer import LINGER_S
from mqplug_kafka._produce.transaction_records import PendingRecords, TransactionalSends
from mqplug_kafka._produce.transactional_client import TransactionalClient

NOTHING_COMMITTED = "nothing of this transaction was committed"
CLOSE_SHARE = 0.5  # the part of a close's timeout for the abort of an open transaction
DELIVERY_BEFORE_ABORT_S = 0.2  # a new client's producer takes longer
FIRST_ANSWER_S = 0.05  # the client repeats a request after 0.08 s at the earliest
READABLE_TIMEOUT_S = 1.0  # until readers can reach committed records
READERS_BLOCKED_S = 10.0  # after a failed wait for readers, commits do not wait for them for this long
TOPICS_TIMEOUT_S = 2.0  # for a check whether all topics still exist
LIMITS_TIMEOUT_S = 2.0  # to read the batch size that a topic accepts
IDS_TIMEOUT_S = 5.0  # to learn to which incarnations of the topics the records were sent


class KafkaTransactions(TransactionDriver):
    """A transaction name, with one transaction at a time."""

    linger_s = LINGER_S

    def __init__(self, connection: KafkaConnection, options: TransactionOptions, timeout: float) -> None:
        self._connection = connection
        deadline = Deadline(timeout)
        batch_bytes = _batch_bytes(connection, options.topic, deadline)
        self._client = TransactionalClient(connection, options.name, batch_bytes)
        self._sends = TransactionalSends(connection, self._client)
        self._records = self._fresh()
        self._mark: TransactionMark | None = None
        self._open = False
        self._tainted = False  # whether the client's producer must be replaced after the abort
        self._readers_blocked_until = 0.0
        self._commit: Future[None] | None = None  # of an earlier transaction whose outcome is unknown
        self._abort: Future[None] | None = None
        try:
            self._client.claim(deadline)
        except BaseException:
            self._client.close()
            raise

    # records ------------------------------------------------------------------------------------------------

    def send(self, sendings: Sequence[Sending]) -> None:
        self._sends.send(sendings, self._records)

    def send_run(self, run: Run) -> None:
        self._sends.send_run(run, self._records)

    def pump(self, timeout: float) -> None:
        """Serve delivery reports."""
        with self._client.noting_fatal():
            self._client.producer.pump(timeout)
        self._sends.settle(timeout)

    def flush(self, timeout: float) -> None:
        """Make the client send its lingering records."""
        with self._client.noting_fatal():
            self._client.producer.hasten(timeout)

    def close(self, timeout: float) -> None:
        """Abort an open transaction, and release the client's producer."""
        try:
            self.abort(timeout * CLOSE_SHARE)
        finally:
            self._client.close()

    # transactions -------------------------------------------------------------------------------------------

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        """Begin a transaction, once the outcome of the previous one is known."""
        deadline = Deadline(timeout)
        if isinstance(error := self._client.broken, Fenced):
            raise error
        self._settle_former(deadline)
        if (error := self._client.broken) is not None:
            raise error
        name = self._client.name
        known = None if mark is None else reached_mark(self._connection, name, mark, deadline)
        self._client.begin(deadline)
        self._records = self._fresh()
        self._mark = mark if known is None else None
        self._open = True
        return known

    def annotate(self, note: str) -> None:
        """Store this note with the mark."""
        if self._mark is not None:
            self._mark = attrs.evolve(self._mark, note=note)

    def hand_over(self, timeout: float) -> None:
        """Wait until the brokers have the records, which readers see after the commit. Drop them here."""
        self._deliver(Deadline(timeout))
        self._records.delivered()

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        """Commit in three stages."""
        deadline = Deadline(timeout)
        try:
            self._deliver(deadline)
            self._store_positions(moves, deadline)
        except Timeout as error:
            self._give_up(late := _nothing(error))
            raise late from error
        except Error as error:
            self._give_up(error)
            raise
        except BaseException:  # Ctrl-C
            self._give_up(_nothing("it was interrupted"))
            raise
        self._end(deadline)

    def abort(self, timeout: float) -> None:
        """Abort the open transaction. Settle its records even if no broker confirms the abort."""
        if self._open:
            self._deliver_before_abort(timeout)
            self._give_up(_nothing("it was aborted"))
        if self._abort is not None and not isinstance(self._client.broken, Fenced):
            self._finish_abort(Deadline(timeout))

    # stages -------------------------------------------------------------------------------------------------

    def _deliver(self, deadline: Deadline) -> None:
        records = self._records
        self._client.deliver(deadline, lambda: records.doomed, self._check_topics)
        if (error := self._client.broken or records.failure) is not None:
            raise error
        if records.doubt is not None:
            raise self._client.reason(deadline) or _nothing(records.doubt)
        self._sends.settle(deadline.remaining(IDS_TIMEOUT_S))

    def _deliver_before_abort(self, timeout: float) -> None:
        """Wait shortly for the delivery of records in flight: dropping them means a new client's producer."""
        records = self._records
        with suppress(Timeout):
            deadline = Deadline(min(timeout, DELIVERY_BEFORE_ABORT_S))
            self._client.deliver(deadline, lambda: records.doomed, self._check_topics)

    def _check_topics(self) -> None:
        """Raise ``TopicNotFound`` if a topic of the transaction was deleted."""
        with suppress(Timeout, ConnectError):  # no broker answers: continue to wait
            self._connection.describe(self._records.topics, TOPICS_TIMEOUT_S)

    def _store_positions(self, moves: Sequence[GroupMove], deadline: Deadline) -> None:
        for move in moves:
            if move.positions:
                offsets = as_committed(move.positions)
                self._client.store_positions(move.group, offsets, move.member, deadline)
        if self._mark is not None:
            group = mark_group(self._client.name)
            self._client.store_positions(group, [mark_as_committed(self._mark)], None, deadline)

    def _end(self, deadline: Deadline) -> None:
        """End the transaction, and settle its records."""
        self._open = False
        began = time.monotonic()
        future = self._commit = self._client.commit()
        try:
            self._client.wait("commit", future, deadline)
        except Timeout as error:
            self._records.unknown(unknown := _unknown(error))
            raise unknown from error
        except Fenced as error:
            if not self._was_committed(error, time.monotonic() - began):
                self._records.failed(error)
                raise
        except Error as error:
            self._refused(error, deadline)
        except BaseException:
            self._records.unknown(_unknown("the wait for it was interrupted"))
            raise
        self._commit = None
        try:
            self._wait_for_readers(deadline)
        finally:
            self._records.committed(_unknown("it was committed, but no broker reported the id"))

    def _wait_for_readers(self, deadline: Deadline) -> None:
        """Wait until the records can be read: a commit is confirmed some milliseconds earlier.

        They cannot be read while an older transaction of another program is open. So do not wait again soon.
        """
        last = self._records.last
        if not last or time.monotonic() < self._readers_blocked_until:
            return
        with suppress(Error):  # it is committed all the same
            if not wait_until_readable(self._connection, last, Deadline(deadline.remaining(READABLE_TIMEOUT_S))):
                self._readers_blocked_until = time.monotonic() + READERS_BLOCKED_S

    def _refused(self, error: Error, deadline: Deadline) -> None:
        """Raise the error of a commit that failed. An abort that succeeds proves that nothing was committed."""
        self._commit = None
        if self._client.broken is not None:
            self._records.unknown(unknown := _unknown(error))
            raise unknown from error
        self._tainted = True
        self._abort = self._client.abort()
        try:
            self._finish_abort(deadline)
        except Error:
            self._records.unknown(unknown := _unknown(error))
            raise unknown from error
        except BaseException:
            self._records.unknown(_unknown("the wait for it was interrupted"))
            raise
        self._records.failed(error)
        raise error

    def _was_committed(self, error: Fenced, took: float) -> bool:
        """Return whether a commit that was answered with ``Fenced`` succeeded. Raise ``OutcomeUnknown`` if unknown.

        If this answers the first request, the commit failed. But if the first answer was lost, the request was
        repeated, and the name may have been taken over in between. Then the records themselves show it.
        """
        self._commit = None
        committed = (
            False if took < FIRST_ANSWER_S else readable(self._connection, self._records.last, READABLE_TIMEOUT_S)
        )
        if committed is None:
            self._records.unknown(unknown := _unknown(error))
            raise unknown from error
        return committed

    def _give_up(self, error: Error) -> None:
        """Settle the records as not stored, and begin to abort."""
        self._open = False
        self._tainted = self._tainted or self._records.doomed or self._client.producer.busy
        self._note_refusal(self._records.failure)
        self._abort = self._client.abort()
        self._records.failed(error)

    def _note_refusal(self, refusal: Error | None) -> None:
        """Make smaller batches from the next transaction on, if one was too large for its topic."""
        if refusal is None or code_of(refusal) not in BATCH_TOO_LARGE_CODES:
            return
        if self._client.make_smaller_batches():
            refusal.retryable = True
            refusal.fix = "Repeat the step, which now has smaller batches. A record may also be too large itself"

    def _finish_abort(self, deadline: Deadline) -> None:
        """Wait for the running abort. Then replace a client's producer that cannot continue after it.

        After a refused record it would refuse the next transaction too. If the abort drops records in flight, the next
        ones to their partitions may be refused, because the numbers of dropped ones are missing. And it fails for good
        if the broker knows of no transaction to abort, for example when all of its topics are gone.
        """
        if self._abort is not None:
            try:
                self._client.wait("abort", self._abort, deadline)
            except Timeout:
                raise
            except Error as error:
                self._abort = None
                if isinstance(error, Fenced):
                    raise
                self._tainted = True
            self._abort = None
            if self._tainted:
                self._client.replace()
                self._tainted = False
        self._client.claim(deadline)

    def _settle_former(self, deadline: Deadline) -> None:
        """Wait until the outcome of the previous transaction is known."""
        if self._open:
            self._give_up(_nothing("another one was begun"))
        if self._commit is not None:
            try:
                self._client.wait("the previous commit", self._commit, deadline)
            except Timeout:
                raise
            except Error:
                if (broken := self._client.broken) is not None:
                    raise broken from None
                self._tainted = True
                self._abort = self._client.abort()
            self._commit = None
        self._finish_abort(deadline)

    def _fresh(self) -> PendingRecords:
        return PendingRecords(lambda: self._client.broken)


def _batch_bytes(connection: KafkaConnection, topic: str | None, deadline: Deadline) -> int | None:
    """Return the size of batches that fit the topic; None without a topic, if it is unknown, or set by the user."""
    if topic is None or "batch.size" in connection.settings.librdkafka:
        return None
    limits = connection.limits
    if not limits.is_known(topic):
        limits.ask(topic)
        limits.await_answer(topic, deadline.remaining(LIMITS_TIMEOUT_S))
    fits = limits.of(topic).batch_bytes
    return None if fits is None else min(fits, connection.shared_producers.batch_bytes)


def _nothing(why: object) -> Error:
    """Return the error of a transaction that is certainly not committed."""
    text = why.message if isinstance(why, Error) else why
    return NotCommitted(f"{NOTHING_COMMITTED}: {text}", fix="Repeat the step", retryable=True)


def _unknown(why: object) -> OutcomeUnknown:
    text = why.message if isinstance(why, Error) else why
    fix = "Begin the next transaction of this name, which waits for the outcome; number= shows whether to repeat a step"
    return OutcomeUnknown(f"the outcome of the commit is unknown: {text}", fix=fix)

"""Transactions: sends to many topics and the acks of a consumer, stored together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Literal, Self

from mqplug._base.deadline import Deadline
from mqplug._client.stage import check_number, check_writer
from mqplug._model.errors import Closed, Error
from mqplug._model.ids import MessageId
from mqplug._model.names import check_topic
from mqplug._model.outcome import OutcomeUnknown
from mqplug._produce.columns import Records
from mqplug._produce.handle import SendHandle
from mqplug._produce.queue import check_limits
from mqplug._produce.record import HeadersArgument, check_record
from mqplug.spi._actions import MAX_NOTE_BYTES

if TYPE_CHECKING:
    from types import TracebackType

    from mqplug._consume.step_acks import StepAcks
    from mqplug._produce.sent_batch import SentBatch
    from mqplug._produce.transaction_session import TransactionSession
    from mqplug.spi._actions import TransactionMark

State = Literal["open", "ending", "committed", "aborted", "unknown"]


class BatchHandle:
    """The handle of a batch that was sent in a transaction."""

    def __init__(self, batch: SentBatch) -> None:
        self._batch = batch

    def result(self, timeout: float | None = 30) -> Sequence[MessageId]:
        """Return the id of each message, in order, after the commit.

        Raises ``NotCommitted`` before the commit, and ``SendFailed`` after an abort or if the outcome is unknown.
        """
        deadline = Deadline(timeout)
        for run, _ in self._batch.runs:
            run.wait(run, deadline)
        return self._batch.ids()

    @property
    def done(self) -> bool:
        """Whether the messages are settled, even if their outcome is unknown."""
        return all(run.awaited is None for run, _ in self._batch.runs)

    def __len__(self) -> int:
        return self._batch.count

    def __repr__(self) -> str:
        return f"<BatchHandle of {len(self)}: {'settled' if self.done else 'on its way'}>"


class Transaction:
    """One step of a transaction name. Made by ``Client.transaction``; any thread may use it.

    Leaving its block commits; an exception in the block aborts and propagates.
    """

    def __init__(
        self,
        holder: TransactionSession,
        topic: str | None,
        acks: StepAcks | None,
        timeout: float | None,
        *,
        numbered: bool,
        known: TransactionMark | None,
    ) -> None:
        self.name = holder.name
        """The name of the transaction."""
        self.topic = topic
        """The default topic of its messages."""
        self.repeated = known is not None
        """Whether this number or a higher one was committed before; if so, nothing is sent again."""
        self._note = known.note if known is not None else ""
        self._numbered = numbered
        self._holder = holder
        self._acks = acks
        self._timeout = timeout
        self._state: State = "open"
        self._lock = Lock()

    @property
    def note(self) -> str:
        """A text that is stored with the number; set it before the commit. In a repeated step, the committed text."""
        return self._note

    @note.setter
    def note(self, note: str) -> None:
        self._check_open()
        self._note = check_note(note, numbered=self._numbered, repeated=self.repeated)

    # sending -----------------------------------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        timeout: float | None = 30,
    ) -> SendHandle:
        """Send one message, which readers see after the commit. Return its handle at once, which has the id by then.

        Until then, the handle's ``result`` raises ``NotCommitted``.

        :param value: the payload; None is a tombstone.
        :param key: the message's key, which chooses the partition. None by default.
        :param headers: pairs of a name and a value, or a mapping; the values are bytes or None. Empty by default.
        :param timestamp: a datetime with a time zone, or milliseconds since 1970. By default the log sets its own time.
        :param partition: the partition, which overrides the key. By default the partitioner chooses.
        :param topic: the topic; by default the transaction's.
        :param timeout: seconds to look the topic up, 30 by default; None: no limit. A full queue raises ``QueueFull``
            at once.
        """
        self._check_open()
        topic = self._topic(topic)
        holder, route = self._holder, self._holder.routes.get(topic)
        deadline = Deadline(timeout)
        if route is None or (partition is not None and route.lacks(partition)):
            check_record(value, key, headers, timestamp)
            route = holder.find_route(topic, deadline)
        fields = (value, key, headers, timestamp, partition)
        if not self.repeated:
            return holder.submit(route, fields, "raise", deadline)
        single = holder.new_handle(route, fields)
        single.unknown(_stored_before())
        return single

    def send_many(self, records: Records, *, timeout: float | None = 30) -> BatchHandle:
        """Send the records of ``Producer.send_many`` as one batch. Return their handle at once.

        If one of them is too large, none is sent, and its error is raised.
        """
        self._check_open()
        deadline = Deadline(timeout)
        batch = self._holder.prepare_many(records, deadline, self.topic)
        for error in batch.refused.values():
            raise error
        if self.repeated:
            for run, _ in batch.runs:
                run.unknown(_stored_before())
        else:
            self._holder.accept_all(batch.runs, deadline)
        return BatchHandle(batch)

    def flush(self, *, timeout: float | None = 30) -> None:
        """Wait until the backend has the sent messages, which makes room for more.

        Their handles have ids then, which become invalid if the step is aborted. Where the backend takes no messages
        before the commit, this does nothing. An error means that the step cannot be committed.
        """
        self._check_open()
        self._holder.hand_over_sent(Deadline(timeout))

    def _topic(self, topic: str | None) -> str:
        topic = self.topic if topic is None else topic
        if topic is None:
            raise TypeError("this transaction was begun without a topic: pass topic= with each message")
        return topic

    # ending ------------------------------------------------------------------------------------------------

    def commit(self, *, timeout: float | None = 30) -> None:
        """Store everything, or nothing. On return all of it is stored, and the handles have their ids.

        Any error except ``OutcomeUnknown`` means that nothing was stored.
        """
        deadline = Deadline(timeout)
        self._begin_end()
        try:
            with self._acks.storing(deadline) if self._acks is not None else nullcontext(()) as moves:
                self._holder.commit(moves, "" if self.repeated else self._note, deadline)
        except BaseException:
            if self._holder.in_doubt:
                self._state = "unknown"
                self._ask_again()
            else:
                with suppress(Error):  # the commit's error says more
                    self._drop(deadline)
            raise
        self._state = "committed"

    def abort(self, *, timeout: float | None = 30) -> None:
        """Drop everything: nothing of this step is stored, and unacked messages are delivered again."""
        self._begin_end()
        self._drop(Deadline(timeout))

    def _begin_end(self) -> None:
        with self._lock:
            self._check_open()
            self._state = "ending"

    def _drop(self, deadline: Deadline) -> None:
        self._state = "aborted"
        try:
            self._holder.abort(deadline)
        finally:
            if self._acks is not None:
                self._acks.give_back()

    def _ask_again(self) -> None:
        if self._acks is not None:
            with suppress(Error):  # the unknown outcome says more
                self._acks.ask_again(self._holder.settle_doubt)

    def _check_open(self) -> None:
        if self._state != "open":
            raise Closed(f"{self!r} is over", operation="transaction", fix="Begin another transaction")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state != "open":
            return
        if error is None:
            self.commit(timeout=self._timeout)
        else:
            with suppress(Error):  # the first error says more
                self.abort(timeout=self._timeout)

    def __repr__(self) -> str:
        return f"<Transaction {self.name!r}: {self._state}>"


def _stored_before() -> OutcomeUnknown:
    return OutcomeUnknown(
        "an earlier step with this number, or a higher one, stored it; its id is unknown",
        operation="send",
        fix="Check repeated before sending",
        retryable=False,
    )


def check_note(note: str, *, numbered: bool, repeated: bool) -> str:
    """Return a note for a step. Raise ``TypeError`` or ``ValueError`` for one that cannot be stored."""
    if not isinstance(note, str):
        raise TypeError(f"a note must be a str, not {type(note).__name__}")
    if not numbered:
        raise ValueError("a note is stored with the number of a step: pass number=")
    if repeated:
        raise ValueError("this step was committed before: its note cannot change")
    if len(note.encode()) > MAX_NOTE_BYTES or "\0" in note:
        raise ValueError(f"a note must have at most {MAX_NOTE_BYTES} bytes in UTF-8, and no NUL")
    return note


def check_transaction(
    name: str, topic: str | None, consumer: object, number: int | None, limits: tuple[int, int]
) -> tuple[int, int]:
    """Return the limits of a step. Raise for impossible arguments, before any I/O."""
    from mqplug._consume.consumer import Consumer

    check_writer(name, "a transaction")
    if topic is not None:
        check_topic(topic)
    if consumer is not None and not isinstance(consumer, Consumer):
        raise TypeError(f"consumer= must be a consumer of this client, not {type(consumer).__name__}")
    if number is not None:
        check_number(number, "a transaction")
        if topic is None:
            raise TypeError("number= needs a topic: transactions are numbered per topic")
    return check_limits(*limits)

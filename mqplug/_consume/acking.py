"""Acks, ``auto_ack``, nacks, dead letters and commits of a consumer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol

from mqplug._base.deadline import Deadline
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.delivery import ACKED, RETURNED, Delivery
from mqplug._consume.retries import Reject
from mqplug._consume.start_positions import check_place
from mqplug._model.batch import Batch
from mqplug._model.checks import number
from mqplug._model.errors import (
    ConfigError,
    ConsumerBusy,
    Error,
    InvalidMessageId,
    NotAssigned,
    Timeout,
    TopicNotFound,
    Unsupported,
)
from mqplug._model.ids import MessageId
from mqplug._model.message import Message
from mqplug._plugins.backend import NO_TIMEOUT_S

if TYPE_CHECKING:
    from mqplug._consume.assignment import Assignment, HeldPartition
    from mqplug._consume.dead_letters import DeadLetters
    from mqplug._consume.driver_session import DriverSession
    from mqplug._consume.fetching import Fetcher
    from mqplug._consume.retries import Retry
    from mqplug._model.log import Log
    from mqplug.spi._actions import GroupPosition, Settlement

    Changes = Sequence[tuple[HeldPartition, GroupPosition | Settlement]]

NACK_COMMIT_S = 5.0
MAX_NAMED = 3  # logs in an error
AGAIN = "Expect the acked messages to be delivered again"
UNSETTLED_REASON = "each consumer that had it died, or was away for too long"


class AckingStep(Protocol):
    """An open step of a transaction, to which the acks of a consumer belong."""

    name: str

    def ack(self, delivery: Delivery, row: int) -> None: ...
    def ack_through(self, delivery: Delivery, row: int) -> None: ...
    def note_late(self, delivery: Delivery) -> None: ...


class Acknowledgements:
    """The acks and nacks of one consumer, until they are stored. Any thread may use it."""

    def __init__(
        self,
        driver_session: DriverSession,
        assignment: Assignment,
        fetcher: Fetcher,
        retry: Retry,
        dead_letters: DeadLetters | None,
        *,
        auto_ack: bool,
    ) -> None:
        self._driver_session = driver_session
        self._assignment = assignment
        self._fetcher = fetcher
        # The owner of deliveries whose acks take the fast path, which stops no clock.
        self._quick_owner = None if driver_session.group is None or driver_session.has_clocks else assignment
        self._owner = self._quick_owner
        self._retry = retry
        self._dead_letters = dead_letters
        self.step: AckingStep | None = None
        """The open step of a transaction to which the acks belong, if any."""
        self.last_commit = time.monotonic()
        self.late = self.returned = self.commits = 0
        self._raised = False  # whether the last commit of the caller raised NotAssigned
        if dead_letters is not None:
            fetcher.before_poll = self.collect
            if driver_session.shares:
                fetcher.filter_batch = self.bury_spent
        self.auto_ack = auto_ack
        if auto_ack:
            fetcher.before_fetch = partial(self._ack_seen, more_wanted=True)
            assignment.before_state = self._ack_seen

    @property
    def buried(self) -> int:
        """The number of messages that were sent to the dead-letter topic."""
        return self._dead_letters.sent if self._dead_letters is not None else 0

    # ack ---------------------------------------------------------------------------------------------------

    def ack(self, message: Message | MessageId) -> None:
        """Ack a message. The fast path for the common case takes no lock."""
        try:
            delivery, index = message._batch.delivery, message._index  # type: ignore[union-attr]
            flags, tracker = delivery.flags, delivery.tracker
            if delivery.live and not flags[index] and tracker.owner is self._owner and not tracker.awaited:
                flags[index] = ACKED
                tracker.dirty = True
                return
        except AttributeError:  # an id, or a message that no consumer delivered
            pass
        self._ack_slowly(message)

    def _ack_slowly(self, message: Message | MessageId) -> None:
        delivery, index = self._delivered(message, "ack")
        step = self.step
        if not delivery.live or delivery.flags[index]:
            self._note_late(delivery, step)
            return
        tracker = delivery.tracker
        if step is not None:
            step.ack(delivery, index)
        else:
            delivery.flags[index] = ACKED
            tracker.dirty = True
            self._stop_clock(delivery, index)
        if tracker.awaited:
            self._fetcher.on_settled()

    def _stop_clock(self, delivery: Delivery, index: int) -> None:
        """Keep a message that was settled in time from other members until the ack is stored."""
        if self._driver_session.has_clocks:
            self._driver_session.stop_clock(delivery.batch.log, delivery.batch.coordinates[index])

    def ack_through(self, message: Message | MessageId) -> None:
        """Ack a message and all before it in its partition."""
        delivery, index = self._delivered(message, "ack")
        step = self.step
        if not delivery.live or delivery.flags[index] == RETURNED:
            self._note_late(delivery, step)
            return
        with self._assignment.committing:
            if step is not None:
                step.ack_through(delivery, index)
            else:
                delivery.tracker.ack_through(delivery, index)
        if delivery.tracker.awaited:
            self._fetcher.on_settled()

    def _note_late(self, delivery: Delivery, step: AckingStep | None) -> None:
        self.late += 1
        if step is not None:
            step.note_late(delivery)

    def _ack_seen(self, *, more_wanted: bool = False) -> None:
        """Ack the messages that the caller took before it asked for more. Ack the current one when it asks again."""
        delivery = self._fetcher.current
        if delivery is not None and delivery.live:
            delivery.ack_seen(more_wanted=more_wanted)

    def begin_step(self, step: AckingStep) -> None:
        """Assign all later acks to this step."""
        with self._assignment.committing:
            self.step, self._owner = step, None  # without an owner, every ack takes the slow path

    def check_no_step(self, operation: str) -> None:
        """Raise ``ConsumerBusy`` if the acks belong to a transaction."""
        if self.step is not None:
            raise ConsumerBusy(
                f"the consumer belongs to an open step of the transaction {self.step.name!r}",
                **self._driver_session.where(operation),
                fix=f"{operation.capitalize()} before or after the step",
            )

    def end_step(self) -> None:
        """Let commits store acks again. ``committing`` is held."""
        self.step, self._owner = None, self._quick_owner

    def _delivered(self, message: Message | MessageId, operation: str) -> tuple[Delivery, int]:
        """Return the delivery and row of a message. Raise ``InvalidMessageId`` if this consumer never handed it out."""
        if isinstance(message, Message):
            delivery, index = message._batch.delivery, message._index
        else:
            delivery, index = self._find(message, operation)
        driver_session = self._driver_session
        if (
            delivery is None
            or driver_session.closed
            or driver_session.group is None
            or delivery.tracker.owner is not self._assignment
        ):
            self._refuse(message, operation)
        return delivery, index

    def _find(self, message_id: MessageId, operation: str) -> tuple[Delivery | None, int]:
        """Return the delivery and row of a message: a dead delivery if it is settled, None if it is unknown."""
        if not isinstance(message_id, MessageId):
            raise TypeError(f"{operation} takes a Message or its id, not {_given(message_id)}")
        held = self._assignment.get(message_id.log)
        if held is None:
            return None, 0
        with self._assignment.committing:
            found = held.tracker.find(message_id)
            if found is None:
                check_place(self._driver_session.backend, message_id)
                if held.tracker.has_acked(message_id):
                    return held.tracker.passed, 0
        return found or (None, 0)

    def _refuse(self, message: Message | MessageId, operation: str) -> NoReturn:
        self._driver_session.check_open()
        self._driver_session.require_group(operation)
        raise InvalidMessageId(
            f"{message!r} was not delivered by this consumer, or its partition is no longer held",
            **self._driver_session.where(operation),
            fix=f"{operation.capitalize()} only messages that this consumer received",
        )

    # nack --------------------------------------------------------------------------------------------------

    def nack(self, message: Message, delay: float | None, reason: object) -> None:
        """Nack a message: deliver it again, or send it to the dead letters after its last attempt."""
        if not isinstance(message, Message):
            raise TypeError(f"nack takes a Message, not {_given(message)}")
        if delay is not None and not 0 <= number("a delay", delay, "a number of seconds") < math.inf:
            raise ValueError(f"a delay must be at least 0 seconds, not {delay}")
        self._require_nack()
        delivery, index = self._delivered(message, "nack")
        attempt = message.attempt
        wait = delay if delay is not None else self._retry.delay_after(attempt)
        dead_letters = self._dead_letters if self.is_last(message, reason) else None
        shares = self._driver_session.shares
        with nullcontext() if shares and dead_letters is None else self._assignment.committing:
            if not delivery.live or delivery.flags[index]:
                self.late += 1
                return
            self.returned += 1
            try:
                if dead_letters is not None:
                    self._bury(dead_letters, message, delivery, _spoken(reason))
                else:
                    delivery.tracker.give_back(delivery, index, wait)
            finally:  # a message that cannot be sent to the dead letters is also delivered again
                self._hand_out_again(delivery)
        self._return_nacked()
        self._driver_session.wake()

    def is_last(self, message: Message, reason: object) -> bool:
        """Return whether a message that is nacked for this reason goes to the dead letters."""
        return self.has_dead_letters and (isinstance(reason, Reject) or self._retry.exhausted(message.attempt))

    @property
    def has_dead_letters(self) -> bool:
        """Whether there is a topic for messages that must not be retried."""
        return self._dead_letters is not None

    @property
    def retries_end(self) -> bool:
        """Whether the number of attempts is limited."""
        return self._retry.attempts is not None

    def _return_nacked(self) -> None:
        """Make the driver return nacked messages. During a commit, the commit does so at its end."""
        committing, assignment = self._assignment.committing, self._assignment
        while assignment.has_returned and committing.acquire(blocking=False):
            try:
                self._store(assignment.take_returned(), Deadline(NACK_COMMIT_S))
            except Error:
                return  # the background thread tries again
            finally:
                committing.release()

    def take_back(self, messages: Sequence[Message]) -> None:
        """Hand out messages again that reached no handler; the attempt does not count. Only for logs read in order."""
        with self._assignment.committing:
            for message in messages:
                delivery, index = message._batch.delivery, message._index
                if delivery.live and not delivery.flags[index]:
                    delivery.tracker.take_back(delivery, index)
                    self._hand_out_again(delivery)

    def _hand_out_again(self, delivery: Delivery) -> None:
        """Hold back the partition of a nacked message until the message is delivered again."""
        held = self._assignment.get(delivery.batch.log)
        if held is not None and held.tracker is delivery.tracker and isinstance(delivery.tracker, Tracker):
            self._fetcher.hold_back(held)

    def _require_nack(self) -> None:
        self._driver_session.check_open()
        self._driver_session.require_group("nack")
        if self._driver_session.shares and not self._driver_session.connection.capabilities.nack:
            raise Unsupported("nack", **self._driver_session.where("nack"))

    # dead letters ------------------------------------------------------------------------------------------

    def _bury(self, dead_letters: DeadLetters, message: Message, delivery: Delivery, reason: str) -> None:
        """Send a message to the dead letters. Withhold it until it is stored there."""
        decide = delivery.tracker.set_aside(delivery, message._index)
        self._stop_clock(delivery, message._index)

        def done(error: Error | None) -> None:
            if delivery.live:
                decide(None if error is None else self._wait_after(error, message.attempt))

        try:
            dead_letters.send(message, reason, done)
        except Error as error:
            done(error)
            raise

    def _wait_after(self, error: Error, attempt: int) -> float:
        """Return the seconds until an undeliverable dead letter is retried; for a ``ConfigError``, the longest."""
        return self._retry.longest if isinstance(error, ConfigError) else self._retry.delay_after(attempt)

    def bury_spent(self, held: HeldPartition, batch: Batch) -> Batch:
        """Send messages to the dead letters whose attempts are used up without a nack. Return the rest."""
        attempts, limit = batch.attempts, self._retry.attempts
        if self._dead_letters is None or limit is None or max(attempts, default=0) <= limit:
            return batch
        spent = [row for row, each in enumerate(attempts) if each > limit]
        rest = [row for row in range(len(batch)) if row not in set(spent)]
        tried = batch.take(spent, batch.next_position).with_attempts([attempts[row] - 1 for row in spent])
        delivery = held.tracker.deliver(tried)
        delivery.hand_out_all()
        with self._assignment.committing:
            for message in tried:
                with suppress(Error):  # it is delivered again
                    self._bury(self._dead_letters, message, delivery, UNSETTLED_REASON)
        return batch.take(rest, batch.next_position)

    def collect(self) -> None:
        """Ack the messages whose dead letters are stored. Make those that failed due again."""
        if self._dead_letters:
            with self._assignment.committing:
                self._dead_letters.collect()

    # commit ------------------------------------------------------------------------------------------------

    def commit_for_caller(self, deadline: Deadline) -> None:
        """Store all acks. Raise ``NotAssigned`` if some can no longer be stored, because their logs were lost."""
        self._driver_session.check_open()
        if self._driver_session.group is None:
            self._driver_session.require_group("commit")
        if self._raised:
            self._assignment.unstored.clear()
        try:
            self.commit(deadline)
            self._raised = False
            if self._assignment.unstored:
                self._report(list(self._assignment.unstored), "commit")
        except NotAssigned:
            self._raised = True
            raise

    def commit_in_background(self, deadline: Deadline) -> None:
        """Store all acks. A later commit of the caller reports those of lost logs."""
        self.commit(deadline)
        unstored = self._assignment.unstored
        unstored |= dict.fromkeys(list(unstored), False)  # in place: another thread may add a log

    def commit_at_close(self, deadline: Deadline) -> None:
        """Store all acks. Raise ``NotAssigned`` if logs were lost shortly before, with acks that were not stored."""
        self.commit(deadline)
        self._report([log for log, lately in self._assignment.unstored.items() if lately], "close")

    def _report(self, unstored: list[Log], operation: str) -> None:
        if unstored:
            where = self._driver_session.where(operation)
            named = ", ".join(f"{log.topic!r}[{log.partition}]" for log in unstored[:MAX_NAMED])
            self._assignment.unstored.clear()
            raise NotAssigned(f"{named} was lost before its acks were stored", **where, fix=AGAIN)

    def commit(self, deadline: Deadline) -> None:
        """Store all acks."""
        committing = self._assignment.committing
        if not committing.acquire(blocking=False) and not committing.acquire(timeout=deadline.remaining(NO_TIMEOUT_S)):
            raise Timeout("another commit is running and did not end in time", **self._driver_session.where("commit"))
        try:
            changes = self._assignment.take_changes()
            self.last_commit = time.monotonic()
            if not changes:
                return
            try:
                self._store(changes, deadline)
            except TopicNotFound:
                self._store_topic_by_topic(changes, deadline)
                raise
            self.commits += 1
        finally:
            committing.release()
        if self._assignment.has_returned:
            self._return_nacked()

    def _store(self, changes: Changes, deadline: Deadline) -> None:
        try:
            self.late += self._driver_session.store({held.log: change for held, change in changes}, deadline)
        except BaseException:
            for held, _ in changes:
                held.tracker.put_back()
            raise

    def _store_topic_by_topic(self, changes: Changes, deadline: Deadline) -> None:
        """Store the acks topic by topic, because one of the topics is gone."""
        topics = {held.log.topic for held, _ in changes}
        for topic in topics if len(topics) > 1 else ():
            of_topic = [held for held, _ in changes if held.log.topic == topic]
            with suppress(TopicNotFound):
                self._store([(held, held.tracker.take_change()) for held in of_topic], deadline)


def _given(value: object) -> str:
    """Return the type name of a value that is not a message, with a hint."""
    match value:
        case Batch() | list() | tuple():
            return f"{'Batch' if isinstance(value, Batch) else type(value).__name__}: call it for each message"
        case str():
            return "str: MessageId.parse(text) reads the text of an id"
        case MessageId():
            return "MessageId: keep the message itself"
    return type(value).__name__


def _spoken(reason: object) -> str:
    if isinstance(reason, BaseException):
        return f"{type(reason).__name__}: {reason}"
    return str(reason) if reason is not None else "given back"

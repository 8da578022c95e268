"""The acks of a consumer that belong to an open step of a transaction: stored or forgotten with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.delivery import Delivery
from mqplug._model.errors import Closed, ConcurrentUse, NotAssigned, Timeout, Unsupported
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug.spi._actions import GroupMove

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._model.log import Log
    from mqplug.spi._actions import GroupPosition


class StepAcks:
    """The acks of one consumer in one step. Made when the step begins; ends with ``storing`` or ``give_back``."""

    def __init__(self, consumer: ConsumerSession, name: str) -> None:
        self.name = name
        self._consumer = consumer
        self._session = consumer.driver_session
        self._group = _check(consumer)
        self._assignment = consumer.assignment
        self._acked: set[Tracker] = set()
        self._lost: Log | None = None
        self._committed = False
        consumer.acks.begin_step(self)

    def cancel(self) -> None:
        """Release the consumer, because the step did not begin."""
        with self._assignment.committing:
            self._consumer.acks.end_step()

    # during the step ---------------------------------------------------------------------------------------

    def ack(self, delivery: Delivery, row: int) -> None:
        """Ack a message in the step."""
        tracker = delivery.tracker
        if isinstance(tracker, Tracker):
            self._acked.add(tracker)
            tracker.ack_pending(delivery, row)
            if self._committed:  # by another thread during this call
                tracker.settle_step()

    def ack_through(self, delivery: Delivery, row: int) -> None:
        """Ack a message and all before it in the step."""
        if isinstance(delivery.tracker, Tracker):
            self._acked.add(delivery.tracker)
            delivery.tracker.ack_through_pending(delivery, row)

    def note_late(self, delivery: Delivery) -> None:
        """Note an ack without effect. If its message was handed over, the step cannot be committed."""
        tracker = delivery.tracker
        if isinstance(tracker, Tracker) and not delivery.live:
            self._lost = delivery.batch.log

    # its end -----------------------------------------------------------------------------------------------

    @contextmanager
    def storing(self, deadline: Deadline) -> Iterator[list[GroupMove]]:
        """Yield the moves for a transaction that the block commits. If the block raises, they are not stored."""
        committing = self._assignment.committing
        if not committing.acquire(timeout=deadline.remaining(NO_TIMEOUT_S)):
            raise Timeout("another commit is running and did not end in time", **self._session.where("commit"))
        try:
            self._check_held()
            changed = self._changed()
            unstored = [tracker for tracker in changed.values() if tracker.dirty]  # with acks from before the step
            try:
                yield self._moves({log: tracker.take_step() for log, tracker in changed.items()})
            except BaseException:
                for tracker in unstored:
                    tracker.put_back()
                raise
            self._committed = True
            for tracker in changed.values():
                tracker.settle_step()
            self._consumer.acks.end_step()
        finally:
            committing.release()

    def _check_held(self) -> None:
        """Raise unless the consumer still has all partitions whose messages were acked in the step."""
        if self._session.closed:
            raise Closed("the consumer of this transaction was closed", **self._session.where("commit"))
        current = {held.tracker for held in self._assignment.all}
        lost = [self._lost] if self._lost else [each.log for each in self._acked - current]
        if lost:
            raise NotAssigned(
                f"{lost[0]!r} was handed over before the transaction was committed",
                **self._session.where("commit"),
                fix="Nothing was stored, and its messages go to its new member: begin another step",
            )

    def _changed(self) -> dict[Log, Tracker]:
        """Return the trackers with unstored acks, or none if this step has no acks."""
        if not self._acked:
            return {}
        trackers = {
            held.log: held.tracker for held in self._assignment.all if held.tracker.dirty or held.tracker in self._acked
        }
        return {log: each for log, each in trackers.items() if isinstance(each, Tracker)}

    def _moves(self, positions: dict[Log, GroupPosition]) -> list[GroupMove]:
        driver = self._session.driver
        if not positions:
            return []
        if driver is None:
            raise NotAssigned("the consumer left its group during the step", **self._session.where("commit"))
        with self._session.context("commit"):
            member = driver.membership()
        return [GroupMove(self._group, positions, member)]

    def give_back(self) -> None:
        """Forget the acks of the step. Unacked messages are delivered again."""
        with self._assignment.committing:
            self._consumer.acks.end_step()
            if self._session.closed:
                return
            for held in self._assignment.all:
                if isinstance(held.tracker, Tracker) and (held.tracker in self._acked or held.tracker.unsettled):
                    held.tracker.drop_step()
                    self._consumer.fetcher.deliver_again(held)
        self._consumer.fetcher.on_settled()

    def ask_again(self, settle: Callable[[Deadline], None]) -> None:
        """Make the consumer look up its group's stored state after ``settle``, as the step's outcome is unknown."""
        with self._assignment.committing:
            self._consumer.acks.end_step()
        self._consumer.join_again(settle)


def _check(consumer: ConsumerSession) -> str:
    """Return the group of a consumer that can join a step. Raise for any other."""
    session = consumer.driver_session
    session.check_open()
    group = session.require_group("take part in a transaction")
    where = session.where("transaction")
    if consumer.shares:
        raise Unsupported(
            "transactions",
            "members that share a log have no position that a transaction could store",
            **where,
            fix="Open the consumer with mode='ordered'",
        )
    if consumer.acks.auto_ack:
        raise TypeError("a transaction stores the acks of its block: open the consumer without auto_ack=")
    if consumer.acks.step is not None:
        raise ConcurrentUse(
            f"the consumer belongs to an open step of the transaction {consumer.acks.step.name!r}",
            **where,
            fix="End that step first",
        )
    return group

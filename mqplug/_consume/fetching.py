"""Polling the driver, and keeping fetched batches until they may be handed out to the caller."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event, get_ident
from typing import TYPE_CHECKING

from mqplug._base.deadline import Deadline
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.delivery import Delivery, StillHolds
from mqplug._consume.delivery_limits import DeliveryLimits
from mqplug._consume.shared_tracker import SharedTracker
from mqplug._model.batch import empty_batch
from mqplug._model.errors import NotAssigned, Timeout, TopicNotFound
from mqplug._model.position import PositionLost

if TYPE_CHECKING:
    from mqplug._consume.assignment import Assignment, HeldPartition
    from mqplug._consume.driver_session import DriverSession
    from mqplug._model.batch import Batch
    from mqplug._model.position import Position
    from mqplug.spi._drivers import ConsumerDriver

logger = logging.getLogger("mqplug")

POLL_SLICE_S = 0.1  # the longest poll, which limits how long Ctrl-C and close wait
POLL_MESSAGES = 1000
OFFERED_MESSAGES = 100  # at a time, to a caller that receives one at a time
DRIVER_CALL_S = 5.0


class Fetcher:
    """The source of a consumer's deliveries, one at a time. One thread at a time may call ``next_delivery``."""

    def __init__(self, driver_session: DriverSession, assignment: Assignment, *, max_unacked: int | None) -> None:
        self._driver_session = driver_session
        self._assignment = assignment
        self._limits = DeliveryLimits(driver_session, assignment, max_unacked)
        self._ready: deque[HeldPartition] = deque()  # partitions with a batch waiting
        self._with_nacked: set[HeldPartition] = set()  # partitions with nacked messages
        self._touched: deque[HeldPartition] = deque()  # partitions whose delivery was ended early
        self._settled = Event()  # cleared when no more can be fetched before an ack
        self.current: Delivery | None = None
        self.before_fetch: Callable[[], None] | None = None  # called before each fetch, for ``auto_ack``
        self.before_poll: Callable[[], None] | None = None
        self.filter_batch: Callable[[HeldPartition, Batch], Batch] | None = None  # filters fetched batches
        self.look_for_topics: Callable[[], bool] | None = None  # for a pattern, whose topics may be gone
        self.leave_group: Callable[[], None] | None = None  # the next fetch joins again
        self.stopping = False
        self._flowing = False  # whether the last poll found messages, so that the driver may offer more
        self._interrupted = False  # whether Ctrl-C ended a fetch, so that polled messages may be lost
        self.in_order = True  # whether a nacked message holds back all that follow in its partition
        self.last_poll = self.last_handled = time.monotonic()
        self._unanswered = False  # whether a poll raised Timeout, and none has returned messages since
        self.polls = 0
        self.gaps = 0  # skipped gaps of removed messages
        self._counted = 0  # messages handed out, except those of deliveries in progress
        self._counting: list[Delivery] = []

    def next_batch(self, deadline: Deadline, most: int) -> Batch | None:
        """Put the rest of an iteration back, and return the next batch, or None as ``next_delivery`` does."""
        lock, call = self._driver_session.lock, object()
        try:
            lock.begin_receive(call)
            self.return_rest()
            while (delivery := self._fetch(deadline, most)) is not None:
                if (batch := delivery.hand_out_all()) is not None:
                    return batch
            return None
        except Exception:
            raise
        except BaseException:
            self._interrupted = True
            raise
        finally:  # without a call, as ``DriverLock`` requires
            if lock.receiver is call:
                lock.receiver = None

    def next_delivery(
        self, deadline: Deadline, most: int, *, anew: bool = False, offered: bool = False
    ) -> Delivery | None:
        """Return the next delivery as soon as there is one; None at the deadline, after stop, and at the end.

        With ``anew``, first put the rest of the last one back. With ``offered``, it may be an offer of the driver.
        """
        lock, call = self._driver_session.lock, object()
        try:
            lock.begin_receive(call)
            if anew:
                self.return_rest()
            return self._fetch(deadline, most, offered=offered)
        except Exception:
            raise
        except BaseException:
            self._interrupted = True
            raise
        finally:
            if lock.receiver is call:
                lock.receiver = None

    def _fetch(self, deadline: Deadline, most: int, *, offered: bool = False) -> Delivery | None:
        if self.before_fetch is not None:
            self.before_fetch()
        lock, me = self._driver_session.lock, get_ident()
        while not self.stopping:
            try:
                lock.enter_to_poll(me)
                self._driver_session.check_open()
                self._assignment.check()
                if (before_poll := self.before_poll) is not None:
                    before_poll()
                if (self._ready or self._touched or self._with_nacked) and (delivery := self._take(most)):
                    return delivery
                if self._assignment.finished:
                    return None
                if offered and self._flowing and (delivery := self._offered()):
                    return delivery
                self._release_settled()
                self._poll(most, deadline.remaining(min(POLL_SLICE_S, self._until_due())))
                delivery = self._take(most)
                self._flowing = delivery is not None
                if delivery:
                    return delivery
            finally:
                if lock.holder == me:
                    lock.holder = None
                    if lock.sleepers:
                        lock.notify()
            if deadline.expired:
                return None
        self._driver_session.check_open()
        return None

    # handing out -------------------------------------------------------------------------------------------

    def _take(self, most: int) -> Delivery | None:
        """Begin to hand out the next allowed batch. The lock is held."""
        if self._interrupted:
            return None
        while self._touched:
            self._put_back(self._touched.popleft())
        still_holds = self._driver_session.still_holds
        if still_holds is not None and not still_holds():
            return None  # the next poll raises the reason
        if self._with_nacked and (again := self._take_returned()):
            return self._hand_out(again)
        for _ in range(len(self._ready)):
            held = self._ready[0]
            if not held.waiting or not self._assignment.is_current(held):
                self._ready.popleft()
                continue
            if delivery := self._take_from(held, most, still_holds):
                if not held.waiting:
                    self._ready.popleft()
                return self._hand_out(delivery)
            if held.waiting:
                self._ready.rotate(-1)
        return None

    def _offered(self) -> Delivery | None:
        """Begin to hand out messages that the driver offers: each is taken when it is handed out. The lock is held."""
        driver = self._driver_session.driver
        if driver is None or self._interrupted or (wanted := self._limits.poll_limit(driver, OFFERED_MESSAGES)) <= 0:
            return None
        offer = driver.offer(wanted)
        if offer is None:
            return None
        self.polls += 1
        self.last_poll = time.monotonic()
        held = self._assignment.get(offer.batch.log)
        if (
            held is None
            or not isinstance(held.tracker, SharedTracker)
            or self._limits.room(held, in_order=self.in_order) <= 0
        ):
            return None
        return self._hand_out(held.tracker.deliver(offer.batch, offer=offer))

    def _take_from(self, held: HeldPartition, most: int, still_holds: StillHolds | None) -> Delivery | None:
        while held.waiting:
            batch = held.waiting[0]
            size = len(batch)
            if not size:
                held.waiting.popleft()
                held.tracker.deliver(batch)
                continue
            room = min(most, self._limits.room(held, in_order=self.in_order))
            if room <= 0:
                return None
            held.waiting.popleft()
            if size > room:
                held.waiting.appendleft(batch[room:])
                batch = batch[:room]
            return held.tracker.deliver(batch, still_holds)
        return None

    def _hand_out(self, delivery: Delivery) -> Delivery:
        self.current = delivery
        self._count([delivery])
        return delivery

    def _count(self, begun: list[Delivery]) -> None:
        counting, self._counting = self._counting, begun
        for each in counting:
            if each.live and each.left:
                self._counting.append(each)
            else:
                self._counted += each.handed_out

    def _release_settled(self) -> None:
        """Release the last delivery if nothing of it is left to hand out or to ack, so that the next reuses its memory.

        Otherwise a fast consumer of a group would keep all messages from one commit to the next.
        """
        delivery = self.current
        if delivery is None or delivery.left or not delivery.live:
            return
        tracker, committing = delivery.tracker, self._assignment.committing
        if isinstance(tracker, Tracker) and not committing.locked():
            with committing:  # rarely waits: only if another thread just took it
                tracker.release_settled()
            if delivery.batch.delivery is not delivery:
                self.current = None
                self._count([])

    def forget(self) -> None:
        """Drop fetched messages, so that a reference to a closed consumer does not keep them.

        The callbacks refer to the owners of this object: without them, all are freed at once.
        """
        self.before_poll = self.filter_batch = self.look_for_topics = self.leave_group = None
        self.current = None
        self._count([])
        self._ready.clear()
        self._touched.clear()
        self._with_nacked.clear()

    @property
    def received(self) -> int:
        """The number of messages that were handed out."""
        return self._counted + sum(each.handed_out for each in list(self._counting))

    def _take_returned(self) -> Delivery | None:
        """Return the delivery of a nacked message that is due again, or None."""
        for held in list(self._with_nacked):
            tracker = held.tracker
            if not isinstance(tracker, Tracker) or not self._assignment.is_current(held):
                self._with_nacked.discard(held)
                continue
            if held.paused or held.busy:
                continue
            if again := tracker.returned.take_due(in_order=self.in_order):
                return again
            if not tracker.returned:
                self._with_nacked.discard(held)
                if tracker.returned:  # another thread nacked a message since the check
                    self._with_nacked.add(held)
        return None

    def _until_due(self) -> float:
        if not self._with_nacked:
            return math.inf
        waits = (
            held.tracker.returned.wait(in_order=self.in_order)
            for held in list(self._with_nacked)
            if isinstance(held.tracker, Tracker) and not held.paused and not held.busy
        )
        return min(waits, default=math.inf)

    # taking back -------------------------------------------------------------------------------------------

    def hold_back(self, held: HeldPartition) -> None:
        """Stop the last delivery of a partition. Its remaining messages wait again. Any thread may call."""
        latest = held.tracker.latest
        if latest is not None:
            latest.hold_back()
        if isinstance(held.tracker, Tracker) and held.tracker.returned:
            self._with_nacked.add(held)
        self._touched.append(held)

    def deliver_again(self, held: HeldPartition) -> None:
        """Deliver all unacked messages of a partition again. Any thread may call."""
        held.aborted = True
        self._touched.append(held)

    def return_rest(self) -> None:
        """Put the remaining messages of an iteration back."""
        delivery = self.current
        if delivery is not None and delivery.live and delivery.left:
            self._flowing = self._flowing and delivery.offer is None  # a refused offer is followed by a poll
            held = self._assignment.get(delivery.batch.log)
            if held is not None and held.tracker is delivery.tracker:
                if delivery.again is not None:
                    delivery.hold_back()
                    delivery.again.present = None
                self.hold_back(held)

    def _put_back(self, held: HeldPartition) -> None:
        if not self._assignment.is_current(held):
            return
        if held.aborted:
            held = self._assignment.rewind(held)
        else:
            held.put_back()
        self._ready.appendleft(held)

    # polling -----------------------------------------------------------------------------------------------

    def _poll(self, most: int, timeout: float) -> None:
        """Poll the driver once. The lock is held."""
        if not self._driver_session.logs:  # no topic matches yet
            time.sleep(timeout)
            return
        driver = self._driver_session.driver or self._driver_session.open(Deadline(DRIVER_CALL_S))
        self.sync_pauses(driver)
        if (wanted := self._limits.poll_limit(driver, most)) <= 0:
            self._wait_for_acks(driver, timeout)
            return
        self.last_poll = time.monotonic()
        self.polls += 1
        try:
            batches = self._polled(driver, wanted, timeout)
        except PositionLost as error:
            self._on_lost_position(driver, error)
            return
        finally:
            self.last_poll = time.monotonic()
        for batch in batches:
            held = self._assignment.accept(batch)
            if held is not None:
                if (filter_batch := self.filter_batch) is not None:
                    held.waiting.append(filter_batch(held, held.waiting.pop()))
                self._ready.append(held)

    def _polled(self, driver: ConsumerDriver, wanted: int, timeout: float) -> Sequence[Batch]:
        try:
            if self._interrupted and not self._fetch_again(driver):
                return ()
            batches = driver.poll(wanted, timeout)
            if self._unanswered and batches:
                self._unanswered = False
                self._driver_session.outage.end()
            return batches
        except Timeout as error:  # the caller's own deadline is checked elsewhere
            self._unanswered = True
            self._driver_session.outage.note(error)
            time.sleep(max(0.0, self.last_poll + timeout - time.monotonic()))
            return ()
        except TopicNotFound:
            if self.look_for_topics is None:
                with self._driver_session.context("receive"):
                    raise
            if not self.look_for_topics():  # it was just deleted or recreated
                time.sleep(max(0.0, self.last_poll + timeout - time.monotonic()))
            return ()
        except Exception:
            with self._driver_session.context("receive"):  # entered only for errors, as it costs time
                raise

    def _fetch_again(self, driver: ConsumerDriver) -> bool:
        """Go back to where the caller is and return True, or leave the group and return False.

        An interrupted fetch loses its polled messages and its place. Going back is impossible in the shared modes and
        during a hand-over.
        """
        assignment, back = self._assignment, False
        if self.leave_group is None or (assignment and not assignment.changing and not self._driver_session.shares):
            try:
                self._seek_back(driver)
                back = True
            except NotAssigned:
                if self.leave_group is None:
                    raise
        if not back and (leave_group := self.leave_group) is not None:
            leave_group()
        self._interrupted = False
        return back

    def _seek_back(self, driver: ConsumerDriver) -> None:
        """Make the driver fetch again. A member starts at its first unacked message, because a seek moves its group."""
        for held in self._assignment.all:
            self._put_back(held)
        self._ready.clear()
        with self._assignment.committing:
            found = {held.log: held.fetch_again() for held in self._assignment.all}
            positions = {log: position for log, position in found.items() if position is not None}
            if positions:
                driver.resume(list(positions))
                driver.seek(positions, DRIVER_CALL_S)
        self.sync_pauses(driver)

    def poll_once(self, timeout: float) -> None:
        """Poll to receive an assignment. The lock is held."""
        try:
            self._poll(1, timeout)
        except Exception:
            raise
        except BaseException:
            self._interrupted = True
            raise

    def _wait_for_acks(self, driver: ConsumerDriver, timeout: float) -> None:
        self._settled.clear()
        for held in self._assignment.all:
            held.tracker.awaited = True
        driver.tend(0)
        if self._limits.poll_limit(driver, 1) <= 0:
            self._settled.wait(timeout)
        self.last_poll = time.monotonic()

    def on_settled(self) -> None:
        """Wake a fetch that waits for an ack."""
        self._settled.set()
        self._driver_session.wake()

    def sync_pauses(self, driver: ConsumerDriver) -> None:
        """Make the driver pause the partitions that cannot be handed out, and resume the others. The lock is held."""
        changed = [held for held in self._assignment.all if held.silenced != (held.paused or bool(held.waiting))]
        if not changed:
            return
        if silence := [held.log for held in changed if not held.silenced]:
            driver.pause(silence)
        if revive := [held.log for held in changed if held.silenced]:
            driver.resume(revive)
        for held in changed:
            held.silenced = not held.silenced

    def _on_lost_position(self, driver: ConsumerDriver, error: PositionLost) -> None:
        """Continue at the low watermark of a partition that retention overtook, or make every receive raise."""
        held = self._assignment.get(error.log) if error.log is not None else None
        if held is None:
            raise error
        if (held.lenient or error.passable) and error.low is not None:
            self._pass_over_gap(driver, held, error, error.low)
        else:
            self._assignment.fail(held.log, error)
            self._assignment.check()

    def _pass_over_gap(self, driver: ConsumerDriver, held: HeldPartition, error: PositionLost, low: Position) -> None:
        """Continue with the first retained message. Existing deliveries and their acks stay valid."""
        log = held.log
        logger.warning(
            "receive from %s[%d]: %s; continuing at %s", log.topic, log.partition, error.message, low.coordinates
        )
        move = driver.pass_over if self._driver_session.shares else driver.seek
        with self._assignment.committing:
            move({held.log: low}, DRIVER_CALL_S)
        self.gaps += 1
        if self._assignment.accept(empty_batch(low)) is not None:
            self._ready.append(held)

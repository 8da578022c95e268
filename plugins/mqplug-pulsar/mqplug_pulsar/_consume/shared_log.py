"""One log of a member that shares it: the client's consumer, opened at the first request, and the messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from threading import Condition
from typing import Any

import _pulsar

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import Deadline, Numbers, Settlement
from mqplug_pulsar._admin import group_notes, groups
from mqplug_pulsar._admin.ack_confirmation import MAX_ACKS_TOGETHER, ack_and_ask, ack_and_wait
from mqplug_pulsar._admin.group_notes import GroupNotes
from mqplug_pulsar._admin.subscriptions import SharedSubscribe
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._cluster.client_calls import retry_while_unreachable
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._cluster.errors import error_from_exception
from mqplug_pulsar._consume.leased_messages import Lease, LeasedMessages
from mqplug_pulsar._consume.permit_feed import PermitFeed
from mqplug_pulsar._consume.received_messages import LeasedRun
from mqplug_pulsar._consume.topic_checks import unreachable
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import Entry
from mqplug_pulsar._settings import PulsarSettings

NOTES_LOOK_S = 5.0  # to find out whether the group was moved, and what is acked
OPEN_S = 5.0  # to open a client's consumer for acks
NOTES_LAST_S = 0.05  # how long a look stays valid: a client needs longer to reconnect when a topic is unloaded
FRESH_S = 0.05  # a message that waits longer is checked again before it is handed out
UNUSED_S = 3.0  # a client's consumer without requests and acks is closed after this time
STUCK_S, MAX_STUCK_S = 2.0, 60.0  # in key_shared, a client's consumer without answers is reopened after these times
RETURN_S = 0.25  # by then, the client library has returned nacked messages
RETURN_SPACING_S = 0.05  # between returns: the client library sends none while they come faster than every 0.033 s

logger = logging.getLogger("mqplug.pulsar")


class SharedLog:
    """The messages of one log that a member has. ``changed`` is the member's condition, whose lock guards the state.

    Methods that end in ``_locked`` expect the lock to be held. The others take it, and may wait for the broker.
    """

    def __init__(
        self,
        connection: PulsarConnection,
        log: Log,
        group: str,
        member: str,
        changed: Condition,
        subscribe: SharedSubscribe,
        *,
        by_key: bool,
    ) -> None:
        self.log = log
        self.paused = False
        self._connection = connection
        self._group = group
        self._member = member
        self._late = 0
        self._changed = changed
        self._subscribe = subscribe
        self._by_key = by_key
        self._leases = LeasedMessages(by_key=by_key)
        self._hand_out = _handing_out(connection.settings)
        self._feed: PermitFeed | None = None
        self._place: Any = None  # a client's consumer that only makes this a member
        self._moving = False  # whether a client's consumer is being opened or closed
        self._closed = False
        self._looking = False
        self._used_at = time.monotonic()
        self._error: BaseException | None = None
        self._notes = GroupNotes()
        self._looked_at = -inf
        self._furthest: Numbers = message_ids.LOG_BEGIN
        self._doubtful: list[Lease] = []  # perhaps acked, or another member has moved the group
        self._unchecked = False  # whether messages wait here that other members may have acked
        self._next_return = -inf
        self._stuck_s, self._stuck_at = STUCK_S, inf
        self._batch_key: tuple[Entry | None, str] = (None, "")  # of the last arrived message
        self._warned = False

    # receiving ---------------------------------------------------------------------------------------------

    def ask_locked(self, most: int) -> None:
        """Request messages from the broker, if there are none here."""
        self._used_at = time.monotonic()
        if self.paused or self._leases.has_expired or self._moving or self._unchecked:
            return
        if self._feed is None:
            self._move(self._open)
        elif self._by_key and self._leases.is_empty and time.monotonic() > self._stuck_at:
            # Pulsar 4.0.8 sometimes reassigns the keys of a member that left only when a client joins or sends.
            self._stuck_s = min(2 * self._stuck_s, MAX_STUCK_S)
            self._stuck_at = time.monotonic() + self._stuck_s
            self._move(self._open_if_stuck)
        else:
            self._feed.ask(most)
            self._stuck_at = min(self._stuck_at, time.monotonic() + self._stuck_s)

    def unask_locked(self) -> None:
        """Request nothing more."""
        self._stuck_at = inf
        if self._feed is not None:
            self._feed.unask()

    def take_locked(self, most: int, ends: float, since: float, oldest: float) -> Batch | None:
        """Return messages to hand out; None if there are none, or if they must be checked first.

        They arrived after ``since``, when the poll began, or very recently, or were checked at ``oldest`` or later.
        """
        if self.paused:
            return None
        now = time.monotonic()
        leases = self._leases.take(most, now, ends)
        if not leases:
            return None
        fresh = min(since, now - FRESH_S)
        if self._connection.admin is not None and not all(
            each.checked_at >= fresh or each.checked_at >= max(each.asked_at, oldest) for each in leases
        ):
            self._leases.put_back(leases, now)
            self._unchecked = True
            return None
        after = message_ids.position_after(leases[-1].place, (leases[-1].size,))
        return Batch(
            self.log, Position(self.log, after), len(leases),
            self._hand_out([each.message for each in leases], [each.attempt for each in leases]),
        )  # fmt: skip

    def judge_locked(self) -> None:
        """Find out what to do with doubtful messages: drop them, ack them again, or forget all earlier ones."""
        if self._looking or not (self._doubtful or self._unchecked):
            return
        self._looking = True
        read = partial(group_notes.read, self._connection, self.log, self._group, NOTES_LOOK_S)
        look = self._connection.calls.start(read)
        look.add_done_callback(partial(self._looked, time.monotonic(), len(self._doubtful)))

    def _looked(self, began: float, count: int, look: Future[GroupNotes]) -> None:
        with self._changed:
            self._looking = self._unchecked = False
            if look.cancelled() or look.exception() is not None:
                self._leases.check(_not_acked, began)  # better handed out twice than never
                return  # the next poll looks at the doubtful ones again
            judged, self._doubtful = self._doubtful[:count], self._doubtful[count:]
            if look.result().seek != self._notes.seek:
                self.give_up_locked(moved=True)
            elif self._feed is not None:
                self._notes, self._looked_at = look.result(), began
                for lease in judged:
                    self._add_locked(lease, acked=self._notes.is_acked(lease.place))
                self._feed.ack(self._leases.check(self._notes.is_acked, began))
            self._changed.notify_all()

    def next_due_locked(self) -> float:
        """Return when the next message must be handed out again."""
        return inf if self.paused else self._leases.next_due()

    @property
    def is_lost(self) -> bool:
        """Whether the client's consumer is disconnected now."""
        return self._feed is not None and not self._feed.is_connected

    def raise_error_locked(self) -> None:
        """Raise the error with which the client's consumer could not be opened, once."""
        native, self._error = self._error, None
        if native is None:
            return
        error = native if isinstance(native, mqplug.Error) else error_from_exception(native, self.log.topic)
        if isinstance(error, mqplug.ConnectError):
            raise unreachable(error, retries="the next receive", topic=self.log.topic)
        raise error.at(topic=self.log.topic)

    def _arrived(self, feed: PermitFeed, message: Any, since: float) -> None:
        lease = Lease(message, since)
        with self._changed:
            if feed is not self._feed:
                return
            self._stuck_s, self._stuck_at = STUCK_S, inf
            again = lease.place <= self._furthest and (lease.attempt == 1 or self._leases.knows(lease.place))
            again = again or (lease.size > 1 and time.monotonic() > self._looked_at + NOTES_LAST_S)
            if self._doubtful or (again and self._connection.admin is not None):
                self._doubtful.append(lease)
            else:
                self._add_locked(lease, acked=self._notes.is_noted(lease.place))
            self._changed.notify_all()

    def _warn_of_mixed_keys(self, lease: Lease) -> None:
        """Warn once if a batch has several keys: the broker uses only the first one.

        Acked messages of a batch do not arrive, so consecutive messages are compared.
        """
        before, self._batch_key = self._batch_key, (lease.entry, lease.key)
        if before[0] == lease.entry and before[1] != lease.key and not self._warned:
            self._warned = True
            logger.warning(
                "key_shared: entry %s of %s[%d] is a batch with several keys. Pulsar gives it to one member by its "
                "first key, so other members may have messages with the other keys. Send them with batching=by_key",
                lease.entry, self.log.topic, self.log.partition,
            )  # fmt: skip

    def _add_locked(self, lease: Lease, *, acked: bool) -> None:
        lease.attempt = max(lease.attempt, self._notes.attempts.get(lease.place, 0) + 1)
        if self._by_key:
            self._warn_of_mixed_keys(lease)
        self._furthest = max(self._furthest, lease.place)
        ack_again = lease.id if acked else self._leases.add(lease)
        if ack_again is not None and self._feed is not None:
            self._feed.ack([ack_again])

    # settling ----------------------------------------------------------------------------------------------

    def settle(self, settled: Settlement, deadline: Deadline) -> None:
        """Ack and return messages. Wait until the broker has the acks."""
        now = time.monotonic()
        with self._changed:
            acked = self._leases.ack(settled.acked)
            gone = self._leases.take_given_away(settled.acked)
            for place, delay in settled.returned:
                self._leases.give_back(place, delay, now)
        back = self._take_back([lease for lease in gone if lease is not None], deadline)
        self._late += len(gone) - len(back)
        with self._changed:
            acked += back
            feed, seek = self._feed, self._notes.seek
            masks = self._leases.acked_parts({lease.entry for lease in acked}, self._notes.acks.masks)
            self._changed.notify_all()
        if not acked or feed is None:
            return

        def store() -> None:
            self._store(feed, acked, masks, deadline)
            if masks:
                group_notes.add_batch_acks_unless_moved(self._connection, self.log, self._group, masks, seek, deadline)

        try:
            retry_while_unreachable(store, deadline)
        except _pulsar.AlreadyClosed:
            if feed is self._feed:
                raise
            self._late += len(acked)  # the group has just been moved
            return
        with self._changed:
            self._leases.stored(acked)
            self._used_at = time.monotonic()

    def stop_clock_locked(self, place: Numbers) -> None:
        """Stop the expiry of a message whose ack is being settled."""
        self._leases.stop_clock(place)

    def take_late(self) -> int:
        """Return how many acks came too late since the last call."""
        late, self._late = self._late, 0
        return late

    def _take_back(self, gone: list[Lease], deadline: Deadline) -> list[Lease]:
        """Ack messages that went back to the broker, if no other member holds any. Return the acked ones."""
        if not gone or not groups.is_free(self._connection, self.log, self._group, self._member, deadline):
            return []
        with self._changed:
            if self._changed.wait_for(lambda: not self._moving, deadline.remaining(OPEN_S)) and self._feed is None:
                self._move(self._open)
                self._changed.wait_for(lambda: not self._moving, deadline.remaining(OPEN_S))
            return self._leases.take_back(gone) if self._feed is not None else []

    def _store(self, feed: PermitFeed, acked: Sequence[Lease], parts: Mapping[Entry, int], deadline: Deadline) -> None:
        """Ack, and wait until the broker has the acks; with the admin interface, until it has written whole entries."""
        whole = {lease.entry for lease in acked} - parts.keys()
        batches = {lease.entry for lease in acked if lease.entry in whole and lease.size > 1}
        ids = [lease.id for lease in acked if lease.entry not in batches]
        ids += [_pulsar.MessageId(-1, *entry, -1) for entry in batches]

        def ack() -> None:
            if self._connection.admin is not None:
                left = max(0.1, deadline.remaining())
                seek = group_notes.last_seek(self._connection, self.log, self._group, left)
                with self._changed:
                    if feed is self._feed and seek != self._notes.seek:
                        self.give_up_locked(moved=True)
            if feed is not self._feed:
                raise _pulsar.AlreadyClosed("the group was moved")
            feed.ack(ids)

        ask = partial(ack_and_ask, self._connection, feed.native, ack, deadline)
        if self._connection.admin is None:
            ask()
        else:
            ack_and_wait(
                self._connection, self.log, self._group, whole, ask if parts else ack, deadline,
                consumer=feed.native, together=len(ids) <= MAX_ACKS_TOGETHER,
            )  # fmt: skip

    # giving back -------------------------------------------------------------------------------------------

    def return_due_locked(self) -> float:
        """Return due messages to the broker. Return when to call this next."""
        now = time.monotonic()
        if now < self._next_return or self._feed is None:
            return max(self._next_return, self._leases.next_return())
        if ids := self._leases.due_returns(now):
            self._feed.nack(ids)
            self._next_return = now + RETURN_SPACING_S
        if self._by_key and self._leases.has_expired and not self._leases.has_in_hand:
            self.give_up_locked(count=True)  # or the broker hands it to this member again, which has its key
        return max(now + RETURN_SPACING_S, self._leases.next_return())

    def rest_locked(self) -> None:
        """Give back messages that no poll takes, unless messages are in hand or wait for their delay."""
        now = time.monotonic()
        if self._moving or not self._leases.is_idle(now):
            return
        unused = now > self._used_at + UNUSED_S
        # After a reconnect, the client library may hold a message that has not arrived here.
        if self._feed is not None and (unused or self._keeps_from_others_locked()):
            self.give_up_locked(count=True)
        elif self._by_key and unused and self._place is not None:
            self._move(self._leave_place)  # its keys go to other members

    def _keeps_from_others_locked(self) -> bool:
        return not self._by_key and (bool(self._doubtful) or not self._leases.is_empty)

    def give_up_locked(self, *, count: bool = False, moved: bool = False) -> None:
        """Give back everything; the next poll begins anew. With ``count`` the broker counts failed attempts.

        If the group was ``moved``, acks of messages in hand come too late.
        """
        feed, self._feed = self._feed, None
        nacked = self._leases.nacked() if count else []
        attempts = self._leases.expired_attempts() if count else {}
        self._leases.clear(moved=moved)
        self._doubtful = []
        if feed is None:
            return

        def leave() -> None:
            if attempts:
                deadline = Deadline(NOTES_LOOK_S)
                group_notes.note_attempts(self._connection, self.log, self._group, attempts, deadline)
            _leave(feed, nacked, RETURN_S)

        self._move(leave)

    def close(self, timeout: float) -> None:
        """Give back everything and leave the group."""
        with self._changed:
            self._closed = True
            feed, self._feed = self._feed, None
            nacked = self._leases.nacked()
            self._leases.clear()
        if feed is not None:
            _leave(feed, nacked, min(RETURN_S, timeout / 2))
        self._leave_place()

    # opening -----------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Become a member at the broker, without requesting messages."""
        self._place = self._subscribe(self.log, None)

    def _leave_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            with suppress(_pulsar.PulsarException, ValueError):  # closed with its client, or by the broker
                place.close()

    def _open(self) -> None:
        """Open the client's consumer, and close the former one."""
        began = time.monotonic()
        notes = group_notes.read(self._connection, self.log, self._group, NOTES_LOOK_S)
        if self._by_key:
            self._leave_place()  # a consumer of the same name gets the same keys
        with self._changed:
            if self._closed:  # nobody would close it
                return
            self._notes, self._looked_at, self._furthest = notes, began, message_ids.LOG_BEGIN
            self._stuck_at = time.monotonic() + self._stuck_s
            before, feed = self._feed, PermitFeed(self.log, self._arrived)
            self._feed = feed
        try:
            feed.open(partial(self._subscribe, self.log))
        except BaseException:
            with self._changed:
                self._feed = None if self._feed is feed else self._feed
            raise
        finally:
            if before is not None:  # only now: the broker forgets all attempts when no consumer is connected
                before.close()
        with self._changed:
            given_up = self._feed is not feed
        if given_up:
            feed.close()

    def _open_if_stuck(self) -> None:
        """Reopen the client's consumer, but only if messages may wait for that: it moves keys between members."""
        if groups.may_be_stuck(self._connection, self.log, self._group, NOTES_LOOK_S):
            self._open()

    def _move(self, call: Callable[[], None]) -> None:
        """Open or close client consumers, one call at a time. The lock is held."""
        with suppress(mqplug.Closed):  # then the client closes them itself
            self._moving = True
            self._connection.calls.start(call).add_done_callback(self._moved)

    def _moved(self, moving: Future[Any]) -> None:
        with self._changed:
            self._moving = False
            self._error = None if moving.cancelled() else moving.exception()
            self._changed.notify_all()


def _handing_out(settings: PulsarSettings) -> Callable[[list[Any], Sequence[int]], LeasedRun]:
    """Return the function that makes columns of handed-out messages and their attempts."""
    if compiled_part.find(settings, "reads") is None:
        return LeasedRun
    from mqplug_pulsar._consume.compiled_reading import hand_out_collected

    return hand_out_collected


def _not_acked(_: Numbers) -> bool:
    return False


def _leave(feed: PermitFeed, nacked: list[Any], wait_s: float) -> None:
    """Return failed messages, so that the broker counts the attempts, then close the client's consumer."""
    if nacked:
        feed.nack(nacked)
        time.sleep(wait_s)
    feed.close()

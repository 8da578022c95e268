"""One log of a member that shares it: its native consumer, opened when it is first asked, and its messages."""

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

NOTES_LOOK_S = 5.0  # for finding out whether the group was moved, and what is acked
OPEN_S = 5.0  # for opening a native consumer through which to ack
NOTES_LAST_S = 0.05  # so long a look counts: a client needs longer to connect again when a topic is unloaded
FRESH_S = 0.05  # a message that waits longer is looked up again before it is handed out
UNUSED_S = 3.0  # after which a native consumer is closed that is neither asked for messages nor acks any
STUCK_S, MAX_STUCK_S = 2.0, 60.0  # after which a native consumer that asks in vain is opened again, in key_shared
RETURN_S = 0.25  # after which the native client has returned nacked messages
RETURN_SPACING_S = 0.05  # between returns: the native client sends none while they come faster than each 0.033 s

logger = logging.getLogger("mqplug.pulsar")


class SharedLog:
    """The messages of one log that a member has. ``changed`` is the member's condition, whose lock guards the state.

    Methods that end in ``_locked`` expect that it is held. The others take it, and may wait for the broker.
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
        self._place: Any = None  # a native consumer that only counts as a member
        self._moving = False  # whether a native consumer is being opened or closed
        self._looking = False
        self._used_at = time.monotonic()
        self._error: BaseException | None = None
        self._notes = GroupNotes()
        self._looked_at = -inf
        self._furthest: Numbers = message_ids.LOG_BEGIN
        self._doubtful: list[Lease] = []  # perhaps acked, or another member has moved the group
        self._unchecked = False  # whether messages wait here that other members may have acked meanwhile
        self._next_return = -inf
        self._stuck_s, self._stuck_at = STUCK_S, inf
        self._batch_key: tuple[Entry | None, str] = (None, "")  # of the message that came last
        self._warned = False

    # receiving ---------------------------------------------------------------------------------------------

    def ask_locked(self, most: int) -> None:
        """Have the broker send messages, if there are none here."""
        self._used_at = time.monotonic()
        if self.paused or self._leases.has_expired or self._moving or self._unchecked:
            return
        if self._feed is None:
            self._move(self._open)
        elif self._by_key and self._leases.is_empty and time.monotonic() > self._stuck_at:
            # Pulsar 4.0.8 does not always pass on the keys of a member that left, until somebody joins or sends.
            self._stuck_s = min(2 * self._stuck_s, MAX_STUCK_S)
            self._stuck_at = time.monotonic() + self._stuck_s
            self._move(self._open_if_stuck)
        else:
            self._feed.ask(most)
            self._stuck_at = min(self._stuck_at, time.monotonic() + self._stuck_s)

    def unask_locked(self) -> None:
        """Ask for nothing more."""
        self._stuck_at = inf
        if self._feed is not None:
            self._feed.unask()

    def take_locked(self, most: int, ends: float, since: float, oldest: float) -> Batch | None:
        """Return messages to hand out; None if there are none, or if they have to be checked first.

        They came ``since`` the poll began, or shortly before now, or were checked for this, at ``oldest`` or later.
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
        behind = message_ids.position_behind(leases[-1].place, (leases[-1].size,))
        return Batch(
            self.log, Position(self.log, behind), len(leases),
            self._hand_out([each.message for each in leases], [each.attempt for each in leases]),
        )  # fmt: skip

    def judge_locked(self) -> None:
        """Find out what to do with doubtful messages: drop them, ack them again, or forget all that came before."""
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
                self._leases.check(_not_acked, began)  # others may get them twice, rather than never
                return  # the next poll looks again at the doubtful ones
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
        """Return when a message is to be handed out again."""
        return inf if self.paused else self._leases.next_due()

    @property
    def is_lost(self) -> bool:
        """Whether the native consumer is not connected now."""
        return self._feed is not None and not self._feed.is_connected

    def raise_error_locked(self) -> None:
        """Raise why the native consumer could not be opened, once."""
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
        """Warn once if a batch has several keys: the broker looks at the first one only.

        The messages of a batch that are acked do not come.
        """
        before, self._batch_key = self._batch_key, (lease.entry, lease.key)
        if before[0] == lease.entry and before[1] != lease.key and not self._warned:
            self._warned = True
            logger.warning(
                "key_shared: entry %s of %s[%d] is a batch with several keys, which Pulsar gives to one member by the "
                "first key, so another member may have messages of the other keys. Send them with batching=by_key",
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
            self._late += len(acked)  # the group was moved meanwhile
            return
        with self._changed:
            self._leases.stored(acked)
            self._used_at = time.monotonic()

    def stop_clock_locked(self, place: Numbers) -> None:
        """Keep a message that was acked until it is settled."""
        self._leases.stop_clock(place)

    def take_late(self) -> int:
        """Return how many acks came too late since this was last asked."""
        late, self._late = self._late, 0
        return late

    def _take_back(self, gone: list[Lease], deadline: Deadline) -> list[Lease]:
        """Ack messages that went back to the broker, if no other member has any. Return those that were acked."""
        if not gone or not groups.is_free(self._connection, self.log, self._group, self._member, deadline):
            return []
        with self._changed:
            if self._changed.wait_for(lambda: not self._moving, deadline.remaining(OPEN_S)) and self._feed is None:
                self._move(self._open)
                self._changed.wait_for(lambda: not self._moving, deadline.remaining(OPEN_S))
            return self._leases.take_back(gone) if self._feed is not None else []

    def _store(self, feed: PermitFeed, acked: Sequence[Lease], parts: Mapping[Entry, int], deadline: Deadline) -> None:
        """Ack, and wait until the broker has it; with the admin interface, until it has written whole entries."""
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
        """Return to the broker what is due, and tell when to call this next."""
        now = time.monotonic()
        if now < self._next_return or self._feed is None:
            return max(self._next_return, self._leases.next_return())
        if ids := self._leases.due_returns(now):
            self._feed.nack(ids)
            self._next_return = now + RETURN_SPACING_S
        if self._by_key and self._leases.has_expired and not self._leases.has_in_hand:
            self.give_up_locked(count=True)  # else the broker hands it out to this member again, which has its key
        return max(now + RETURN_SPACING_S, self._leases.next_return())

    def rest_locked(self) -> None:
        """Give back what nobody takes here, unless messages are in hand or wait for their delay."""
        now = time.monotonic()
        if self._moving or not self._leases.is_idle(now):
            return
        unused = now > self._used_at + UNUSED_S
        # The native client may have a message that is not seen here, after it has connected again.
        if self._feed is not None and (unused or self._keeps_from_others_locked()):
            self.give_up_locked(count=True)
        elif self._by_key and unused and self._place is not None:
            self._move(self._leave_place)  # its keys go to other members

    def _keeps_from_others_locked(self) -> bool:
        return not self._by_key and (bool(self._doubtful) or not self._leases.is_empty)

    def give_up_locked(self, *, count: bool = False, moved: bool = False) -> None:
        """Give back everything; the next poll begins anew. With ``count`` the broker counts failed attempts.

        If the group was ``moved``, acks of what is in hand come too late.
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
        """Give back everything, for good."""
        with self._changed:
            feed, self._feed = self._feed, None
            nacked = self._leases.nacked()
            self._leases.clear()
        if feed is not None:
            _leave(feed, nacked, min(RETURN_S, timeout / 2))
        self._leave_place()

    # opening -----------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Become a member for the broker, without asking for messages."""
        self._place = self._subscribe(self.log, None)

    def _leave_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            with suppress(_pulsar.PulsarException, ValueError):  # closed with its client, or by the broker
                place.close()

    def _open(self) -> None:
        """Open the native consumer, and close the one before."""
        began = time.monotonic()
        notes = group_notes.read(self._connection, self.log, self._group, NOTES_LOOK_S)
        if self._by_key:
            self._leave_place()  # the same keys belong to a consumer of the same name
        with self._changed:
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
            if before is not None:  # only now: the broker forgets all attempts when nobody is connected
                before.close()
        with self._changed:
            given_up = self._feed is not feed
        if given_up:
            feed.close()

    def _open_if_stuck(self) -> None:
        """Open the native consumer anew if messages may wait for that. Else not: it would move keys of others."""
        if groups.may_be_stuck(self._connection, self.log, self._group, NOTES_LOOK_S):
            self._open()

    def _move(self, call: Callable[[], None]) -> None:
        """Open or close native consumers, one call at a time. The lock is held."""
        with suppress(mqplug.Closed):  # then the client closes them
            self._moving = True
            self._connection.calls.start(call).add_done_callback(self._moved)

    def _moved(self, moving: Future[Any]) -> None:
        with self._changed:
            self._moving = False
            self._error = None if moving.cancelled() else moving.exception()
            self._changed.notify_all()


def _handing_out(settings: PulsarSettings) -> Callable[[list[Any], Sequence[int]], LeasedRun]:
    """Return what makes columns of messages that are handed out, with their attempts."""
    if compiled_part.find(settings, "reading") is None:
        return LeasedRun
    from mqplug_pulsar._consume.compiled_reading import hand_out_collected

    return hand_out_collected


def _not_acked(_: Numbers) -> bool:
    return False


def _leave(feed: PermitFeed, nacked: list[Any], wait_s: float) -> None:
    """Close a native consumer; before, return messages that failed, so that the broker counts the attempt."""
    if nacked:
        feed.nack(nacked)
        time.sleep(wait_s)
    feed.close()

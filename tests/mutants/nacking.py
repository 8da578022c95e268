"""Acks, nacks, dead letters and limits of unacked messages that are wrong."""

from __future__ import annotations

import math
import time

import attrs

from mqplug import Batch, CloseIncomplete, ConfigError, Producer
from mqplug._client.client_session import ClientSession
from mqplug._consume import dead_letters, handler_threads, opening
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.acking import Acknowledgements
from mqplug._consume.consumer_session import ConsumerSession
from mqplug._consume.delivery import ACKED, Delivery
from mqplug._consume.delivery_limits import DeliveryLimits
from mqplug._consume.driver_session import DriverSession
from mqplug._consume.key_lanes import KeyLanes
from mqplug.memory._consumer import MemorySharedConsumer
from mqplug.spi import Settlement
from mqplug.spi.groups import Leases
from mqplug_testing.contract.test_ack_returning import BRIEF
from mutants.base import Mutant, Proxy


def acks_whatever(settler, message):
    """Ack without checking whether the message was nacked."""
    delivery, index = settler._delivered(message, "ack")
    delivery.flags[index] = ACKED
    delivery.tracker.dirty = True


def takes_as_done(tracker, delivery, row, delay):
    """Ack instead of nacking."""
    delivery.flags[row] = ACKED
    tracker.dirty = True


def acks_all_there_is(delivery, *, more_wanted):
    """Ack undelivered messages together with the one in hand."""
    delivery.flags[:] = bytes((ACKED,)) * len(delivery.flags)


def gives_up(session, deadline):
    """End a close with the first error."""
    raise CloseIncomplete("the last acks could not be stored")


EXPIRE = Leases._expire


def lapses_uncounted(table, now):
    """Expire leases without counting an attempt."""
    before = {at: each.attempt for at, each in table._open.items()}
    EXPIRE(table, now)
    for at, attempt in before.items():
        table._open[at].attempt = attempt


def forgets_who_had_it(table, now):
    """Expire leases without remembering their members."""
    EXPIRE(table, now)
    for each in table._open.values():
        each.lapsed = None


BURY = Acknowledgements._bury
STATE = Tracker.state


def wherever(session, topic, logs, create, deadline):
    """Open the dead-letter producer without any check of its topic."""
    return Producer(session.open_producer(topic, create=create))


def buried_or_lost(settler, letters, message, delivery, reason):
    """Treat a message that cannot become a dead letter as done."""
    try:
        BURY(settler, letters, message, delivery, reason)
    except ConfigError:
        delivery.tracker.returned.forget(next(iter(delivery.tracker.returned)))
        delivery.tracker.dirty = True
        raise


class LastWordCounts(Mutant):
    case = "ACK-06"
    patches = ((Acknowledgements, "ack", acks_whatever),)


class NackIsAck(Mutant):
    case = "ACK-07"
    patches = ((Tracker, "give_back", takes_as_done),)


class LosesWhatIsGivenBack(Mutant):
    case = "ACK-07-shared"

    class Consumer(Proxy):
        def settle(self, settled, timeout):
            self.inner.settle({log: Settlement(each.acked) for log, each in settled.items()}, timeout)


class GoesOn(Mutant):
    """Delivers other messages in ordered mode, too, while a nacked one waits."""

    case = "ACK-08"
    patches = ((DeliveryLimits, "room", lambda limits, held, in_order: math.inf),)


class CountsNoAttempts(Mutant):
    case = "ACK-08"
    patches = ((Batch, "with_attempts", lambda batch, attempts: batch),)


class HoldsEverybodyBack(Mutant):
    case = "ACK-08-shared"

    class Consumer(Proxy):
        waits = False

        def settle(self, settled, timeout):
            self.waits = any(each.returned for each in settled.values())
            self.inner.settle(settled, timeout)

        def poll(self, most, timeout):
            found = self.inner.poll(most, timeout)
            if self.waits and any(set(batch.attempts) == {1} for batch in found):
                self.inner.settle({b.log: Settlement(returned=[(at, 1) for at in b.coordinates]) for b in found}, 1)
                return []
            return found


class WaitsForEver(Mutant):
    case = "ACK-11"
    patches = ((ConsumerSession, "_is_gone", lambda consumer, now: False),)


class KnowsNoDeadline(Mutant):
    case = "ACK-11-shared"

    def open(self, connection, options, listener):
        return super().open(connection, attrs.evolve(options, max_processing=None), listener)


class CountsNoLapse(Mutant):
    """Delivers a message again after max_processing without counting an attempt."""

    case = "ACK-11-shared"
    patches = ((Leases, "_expire", lapses_uncounted),)


class LetsTheClockRun(Mutant):
    """Does not stop the clock of max_processing at an ack."""

    case = "ACK-31"
    patches = ((DriverSession, "stop_clock", lambda session, log, coordinates: None),)


class DropsLateAcks(Mutant):
    """Ignores an ack after max_processing, even if no other member has taken the message."""

    case = "ACK-32"
    patches = ((Leases, "_expire", forgets_who_had_it),)


class CountsNoLateAcks(Mutant):
    case = "ACK-32"

    class Consumer(Proxy):
        def settle(self, settled, timeout):
            self.inner.settle(settled, timeout)


class TakesLateAcks(Mutant):
    """Counts an ack after max_processing, even if another member has the message."""

    case = "ACK-32"
    patches = ((Leases, "settle", lambda table, member, settled: Leases.settle_late(table, settled) or 0),)


class TakesFromAllPartitions(Mutant):
    """Takes messages of all partitions in one poll, long before the core hands out the last of them."""

    case = "ACK-34"
    patches = ((MemorySharedConsumer, "_shares", False),)


class RemembersLateAcks(Mutant):
    """Acks a message with a late ack whenever it comes again, even after a seek."""

    case = "ACK-33"

    class Consumer(Proxy):
        def __init__(self, inner, mutant):
            super().__init__(inner, mutant)
            self.taken, self.late = {}, set()

        def poll(self, most, timeout):
            kept = []
            for batch in self.inner.poll(most, timeout):
                if again := [at for at in batch.coordinates if (batch.log, at) in self.late]:
                    self.inner.settle({batch.log: Settlement(again)}, timeout)
                rows = [row for row, at in enumerate(batch.coordinates) if at not in again]
                self.taken |= {(batch.log, batch.coordinates[row]): time.monotonic() for row in rows}
                kept += [batch.take(rows, batch.next_position)] if rows else []
            return kept

        def settle(self, settled, timeout):
            now = time.monotonic()
            for log, each in settled.items():
                self.late |= {(log, at) for at in each.acked if now - self.taken[log, at] > BRIEF}
            return self.inner.settle(settled, timeout)


class AcksWhatIsInHand(Mutant):
    case = "ACK-12"

    patches = ((Delivery, "ack_seen", acks_all_there_is),)


class KnowsNoIds(Mutant):
    """Counts every ack by id as late."""

    case = "ACK-17"
    patches = (
        (Acknowledgements, "_find", lambda settler, each, what: (settler._assignment.get(each.log).tracker.passed, 0)),
    )


class GivesNoReason(Mutant):
    case = "ACK-18"
    patches = ((dead_letters, "REASON", "why"),)


class BuriesNothing(Mutant):
    case = "ACK-18"
    patches = ((dead_letters.DeadLetters, "send", lambda letters, message, reason, done: done(None)),)


class BuriesAtHome(Mutant):
    """Accepts a topic as its own dead-letter topic."""

    case = "ACK-26"
    patches = (
        (opening.ConsumerRequest, "_check_dead_letter", lambda wanted, topics: None),
        (ClientSession, "_open_dead_letters", wherever),
    )


class GoesRoundForEver(Mutant):
    case = "ACK-27"
    patches = ((dead_letters, "MAX_HOPS", math.inf),)


class LosesWhatGoesRound(Mutant):
    """Treats a message that circulates among dead-letter topics as done."""

    case = "ACK-27"
    patches = ((Acknowledgements, "_bury", buried_or_lost),)


class TakesUselessDeadLetters(Mutant):
    case = "ACK-28"
    patches = ((opening.ConsumerRequest, "_check_dead_letter", lambda wanted, topics: None),)


class KnowsNoBounds(Mutant):
    case = "ACK-20"
    patches = ((DeliveryLimits, "room", lambda limits, held, in_order: math.inf),)


class SharesWithoutBounds(Mutant):
    case = "ACK-20-shared"
    patches = ((DeliveryLimits, "poll_limit", lambda limits, driver, most: most),)


class StoresAllOrNothing(Mutant):
    """Stores no acks of other topics if one topic is gone."""

    case = "ERR-13"
    patches = ((Acknowledgements, "_store_topic_by_topic", lambda settler, changes, deadline: None),)


class GivesUpAtClose(Mutant):
    """Releases nothing in a close that fails."""

    case = "CLS-12"

    patches = ((ConsumerSession, "_settle_at_close", gives_up),)


class HandlesByPartitionAlone(Mutant):
    """Orders by partition where an order by key is requested."""

    case = "KEY-13"
    patches = ((handler_threads, "handles_by_partition", lambda mode, order: mode in {"ordered", "exclusive"}),)


class PassesWhatFailed(Mutant):
    """Delivers messages of a key while a failed one of it waits."""

    case = "KEY-13"
    patches = ((KeyLanes, "block", lambda lanes, lane, message: None),)


class StoresNoGaps(Mutant):
    """Stores no acks after an unacked message."""

    case = "KEY-13"
    patches = ((Tracker, "state", lambda tracker: attrs.evolve(STATE(tracker), acked=())),)

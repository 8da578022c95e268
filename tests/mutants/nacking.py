"""Acks that are kept back, given back or bounded wrongly."""

from __future__ import annotations

import math
import time

import attrs

from mqplug import CloseIncomplete, ConfigError, Producer
from mqplug._client.client_session import ClientSession
from mqplug._consume import dead_letters, handler_threads, opening
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.acking import Acknowledgements
from mqplug._consume.consumer_session import ConsumerSession
from mqplug._consume.delivery import ACKED, Delivery
from mqplug._consume.driver_session import DriverSession
from mqplug._consume.fetching import Fetcher
from mqplug._consume.key_lanes import KeyLanes
from mqplug._model.batch import Batch
from mqplug.spi import Settlement
from mqplug.spi.groups import Leases
from mqplug_testing.contract.test_ack_returning import BRIEF
from mutants.base import Mutant, Proxy


def acks_whatever(settler, message):
    """An ack that does not look whether the message was given back."""
    delivery, index = settler._delivered(message, "ack")
    delivery.flags[index] = ACKED
    delivery.tracker.dirty = True


def takes_as_done(tracker, delivery, row, delay):
    """A nack that is an ack."""
    delivery.flags[row] = ACKED
    tracker.dirty = True


def acks_all_there_is(delivery, *, more_wanted):
    """What is in hand, and what was not handed out, is acked too."""
    delivery.flags[:] = bytes((ACKED,)) * len(delivery.flags)


def gives_up(session, deadline):
    """A close that ends with the first error."""
    raise CloseIncomplete("the last acks could not be stored")


EXPIRE = Leases._expire


def lapses_uncounted(table, now):
    """The time is over, and the attempt stays the same."""
    before = {at: each.attempt for at, each in table._open.items()}
    EXPIRE(table, now)
    for at, attempt in before.items():
        table._open[at].attempt = attempt


def forgets_who_had_it(table, now):
    """The time is over, and nobody knows whose it was."""
    EXPIRE(table, now)
    for each in table._open.values():
        each.lapsed = None


BURY = Acknowledgements._bury
STATE = Tracker.state


def wherever(session, topic, logs, create, deadline):
    """Dead letters go wherever they are to go."""
    return Producer(session.open_producer(topic, create=create))


def buried_or_lost(settler, letters, message, delivery, reason):
    """What cannot be buried is taken for done."""
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
    """In order, too, the others go on."""

    case = "ACK-08"
    patches = ((Fetcher, "_room", lambda fetcher, held: math.inf),)


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
    """What was kept too long comes again as the same attempt."""

    case = "ACK-11-shared"
    patches = ((Leases, "_expire", lapses_uncounted),)


class LetsTheClockRun(Mutant):
    """An ack stops no clock."""

    case = "ACK-31"
    patches = ((DriverSession, "stop_clock", lambda session, log, coordinates: None),)


class DropsLateAcks(Mutant):
    """After the time an ack counts no more, even if nobody has taken the message."""

    case = "ACK-32"
    patches = ((Leases, "_expire", forgets_who_had_it),)


class CountsNoLateAcks(Mutant):
    case = "ACK-32"

    class Consumer(Proxy):
        def settle(self, settled, timeout):
            self.inner.settle(settled, timeout)


class TakesLateAcks(Mutant):
    """An ack after the time counts, even if another member has the message."""

    case = "ACK-32"
    patches = ((Leases, "settle", lambda table, member, settled: Leases.settle_late(table, settled) or 0),)


class RemembersLateAcks(Mutant):
    """A message that was acked after its time is acked again when it comes, even after a seek."""

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
    """Whoever acks by id is late."""

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
    """A topic may be its own dead-letter topic."""

    case = "ACK-26"
    patches = (
        (opening.ConsumerRequest, "_check_dead_letter", lambda wanted, topics: None),
        (ClientSession, "_open_dead_letters", wherever),
    )


class GoesRoundForEver(Mutant):
    case = "ACK-27"
    patches = ((dead_letters, "MAX_HOPS", math.inf),)


class LosesWhatGoesRound(Mutant):
    """What goes round in a circle is taken for done."""

    case = "ACK-27"
    patches = ((Acknowledgements, "_bury", buried_or_lost),)


class TakesUselessDeadLetters(Mutant):
    case = "ACK-28"
    patches = ((opening.ConsumerRequest, "_check_dead_letter", lambda wanted, topics: None),)


class KnowsNoBounds(Mutant):
    case = "ACK-20"
    patches = ((Fetcher, "_room", lambda fetcher, held: math.inf),)


class SharesWithoutBounds(Mutant):
    case = "ACK-20-shared"
    patches = ((Fetcher, "_poll_limit", lambda fetcher, most: most),)


class StoresAllOrNothing(Mutant):
    """A topic that is gone keeps the acks of the others from being stored."""

    case = "ERR-13"
    patches = ((Acknowledgements, "_store_topic_by_topic", lambda settler, changes, deadline: None),)


class GivesUpAtClose(Mutant):
    """A close that fails lets go of nothing."""

    case = "CLS-12"

    patches = ((ConsumerSession, "_settle_at_close", gives_up),)


class HandlesByPartitionAlone(Mutant):
    """An order by key is taken for one by partition."""

    case = "KEY-13"
    patches = ((handler_threads, "handles_by_partition", lambda mode, order: mode in {"ordered", "exclusive"}),)


class PassesWhatFailed(Mutant):
    """Those of a key do not wait for the one that failed."""

    case = "KEY-13"
    patches = ((KeyLanes, "block", lambda lanes, lane, message: None),)


class StoresNoGaps(Mutant):
    """What was acked behind an unacked message is not stored."""

    case = "KEY-13"
    patches = ((Tracker, "state", lambda tracker: attrs.evolve(STATE(tracker), acked=())),)

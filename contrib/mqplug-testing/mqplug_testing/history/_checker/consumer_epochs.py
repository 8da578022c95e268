"""The messages that each consumer received from each partition, from one seek or hand-over to the next."""

from __future__ import annotations

from collections import defaultdict

import attrs

from mqplug_testing.history._checker.seen_logs import ANYWHERE, PositionRange, SeenLogs, expected_range
from mqplug_testing.history._events import (
    AcksCommitted,
    ConsumerClosed,
    ConsumerOpened,
    ConsumerSought,
    Coordinates,
    Event,
    MessageAcked,
    MessageNacked,
    MessageReceived,
    PartitionsAssigned,
    PartitionsRevoked,
)
from mqplug_testing.history._history import History


@attrs.define(eq=False)
class Ack:
    """An ack of one message. ``stored`` is the call that surely stored it, or None if unknown.

    ``since`` is the earliest moment at which its consumer may have taken the message: a consumer that shares its logs
    holds messages in advance, and its acks of them have no effect after another member moved the group.
    """

    event: Event
    consumer: str
    since: int
    stored: Event | None = None


@attrs.define(eq=False)
class Epoch:
    """The deliveries of a partition to a consumer without a move.

    ``expected`` is where it had to begin; None if the group's position decided. ``began`` is the earliest moment at
    which that position may have been read.
    """

    opened: Event
    partition: int
    began: int
    expected: PositionRange | None
    cause: Event
    ended: int | None = None
    deliveries: list[Event] = attrs.field(factory=list)
    given_back: list[Event] = attrs.field(factory=list)

    @property
    def consumer(self) -> ConsumerOpened:
        """The opening of its consumer."""
        assert isinstance(self.opened.did, ConsumerOpened)
        return self.opened.did

    @property
    def group(self) -> str | None:
        """The group of the consumer."""
        return self.consumer.group


class Epochs:
    """All epochs of a history, and the acks in them."""

    def __init__(self, history: History, logs: SeenLogs) -> None:
        self._logs = logs
        self.opened = {each.did.consumer: each for each in history.events if isinstance(each.did, ConsumerOpened)}
        self.left = {each.did.consumer: each.ended for each in history.events if isinstance(each.did, ConsumerClosed)}
        self.all: list[Epoch] = []
        self.after: dict[tuple[int, int], Epoch] = {}  # by the number of the event that began it, and the partition
        self.acks: dict[tuple[str, int, Coordinates], list[Ack]] = defaultdict(list)
        self.gave_back: dict[tuple[int, Coordinates], set[str]] = defaultdict(set)
        self._now: dict[tuple[str, int], Epoch] = {}
        self._over: dict[tuple[str, int], Epoch] = {}  # the previous one
        self._last: dict[tuple[str, int], tuple[int, Epoch]] = {}  # with the time of the call that returned messages
        self._got_in: dict[tuple[str, int, Coordinates], Epoch] = {}  # the epoch of each message's last delivery
        self._unstored: dict[str, list[tuple[Ack, Epoch]]] = defaultdict(list)
        for event in history.events:
            self._note(event)

    def _note(self, event: Event) -> None:
        match event.did:
            case MessageReceived():
                epoch = self._handed_out_in(event, event.did.consumer, event.did.partition)
                epoch.deliveries.append(event)
                self._got_in[event.did.consumer, event.did.partition, event.did.id] = epoch
            case MessageNacked():
                self._at(event, event.did.consumer, event.did.partition).given_back.append(event)
                self.gave_back[event.did.partition, event.did.id].add(event.did.consumer)
            case MessageAcked():
                self._note_ack(event, event.did)
            case PartitionsAssigned(consumer=consumer, partitions=partitions):
                for partition in partitions:
                    self._begin(self._cause(event, consumer, partition), consumer, partition, None)
            case PartitionsRevoked(consumer=consumer, partitions=partitions):
                for partition in partitions:
                    self._end(event, consumer, partition)
            case ConsumerSought():
                self._note_seek(event, event.did)
            case AcksCommitted(consumer=consumer) | ConsumerClosed(consumer=consumer) if event.ok:
                self._store(event, consumer)
            case _:
                pass

    # epochs ------------------------------------------------------------------------------------------------

    def _at(self, event: Event, consumer: str, partition: int) -> Epoch:
        """Return the current epoch of a consumer in a partition; the first one begins where the consumer was opened."""
        present = self._now.get((consumer, partition))
        if present is not None:
            return present
        opened = self._opened(consumer, event)
        assert isinstance(opened.did, ConsumerOpened)
        start = None
        if opened.did.group is None and opened.ok:
            start = expected_range(self._logs, opened.did.start, partition, opened, lenient=_lenient(opened.did))
        return self._begin(opened, consumer, partition, start)

    def _handed_out_in(self, event: Event, consumer: str, partition: int) -> Epoch:
        """Return the epoch of a delivery. All messages of one call belong to one epoch, even if it was over when they
        were recorded.
        """
        before = self._last.get((consumer, partition))
        if before is not None and before[0] == event.began:
            return before[1]
        ended = self._over.get((consumer, partition))
        if (consumer, partition) not in self._now and ended is not None and event.began <= (ended.ended or 0):
            epoch = ended
        else:
            epoch = self._at(event, consumer, partition)
        self._last[consumer, partition] = event.began, epoch
        return epoch

    def _opened(self, consumer: str, event: Event) -> Event:
        """Return the opening of a consumer. Nothing is expected of one whose opening is not in the history."""
        if consumer not in self.opened:
            self.opened[consumer] = attrs.evolve(event, did=ConsumerOpened(consumer), outcome="unknown")
        return self.opened[consumer]

    def _cause(self, assigned: Event, consumer: str, partition: int) -> Event:
        """Return the event that began the epoch of an assignment: if hand-overs are invisible, a member has its
        partitions, and may read ahead, from the beginning of its opening.
        """
        first = (consumer, partition) not in self._now and (consumer, partition) not in self._over
        invisible = not self._logs.guarantee.assignment_events
        return self._opened(consumer, assigned) if first and invisible else assigned

    def _begin(self, cause: Event, consumer: str, partition: int, start: PositionRange | None) -> Epoch:
        self._end(cause, consumer, partition)
        epoch = Epoch(self._opened(consumer, cause), partition, cause.began, start, cause)
        self._now[consumer, partition] = epoch
        self.all.append(epoch)
        self.after[cause.number, partition] = epoch
        return epoch

    def _end(self, event: Event, consumer: str, partition: int) -> None:
        before = self._now.pop((consumer, partition), None)
        if before is not None:
            before.ended = event.ended
            self._over[consumer, partition] = before

    def _note_seek(self, event: Event, seek: ConsumerSought) -> None:
        """Begin new epochs after a seek. A refused seek changes nothing; one with an unknown outcome may have led
        anywhere.

        A member that shares its logs has no position to report: all its epochs are over.
        """
        if event.outcome == "failed":
            return
        moved = {partition for partition, _ in seek.landed}
        if not (event.ok and moved):
            moved = {partition for who, partition in self._now if who == seek.consumer}
        for partition in moved:
            to = expected_range(self._logs, seek.to, partition, event, lenient=seek_is_lenient(seek))
            self._begin(event, seek.consumer, partition, to if event.ok and seek.landed else ANYWHERE)

    # acks --------------------------------------------------------------------------------------------------

    def _note_ack(self, event: Event, did: MessageAcked) -> None:
        epoch = self._at(event, did.consumer, did.partition)
        is_late = self._got_in.get((did.consumer, did.partition, did.id), epoch) is not epoch
        since = event.began if epoch.consumer.mode in {"ordered", "exclusive"} else epoch.began
        places = [did.id]
        if did.through:
            got = (each.did.id for each in epoch.deliveries if isinstance(each.did, MessageReceived))
            places = sorted({place for place in got if place <= did.id} | {did.id})
        for place in places:
            ack = Ack(event, did.consumer, since)
            self.acks[epoch.group or "", did.partition, place].append(ack)
            if not is_late:  # an ack of an earlier epoch has no effect
                self._unstored[did.consumer].append((ack, epoch))

    def _store(self, event: Event, consumer: str) -> None:
        """Mark the acks before this call as stored, if their epoch was not over."""
        left = []
        for ack, epoch in self._unstored[consumer]:
            if ack.event.ended > event.began:
                left.append((ack, epoch))
            elif epoch.ended is None or epoch.ended >= event.began:
                ack.stored = event
        self._unstored[consumer] = left


def seek_is_lenient(seek: ConsumerSought) -> bool:
    """Return whether a seek continues with the next message if retention removed the requested one."""
    return seek.missing == "next" or seek.to.kind not in {"before", "after", "position"}


def _lenient(opened: ConsumerOpened) -> bool:
    return opened.start.kind not in {"before", "after", "position"}

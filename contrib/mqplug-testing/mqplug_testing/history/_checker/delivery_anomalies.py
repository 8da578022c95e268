"""Finds anomalies of deliveries: their order, and what a group gets.

Acks must not be undone, each message is delivered to the group, and its positions do not go down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.consumer_epochs import Ack, Epoch, Epochs
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import BEFORE_ALL, PositionRange, SeenLogs, expected_range
from mqplug_testing.history._events import (
    ConsumerSought,
    Coordinates,
    Event,
    GroupDrained,
    MessageNacked,
    MessageReceived,
    PositionsRead,
)
from mqplug_testing.history._history import History

HAND_OVER_LOOK_BACK_MESSAGES = 200  # checked before the first one of a hand-over


class Deliveries:
    """The deliveries to all consumers that read in order."""

    def __init__(self, logs: SeenLogs, epochs: Epochs, groups: GroupAcks) -> None:
        self._logs = logs
        self._epochs = epochs
        self._groups = groups
        self._got: dict[tuple[str, int], set[Coordinates]] = {}

    def anomalies(self) -> Iterator[Anomaly]:
        """Yield messages that were skipped, repeated, or not requested."""
        for epoch in self._epochs.all:
            if epoch.consumer.mode in {"ordered", "exclusive"}:
                yield from self._walk(epoch)

    def _walk(self, epoch: Epoch) -> Iterator[Anomaly]:
        got = self._got.setdefault((epoch.consumer.consumer, epoch.partition), set())
        top: tuple[Coordinates, Event] | None = None
        for event in epoch.deliveries:
            assert isinstance(event.did, MessageReceived)
            place = event.did.id
            if top is None:
                yield from self._check_first(epoch, event, place)
            elif place > top[0]:
                missing = self._logs.inside(epoch.partition, top[0], place)
                yield from self._skipped(epoch, event, missing, top[1])
            elif not self._may_come_again(epoch, event, place):
                text = f"{epoch.consumer.consumer} got it after {':'.join(map(str, top[0]))}, and did not seek"
                yield Anomaly("rewound", text, (event, top[1]), epoch.partition, place)
            if top is None or place > top[0]:
                top = (place, event)
            got.add(place)

    def _without_notification(self, epoch: Epoch) -> bool:
        """Return whether members are not notified when a partition moves between them."""
        return epoch.group is not None and not self._logs.guarantee.assignment_events

    def _may_come_again(self, epoch: Epoch, event: Event, place: Coordinates) -> bool:
        """Return whether a message may be repeated: nacked, or not acked before a hand-over without notification."""
        if self._without_notification(epoch):
            return True
        for each in epoch.given_back:
            if isinstance(each.did, MessageNacked) and each.did.id == place and each.began <= event.ended:
                epoch.given_back.remove(each)
                return True
        return False

    # the first of an epoch ---------------------------------------------------------------------------------

    def _check_first(self, epoch: Epoch, event: Event, place: Coordinates) -> Iterator[Anomaly]:
        if self._without_notification(epoch):
            return
        if epoch.expected is None:
            if epoch.group is not None:
                before = self._logs.between(epoch.partition, BEFORE_ALL, place)[-HAND_OVER_LOOK_BACK_MESSAGES:]
                yield from self._skipped(epoch, event, before, epoch.cause)
            return
        yield from self._check_landing(epoch, event, place, epoch.expected)

    def _check_landing(self, epoch: Epoch, event: Event, place: Coordinates, to: PositionRange) -> Iterator[Anomaly]:
        if place < to.low:
            text = f"{epoch.consumer.consumer} got it, which is before the requested position"
            yield Anomaly("seek landed wrong", text, (event, epoch.cause), epoch.partition, place)
        elif to.high is not None:
            for missing in self._logs.between(epoch.partition, to.high, place):
                if not self._excused(epoch, event, missing, lenient=to.lenient):
                    text = f"{epoch.consumer.consumer} did not get it first, as requested"
                    shown = self._shown(epoch, event, missing, epoch.cause)
                    yield Anomaly("seek landed wrong", text, shown, epoch.partition, missing)
                    return

    # skipped messages -------------------------------------------------------------------------------------

    def _skipped(self, epoch: Epoch, event: Event, missing: Sequence[Coordinates], before: Event) -> Iterator[Anomaly]:
        for place in missing:
            if not self._excused(epoch, event, place, lenient=False):
                text = f"{epoch.consumer.consumer} got later messages, and skipped it"
                shown = self._shown(epoch, event, place, before)
                yield Anomaly("skipped", text, shown, epoch.partition, place)

    def _excused(self, epoch: Epoch, event: Event, place: Coordinates, *, lenient: bool) -> bool:
        """Return whether a message may be skipped: acked by the group, or trimmed where no error is required."""
        reported = self._logs.guarantee.tells_trim
        if (lenient or not reported) and self._logs.may_be_trimmed(epoch.partition, place, event.ended):
            return True
        if epoch.group is None:
            return False
        if self._without_notification(epoch) and place in self._got[epoch.consumer.consumer, epoch.partition]:
            return True
        return self._groups.possibly_acked(epoch.group, epoch.partition, place, event.ended)

    def _shown(self, epoch: Epoch, event: Event, place: Coordinates, before: Event) -> tuple[Event, ...]:
        others = self._logs.seen[epoch.partition, place].values()
        return (event, before, *(each for each in others if each not in {event, before}))


def wrong_seeks(history: History, logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield seeks after which the consumer reported a position other than the requested one."""
    for event in history.events:
        if not isinstance(event.did, ConsumerSought) or not event.ok:
            continue
        for partition, place in event.did.landed:
            to = expected_range(logs, event.did.to, partition, event, lenient=True)
            if (wrong := _between(logs, partition, place, to, event)) is not None:
                stood, asked = ":".join(map(str, place)), event.did.to.kind
                text = f"{event.did.consumer} asked for {asked}, and its position was {stood}"
                shown = (event, *logs.seen[partition, wrong].values())
                yield Anomaly("seek landed wrong", text, shown, partition, wrong)


def _between(logs: SeenLogs, partition: int, place: Coordinates, to: PositionRange, event: Event) -> Coordinates | None:
    """Return a message between the reported and the requested position."""
    if place < to.low:
        return next(iter(logs.between(partition, place, to.low)), None)
    late = () if to.high is None else logs.between(partition, to.high, place)
    return next((each for each in late if not logs.may_be_trimmed(partition, each, event.ended)), None)


def returned_acks(logs: SeenLogs, epochs: Epochs, groups: GroupAcks) -> Iterator[Anomaly]:
    """Yield messages that were delivered to a group again after a commit had stored their ack."""
    for epoch in epochs.all:
        if epoch.group is None:
            continue
        for event in epoch.deliveries:
            assert isinstance(event.did, MessageReceived)
            ack = _acked_before(logs, groups, epoch, event, event.did)
            if ack is not None and ack.stored is not None:
                text = f"{epoch.group} had acked and stored it"
                yield Anomaly("ack came back", text, (event, ack.event, ack.stored), epoch.partition, event.did.id)


def _acked_before(logs: SeenLogs, groups: GroupAcks, epoch: Epoch, event: Event, got: MessageReceived) -> Ack | None:
    """Return the ack after which a message should not have been delivered.

    If whole entries are acked, one consumer has to ack each message of an entry: the entry is redelivered while any
    ack is missing, and then all of them have to be acked anew.
    """
    assert epoch.group is not None
    reads_ahead = epoch.consumer.mode in {"ordered", "exclusive"} and not logs.guarantee.hands_out_current
    began = epoch.began if reads_ahead else event.began
    mine = groups.stored_acks(epoch.group, got.partition, got.id, began, event.ended)
    if mine and logs.guarantee.ack_granularity == "entry":
        for place in logs.entry(got.partition, got.id):
            others = groups.stored_acks(epoch.group, got.partition, place, began, event.ended)
            able = {ack.consumer for ack in others} - groups.gave_back(got.partition, place)
            mine = [ack for ack in mine if ack.consumer in able]
    return mine[0] if mine else None


def outstanding_messages(
    logs: SeenLogs, groups: GroupAcks, group: str, moment: int
) -> Iterator[tuple[int, Coordinates]]:
    """Yield the messages, stored at that time, that are surely outstanding for a group."""
    for partition in logs.partitions:
        for place in logs.order(partition):
            if not groups.possibly_acked(group, partition, place, moment):
                yield partition, place


def forgotten_messages(history: History, logs: SeenLogs, epochs: Epochs, groups: GroupAcks) -> Iterator[Anomaly]:
    """Yield stored messages that no member acked, and that the final drain did not deliver."""
    for event in history.events:
        if not isinstance(event.did, GroupDrained) or not event.ok or logs.final is None:
            continue
        opened = epochs.opened.get(event.did.consumer)
        if opened is None:
            continue
        mine = [epoch for epoch in epochs.all if epoch.consumer.consumer == event.did.consumer]
        came = {(epoch.partition, place) for epoch in mine for place in _places(epoch)}
        for where in outstanding_messages(logs, groups, event.did.group, opened.began):
            if where not in came and where in logs.final:
                text = f"no member of {event.did.group} acked it, and it was not delivered"
                shown = (event, logs.final[where], *logs.seen[where].values())
                yield Anomaly("forgotten", text, tuple(dict.fromkeys(shown)), *where)


def _places(epoch: Epoch) -> Iterator[Coordinates]:
    return (event.did.id for event in epoch.deliveries if isinstance(event.did, MessageReceived))


def wrong_positions(history: History, logs: SeenLogs, groups: GroupAcks) -> Iterator[Anomaly]:
    """Yield positions of groups that went down without a seek, or that passed unacked messages."""
    before: dict[tuple[str, int], tuple[Event, Coordinates]] = {}
    for event in history.events:
        if not isinstance(event.did, PositionsRead) or not event.ok:
            continue
        group = event.did.group
        for partition, place in event.did.places:
            earlier, stood = before.get((group, partition), (event, BEFORE_ALL))
            before[group, partition] = (event, place)
            if place < stood and not groups.may_go_back(group, partition, earlier.began, event.ended):
                text = f"the position of {group} was {':'.join(map(str, stood))} before"
                yield Anomaly("position went down", text, (event, earlier), partition, place)
            for passed in logs.between(partition, stood, place):
                # A seek during the call may come after the position was read, and forget the earlier acks.
                if all(groups.surely_open(group, partition, passed, when) for when in (event.ended, event.began)):
                    text = f"the position of {group} is past it, and no member acked it"
                    shown = (event, *logs.seen[partition, passed].values())
                    yield Anomaly("acked by nobody", text, shown, partition, passed)

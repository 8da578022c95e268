"""Finds anomalies of groups: acks that are undone, messages never delivered, positions that go down."""

from __future__ import annotations

from collections.abc import Iterator

from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.consumer_epochs import Ack, Epoch, Epochs
from mqplug_testing.history._checker.expected_positions import BEFORE_ALL
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import Coordinates, Event, GroupDrained, MessageReceived, PositionsRead
from mqplug_testing.history._events.history import History


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

    Where whole entries are acked, one consumer has to ack each message of an entry: the entry is redelivered while any
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
                    text = f"the position of {group} is behind it, and no member acked it"
                    shown = (event, *logs.seen[partition, passed].values())
                    yield Anomaly("acked by nobody", text, shown, partition, passed)

"""The actors of a run: as many of each kind as the plan asks for and the backend supports.

Members join a group, receive, ack some messages in any order, and leave. Readers without a group start anywhere, and
seek back and forth. The administrator reads watermarks, positions and lags, trims messages, and adds partitions.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import attrs

from mqplug import Capabilities, Client, Error, GroupNotFound, Message, MessageId, Position, PositionLost, Watermarks
from mqplug.spi import SHARED_MODES, Deadline, Mode
from mqplug_testing.history._actors.producers import ProducerActor
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, Actor, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer, TracedStart
from mqplug_testing.history._events import (
    LagRead,
    MessagesTrimmed,
    PartitionsAdded,
    PositionsRead,
    RunAction,
    WatermarksRead,
)

MAX_UNACKED_MESSAGES = 60


@attrs.frozen
class GroupPlan:
    """A group, and how its members open.

    ``alone``: it has one member at a time. ``seeks``: its members seek.
    """

    name: str
    mode: Mode = "ordered"
    latest: bool = False
    alone: bool = False
    seeks: bool = True

    @property
    def shared(self) -> bool:
        """Whether its members share each log."""
        return self.mode in SHARED_MODES

    @property
    def aim(self) -> TracedStart:
        """The start that each member asks for. Only that of the first one counts."""
        return TracedStart.latest() if self.latest else TracedStart.earliest()


class MemberActor:
    """Joins a group repeatedly, one consumer after the other."""

    def __init__(self, context: RunContext, name: str, group: GroupPlan, *, can_nack: bool) -> None:
        self.name = name
        self._context = context
        self._group = group
        self._can_nack = can_nack
        self._random = context.plan.lots(name)
        self._sessions = 0
        self._in_hand: list[Message] = []
        self._seen: deque[Message] = deque(maxlen=100)

    def session(self) -> None:
        """Join, work for a while, leave. Unacked messages then go to other members."""
        self._sessions += 1
        with self._context.connected() as client, self._opened(client) as consumer:
            until = Deadline(self._context.plan.session(self._random))
            self._in_hand = []
            failures = 0
            while self._context.continues(until) and failures < 10:
                try:
                    self._step(consumer)
                    failures = 0
                except PositionLost:
                    consumer.seek(TracedStart.earliest())
                except Error:
                    failures += 1
                    self._context.sleep(SESSION_RETRY_S)
            if self._random.random() < 0.5:
                self._settle(consumer)

    def _opened(self, client: Client) -> AbstractContextManager[TracedConsumer]:
        name = f"{self.name}#{self._sessions}"
        group = self._group
        return TracedConsumer.opened(self._context, client, self.name, name, group.aim, group.name, mode=group.mode)

    def _step(self, consumer: TracedConsumer) -> None:
        random = self._random
        dice = random.random()
        if dice < 0.02 and self._group.seeks and self._seen:
            self._seek(consumer)
        elif dice < 0.08:
            consumer.commit()
        elif dice < 0.5:
            self._take(consumer.receive(random.choice([0, 0.02, 0.1])))
        else:
            self._take(consumer.receive_many(random.randint(1, 40), random.choice([0, 0.02, 0.1])))
        if random.random() < 0.5 or len(self._in_hand) > MAX_UNACKED_MESSAGES:
            self._settle(consumer)

    def _take(self, messages: list[Message]) -> None:
        """Keep the messages. An earlier delivery of the same id no longer counts."""
        again = {message.id for message in messages}
        self._in_hand = [message for message in self._in_hand if message.id not in again] + messages
        self._seen += messages

    def _settle(self, consumer: TracedConsumer) -> None:
        """Ack most of the unacked messages, in any order, and nack a few."""
        random, in_hand = self._random, self._in_hand
        keep = 0 if len(in_hand) > MAX_UNACKED_MESSAGES else random.randint(0, min(5, len(in_hand)))
        if random.random() < 0.5:
            random.shuffle(in_hand)
        for message in in_hand[keep:]:
            dice = random.random()
            if dice < 0.02 and self._can_nack:
                consumer.nack(message, random.choice([0, 0.05]))
            else:
                consumer.ack(message, through=dice > 0.97 and not self._group.shared)
        del in_hand[keep:]

    def _seek(self, consumer: TracedConsumer) -> None:
        random = self._random
        message = random.choice(self._seen)
        aims = [
            TracedStart.before(message),
            TracedStart.after(message),
            TracedStart.last(random.randint(0, 30)),
            TracedStart.latest(),
        ]
        aim = random.choice(aims)
        consumer.seek(aim, missing=random.choice(["error", "next"]))
        self._in_hand = []


class ReaderActor:
    """Opens one reader after the other."""

    def __init__(self, context: RunContext, name: str, *, by_time: bool) -> None:
        self.name = name
        self._context = context
        self._random = context.plan.lots(name)
        self._by_time = by_time
        self._sessions = 0
        self._seen: deque[Message] = deque(maxlen=200)

    def session(self) -> None:
        """Open somewhere, read and seek for a while, close."""
        self._sessions += 1
        name = f"{self.name}#{self._sessions}"
        with (
            self._context.connected() as client,
            TracedConsumer.opened(self._context, client, self.name, name, self._aim()) as consumer,
        ):
            until = Deadline(self._context.plan.session(self._random))
            failures = 0
            while self._context.continues(until) and failures < 10:
                try:
                    self._step(consumer)
                    failures = 0
                except PositionLost as error:
                    lost = None if error.log is None else error.log.partition
                    consumer.seek(TracedStart.earliest(), partition=lost)
                except Error:
                    failures += 1
                    self._context.sleep(SESSION_RETRY_S)

    def _step(self, consumer: TracedConsumer) -> None:
        random = self._random
        dice = random.random()
        if dice < 0.1:
            self._seek(consumer)
        elif dice < 0.5:
            for _ in range(random.randint(1, 20)):
                if not self._keep(consumer.receive(random.choice([0, 0.02]))):
                    break
        else:
            self._keep(consumer.receive_many(random.randint(1, 100), random.choice([0, 0.05])))
        self._context.sleep(0.02)

    def _keep(self, messages: list[Message]) -> int:
        self._seen += messages
        return len(messages)

    def _seek(self, consumer: TracedConsumer) -> None:
        random = self._random
        if random.random() < 0.3 and (positions := consumer.inner.position()):
            consumer.seek(TracedStart.at(positions[random.choice(sorted(positions))]))
        else:
            consumer.seek(self._aim(), missing=random.choice(["error", "next"]))

    def _aim(self) -> TracedStart:
        random = self._random
        aims = [TracedStart.latest(), TracedStart.last(random.randint(0, 30))]
        if self._sessions == 1 or random.random() < 0.2:
            aims.append(TracedStart.earliest())
        if self._seen:
            message = random.choice(self._seen)
            aims += [TracedStart.before(message), TracedStart.after(message)] * 2
            if self._by_time:
                aims.append(TracedStart.time_of(message))
        return random.choice(aims)


ADMIN_CALL_TIMEOUT_S = 10.0
T = TypeVar("T")


class AdministratorActor:
    """Reads and changes the topic from outside."""

    def __init__(
        self, context: RunContext, groups: Sequence[str], *, name: str = "administrator", grows: bool = True
    ) -> None:
        self.name = name
        self._context = context
        self._groups = groups
        self._random = context.plan.lots(self.name)
        self._grows = self._random.random() < 0.4 and grows
        self._next_trim = 0.0

    def session(self) -> None:
        """Connect, and make random calls for a while."""
        with self._context.connected() as client:
            until = Deadline(self._context.plan.session(self._random))
            while self._context.continues(until):
                self._step(client)
                self._context.sleep(self._random.uniform(0.01, 0.1))

    def _step(self, client: Client) -> None:
        random = self._random
        dice = random.random()
        if dice < 0.1 and time.monotonic() > self._next_trim:
            self._trim(client)
        elif dice < 0.12 and self._grows and client.capabilities.add_partitions:
            self._grow(client)
        elif dice < 0.4 or not self._groups:
            self._read(lambda: client.watermarks(self._context.topic, timeout=ADMIN_CALL_TIMEOUT_S), _watermarks_read)
        elif dice < 0.7:
            self._read_position(client, random.choice(self._groups))
        else:
            group = random.choice(self._groups)
            self._read(
                lambda: client.lag(self._context.topic, group=group, timeout=ADMIN_CALL_TIMEOUT_S),
                lambda found: LagRead(group, tuple(found.items())),
            )

    def _read(self, call: Callable[[], T], as_action: Callable[[T], RunAction]) -> None:
        """Make a call, and record its result. A call that fails is not recorded."""
        began = self._context.recorder.now()
        try:
            found = call()
        except Error:
            self._context.sleep(0.1)
        else:
            self._context.recorder.add(self.name, as_action(found), began)

    def _read_position(self, client: Client, group: str) -> None:
        try:
            self._read(
                lambda: client.positions(self._context.topic, group=group, timeout=ADMIN_CALL_TIMEOUT_S),
                lambda found: PositionsRead(group, tuple((p, each.position.coordinates) for p, each in found.items())),
            )
        except GroupNotFound:
            return

    def _change(self, call: Callable[[], object], did: RunAction) -> None:
        began, failure = self._context.recorder.begin(self.name, did), None
        try:
            call()
        except Error as error:
            failure = error
        self._context.recorder.add(self.name, did, began, failure)

    def _trim(self, client: Client) -> None:
        """Trim the oldest part of a partition."""
        context = self._context
        old = list(context.stored)[: len(context.stored) // 4]
        if not old or not context.harness.has("trim_before", client):
            return
        message_id = self._random.choice(old)
        did = MessagesTrimmed(message_id.log.partition, message_id.coordinates)
        self._change(lambda: trim_topic(context, client, message_id), did)
        self._next_trim = time.monotonic() + self._random.uniform(0.1, 0.3) * context.plan.seconds

    def _grow(self, client: Client) -> None:
        self._grows = False
        context = self._context
        total = context.partitions + 1
        self._change(
            lambda: client.add_partitions(context.topic, total, timeout=ADMIN_CALL_TIMEOUT_S), PartitionsAdded(total)
        )


def trim_topic(context: RunContext, client: Client, message_id: MessageId) -> None:
    """Remove the messages before this one, by the harness or by the backend itself."""
    position = Position(message_id.log, message_id.coordinates)
    if context.harness.trim_before is not None:
        context.harness.trim_before(client, context.topic, position)
    else:
        client.trim(context.topic, {message_id.log.partition: position}, timeout=ADMIN_CALL_TIMEOUT_S)


def _watermarks_read(found: Mapping[int, Watermarks]) -> WatermarksRead:
    return WatermarksRead(
        tuple((partition, marks.low.coordinates, marks.high.coordinates) for partition, marks in found.items())
    )


def planned_groups(able: Capabilities) -> list[GroupPlan]:
    """Return a group that starts at EARLIEST, one at LATEST, and one of each other supported mode.

    If members are not notified that a partition moved to another member, only a lone member seeks: the others would
    continue from their old position, and store it.
    """
    if not able.durable_groups:
        return []
    notified = able.assignment_events
    found = (
        [GroupPlan("early", seeks=notified), GroupPlan("late", latest=True, alone=not notified)] if able.ordered else []
    )
    others: list[Mode] = ["exclusive", "shared", "key_shared"]
    return found + [
        GroupPlan(mode, mode=mode, seeks=False, alone=mode == "exclusive") for mode in others if getattr(able, mode)
    ]


def all_actors(context: RunContext, groups: Sequence[GroupPlan], able: Capabilities, life: int = 0) -> list[Actor]:
    """Return all actors. Those of a later *life*, which replace killed ones, have other names."""
    plan, again = context.plan, f".{life}" if life else ""
    actors: list[Actor] = [ProducerActor(context, f"producer-{number}{again}") for number in range(plan.producers)]
    for group in groups:
        count = 1 if group.alone else plan.members
        actors += [MemberActor(context, f"{group.name}/{n}{again}", group, can_nack=able.nack) for n in range(count)]
    actors += [
        ReaderActor(context, f"reader-{number}{again}", by_time=able.seek_time) for number in range(plan.readers)
    ]
    asked = [group.name for group in groups if not group.shared]
    return [*actors, AdministratorActor(context, asked, name=f"administrator{again}", grows=not life)]

"""Members of groups: they join, receive, ack some messages in any order, and leave."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager

import attrs

from mqplug import Client, Error, Message, PositionLost
from mqplug.spi import SHARED_MODES, Deadline, Mode
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer, TracedStart

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
    """Joins a group again and again, one consumer after the other."""

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

"""Members of groups: they come, take messages, ack some of them in any order, and leave again."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager

import attrs

from mqplug import Client, Error, Message, PositionLost
from mqplug.spi import SHARED_MODES, Deadline, Mode
from mqplug.testing.history._actors.recorded_consumer import RecordedConsumer, RecordedStart
from mqplug.testing.history._actors.run_context import REST, RunContext

MOST_IN_HAND = 60


@attrs.frozen
class GroupPlan:
    """A group, and how its members open.

    ``alone``: it has one member at a time. ``seeks``: its members move it.
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
    def aim(self) -> RecordedStart:
        """The start that each member says. Only the first one's counts."""
        return RecordedStart.latest() if self.latest else RecordedStart.earliest()


class MemberActor:
    """One member of a group after the other."""

    def __init__(self, stage: RunContext, name: str, group: GroupPlan, *, can_nack: bool) -> None:
        self.name = name
        self._stage = stage
        self._group = group
        self._can_nack = can_nack
        self._lots = stage.plan.lots(name)
        self._sessions = 0
        self._in_hand: list[Message] = []
        self._seen: deque[Message] = deque(maxlen=100)

    def session(self) -> None:
        """Join, work for a while, leave; what is in hand then comes to others."""
        self._sessions += 1
        with self._stage.connected() as client, self._opened(client) as consumer:
            until = Deadline(self._stage.plan.session(self._lots))
            self._in_hand = []
            failures = 0
            while self._stage.stays(until) and failures < 10:
                try:
                    self._step(consumer)
                    failures = 0
                except PositionLost:
                    consumer.seek(RecordedStart.earliest())
                except Error:
                    failures += 1
                    self._stage.nap(REST)
            if self._lots.random() < 0.5:
                self._settle(consumer)

    def _opened(self, client: Client) -> AbstractContextManager[RecordedConsumer]:
        name = f"{self.name}#{self._sessions}"
        group = self._group
        return RecordedConsumer.opened(self._stage, client, self.name, name, group.aim, group.name, mode=group.mode)

    def _step(self, consumer: RecordedConsumer) -> None:
        lots = self._lots
        dice = lots.random()
        if dice < 0.02 and self._group.seeks and self._seen:
            self._seek(consumer)
        elif dice < 0.08:
            consumer.commit()
        elif dice < 0.5:
            self._take(consumer.receive(lots.choice([0, 0.02, 0.1])))
        else:
            self._take(consumer.receive_many(lots.randint(1, 40), lots.choice([0, 0.02, 0.1])))
        if lots.random() < 0.5 or len(self._in_hand) > MOST_IN_HAND:
            self._settle(consumer)

    def _take(self, messages: list[Message]) -> None:
        """Keep what came. What came before under the same id is no delivery that counts any more."""
        again = {message.id for message in messages}
        self._in_hand = [message for message in self._in_hand if message.id not in again] + messages
        self._seen += messages

    def _settle(self, consumer: RecordedConsumer) -> None:
        """Ack most of what is in hand, in any order, and give a little back."""
        lots, in_hand = self._lots, self._in_hand
        keep = 0 if len(in_hand) > MOST_IN_HAND else lots.randint(0, min(5, len(in_hand)))
        if lots.random() < 0.5:
            lots.shuffle(in_hand)
        for message in in_hand[keep:]:
            dice = lots.random()
            if dice < 0.02 and self._can_nack:
                consumer.nack(message, lots.choice([0, 0.05]))
            else:
                consumer.ack(message, through=dice > 0.97 and not self._group.shared)
        del in_hand[keep:]

    def _seek(self, consumer: RecordedConsumer) -> None:
        lots = self._lots
        message = lots.choice(self._seen)
        aims = [
            RecordedStart.before(message),
            RecordedStart.after(message),
            RecordedStart.last(lots.randint(0, 30)),
            RecordedStart.latest(),
        ]
        aim = lots.choice(aims)
        consumer.seek(aim, missing=lots.choice(["error", "next"]))
        self._in_hand = []

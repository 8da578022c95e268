"""Readers without a group: they begin anywhere, and go back and forth."""

from __future__ import annotations

from collections import deque

from mqplug import Error, Message, PositionLost
from mqplug.spi import Deadline
from mqplug.testing.history._actors.recorded_consumer import RecordedConsumer, RecordedStart
from mqplug.testing.history._actors.run_context import REST, RunContext

AT_ONCE = 400  # messages between two seeks, at most


class ReaderActor:
    """One reader after the other."""

    def __init__(self, stage: RunContext, name: str, *, by_time: bool) -> None:
        self.name = name
        self._stage = stage
        self._lots = stage.plan.lots(name)
        self._by_time = by_time
        self._sessions = 0
        self._seen: deque[Message] = deque(maxlen=200)

    def session(self) -> None:
        """Open somewhere, read and seek for a while, close."""
        self._sessions += 1
        name = f"{self.name}#{self._sessions}"
        with (
            self._stage.connected() as client,
            RecordedConsumer.opened(self._stage, client, self.name, name, self._aim()) as consumer,
        ):
            until = Deadline(self._stage.plan.session(self._lots))
            failures = 0
            while self._stage.stays(until) and failures < 10:
                try:
                    self._step(consumer)
                    failures = 0
                except PositionLost as error:
                    lost = None if error.log is None else error.log.partition
                    consumer.seek(RecordedStart.earliest(), partition=lost)
                except Error:
                    failures += 1
                    self._stage.nap(REST)

    def _step(self, consumer: RecordedConsumer) -> None:
        lots = self._lots
        dice = lots.random()
        if dice < 0.1:
            self._seek(consumer)
        elif dice < 0.5:
            for _ in range(lots.randint(1, 20)):
                if not self._keep(consumer.receive(lots.choice([0, 0.02]))):
                    break
        else:
            self._keep(consumer.receive_many(lots.randint(1, 100), lots.choice([0, 0.05])))
        self._stage.nap(0.02)

    def _keep(self, messages: list[Message]) -> int:
        self._seen += messages
        return len(messages)

    def _seek(self, consumer: RecordedConsumer) -> None:
        lots = self._lots
        if lots.random() < 0.3 and (positions := consumer.inner.position()):
            consumer.seek(RecordedStart.at(positions[lots.choice(sorted(positions))]))
        else:
            consumer.seek(self._aim(), missing=lots.choice(["error", "next"]))

    def _aim(self) -> RecordedStart:
        lots = self._lots
        aims = [RecordedStart.latest(), RecordedStart.last(lots.randint(0, 30))]
        if self._sessions == 1 or lots.random() < 0.2:
            aims.append(RecordedStart.earliest())
        if self._seen:
            message = lots.choice(self._seen)
            aims += [RecordedStart.before(message), RecordedStart.after(message)] * 2
            if self._by_time:
                aims.append(RecordedStart.time_of(message))
        return lots.choice(aims)

"""Readers without a group: they start anywhere, and seek back and forth."""

from __future__ import annotations

from collections import deque

from mqplug import Error, Message, PositionLost
from mqplug.spi import Deadline
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer, TracedStart


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

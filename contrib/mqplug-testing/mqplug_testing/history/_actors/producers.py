"""Producers: each sends numbered records by every call that sends, and records their outcomes."""

from __future__ import annotations

from contextlib import suppress

import attrs

from mqplug import Error, MessageId, OutcomeUnknown, Producer, Record, SendFailed
from mqplug.spi import Deadline, UnfinishedSend
from mqplug_testing.history._actors.run_context import RunContext
from mqplug_testing.history._events import CallOutcome, RecordSent

SEND_TIMEOUT_S = 10.0  # for a send, and for a close


class ProducerActor:
    """Opens one producer after the other. Each send is recorded when its outcome is known."""

    def __init__(self, context: RunContext, name: str) -> None:
        self.name = name
        self._context = context
        self._random = context.plan.lots(name)
        self._sessions = 0

    def session(self) -> None:
        """Open a producer, send for a while, close it."""
        self._sessions += 1
        with self._context.connected() as client:
            until = Deadline(self._context.plan.session(self._random))
            outbox = TracedProducer(
                self._context, client.producer(self._context.topic), f"{self.name}#{self._sessions}"
            )
            try:
                while self._context.continues(until):
                    sent = self._step(outbox)
                    self._context.sleep(sent / self._context.plan.rate * self._random.uniform(0.5, 1.5))
            finally:
                outbox.close()

    def _step(self, outbox: TracedProducer) -> int:
        random = self._random
        match random.random():
            case dice if dice < 0.35:
                outbox.send(self._draw(), timeout=0 if random.random() < 0.1 else SEND_TIMEOUT_S)
                return 1
            case dice if dice < 0.65:
                count = random.randint(1, 20)
                outbox.send_many([self._draw() for _ in range(count)])
                return count
        count = random.randint(1, 15)
        for _ in range(count):
            outbox.submit(self._draw())
        if random.random() < 0.5:
            outbox.flush()
        return count

    def _draw(self) -> Draft:
        random = self._random
        partition = random.randrange(self._context.partitions) if random.random() < 0.4 else None
        return Draft(partition, f"k{random.randrange(8)}" if random.random() < 0.5 else None)


@attrs.frozen
class Draft:
    """The partition and the key of a record to send."""

    partition: int | None
    key: str | None


class TracedProducer:
    """A producer that records the outcome of each of its records."""

    def __init__(self, context: RunContext, producer: Producer, name: str) -> None:
        self._context = context
        self._recorder = context.recorder
        self._producer = producer
        self._name = name
        self._number = 0
        self._open: list[tuple[RecordSent, int, UnfinishedSend]] = []

    def send(self, draft: Draft, *, timeout: float = SEND_TIMEOUT_S) -> MessageId | None:
        """Send one and wait. At a timeout, its handle gives the outcome later."""
        sent, record, began = self._next(draft)
        try:
            message_id = self._producer.send(record.value, key=record.key, partition=record.partition, timeout=timeout)
        except OutcomeUnknown as error:
            if error.handle is not None:
                self._open.append((sent, began, error.handle))
            else:
                self._note(sent, began, error)
        except Error as error:
            self._note(sent, began, error)
        else:
            self._note(sent, began, message_id)
            return message_id
        return None

    def send_many(self, drafts: list[Draft]) -> None:
        """Send a batch and wait for all."""
        made = [self._next(draft) for draft in drafts]
        try:
            results: list[MessageId | Error] = [
                *self._producer.send_many([record for _, record, _ in made], timeout=SEND_TIMEOUT_S)
            ]
        except SendFailed as error:
            results = error.results
        except Error as error:
            results = [error for _ in made]
        for (sent, _, began), result in zip(made, results, strict=True):
            self._note(sent, began, result)

    def submit(self, draft: Draft) -> None:
        """Send one without waiting."""
        sent, record, began = self._next(draft)
        try:
            handle = self._producer.submit(
                record.value, key=record.key, partition=record.partition, timeout=SEND_TIMEOUT_S
            )
        except Error as error:
            self._note(sent, began, error)
        else:
            self._open.append((sent, began, handle))

    def flush(self) -> None:
        """Wait for all pending sends."""
        with suppress(Error):
            self._producer.flush(SEND_TIMEOUT_S)
        self._collect()

    def close(self) -> None:
        """Close the producer: afterwards everything has an outcome."""
        with suppress(Error):
            self._producer.close(SEND_TIMEOUT_S)
        self._collect(last=True)

    def _collect(self, *, last: bool = False) -> None:
        still = []
        for sent, began, handle in self._open:
            if not handle.done and not last:
                still.append((sent, began, handle))
                continue
            try:
                self._note(sent, began, handle.result(0))
            except Error as error:
                self._note(sent, began, error)
        self._open = still

    def _next(self, draft: Draft) -> tuple[RecordSent, Record, int]:
        value = f"{self._name}.{self._number}"
        sent = RecordSent(self._name, self._number, value, draft.partition, None, draft.key)
        self._number += 1
        key = None if draft.key is None else draft.key.encode()
        began = self._recorder.begin(self._name.partition("#")[0], sent)
        return sent, Record(value.encode(), key=key, partition=draft.partition), began

    def _note(self, sent: RecordSent, began: int, result: MessageId | Error) -> None:
        actor = self._name.partition("#")[0]
        if isinstance(result, MessageId):
            stored = attrs.evolve(sent, partition=result.log.partition, id=result.coordinates)
            self._recorder.add_sent(actor, stored, began, "ok")
            self._context.stored.append(result)
        else:
            outcome: CallOutcome = "unknown" if isinstance(result, OutcomeUnknown) else "failed"
            self._recorder.add_sent(actor, sent, began, outcome, f"{type(result).__name__}: {result.message}")

"""Producers: each sends its own numbers, in every way there is."""

from __future__ import annotations

from contextlib import suppress

import attrs

from mqplug import Error, MessageId, OutcomeUnknown, Producer, Record, SendFailed
from mqplug._model.outcome import PendingSend
from mqplug.spi import Deadline
from mqplug.testing.history._actors.run_context import RunContext
from mqplug.testing.history._events.events import CallOutcome, RecordSent

PATIENCE = 10.0  # seconds for a send, and for a close


class ProducerActor:
    """One producer after the other; what each sent is written down when its outcome is known."""

    def __init__(self, stage: RunContext, name: str) -> None:
        self.name = name
        self._stage = stage
        self._lots = stage.plan.lots(name)
        self._sessions = 0

    def session(self) -> None:
        """Open a producer, send for a while, close it."""
        self._sessions += 1
        with self._stage.connected() as client:
            until = Deadline(self._stage.plan.session(self._lots))
            outbox = RecordedProducer(self._stage, client.producer(self._stage.topic), f"{self.name}#{self._sessions}")
            try:
                while self._stage.stays(until):
                    sent = self._step(outbox)
                    self._stage.nap(sent / self._stage.plan.rate * self._lots.uniform(0.5, 1.5))
            finally:
                outbox.close()

    def _step(self, outbox: RecordedProducer) -> int:
        lots = self._lots
        match lots.random():
            case dice if dice < 0.35:
                outbox.send(self._draw(), timeout=0 if lots.random() < 0.1 else PATIENCE)
                return 1
            case dice if dice < 0.65:
                count = lots.randint(1, 20)
                outbox.send_many([self._draw() for _ in range(count)])
                return count
        count = lots.randint(1, 15)
        for _ in range(count):
            outbox.submit(self._draw())
        if lots.random() < 0.5:
            outbox.flush()
        return count

    def _draw(self) -> Draft:
        lots = self._lots
        partition = lots.randrange(self._stage.partitions) if lots.random() < 0.4 else None
        return Draft(partition, f"k{lots.randrange(8)}" if lots.random() < 0.5 else None)


@attrs.frozen
class Draft:
    """Where a record is to go."""

    partition: int | None
    key: str | None


class RecordedProducer:
    """One producer, and what became of each of its records."""

    def __init__(self, stage: RunContext, producer: Producer, name: str) -> None:
        self._stage = stage
        self._recorder = stage.recorder
        self._producer = producer
        self._name = name
        self._number = 0
        self._open: list[tuple[RecordSent, int, PendingSend]] = []

    def send(self, draft: Draft, *, timeout: float = PATIENCE) -> MessageId | None:
        """Send one and wait; where the time is up, its handle tells later."""
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
                *self._producer.send_many([record for _, record, _ in made], timeout=PATIENCE)
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
            handle = self._producer.submit(record.value, key=record.key, partition=record.partition, timeout=PATIENCE)
        except Error as error:
            self._note(sent, began, error)
        else:
            self._open.append((sent, began, handle))

    def flush(self) -> None:
        """Wait for all that is on its way."""
        with suppress(Error):
            self._producer.flush(PATIENCE)
        self._collect()

    def close(self) -> None:
        """Close the producer: then everything has an outcome."""
        with suppress(Error):
            self._producer.close(PATIENCE)
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
            told = attrs.evolve(sent, partition=result.log.partition, id=result.coordinates)
            self._recorder.add_sent(actor, told, began, "ok")
            self._stage.stored.append(result)
        else:
            outcome: CallOutcome = "unknown" if isinstance(result, OutcomeUnknown) else "failed"
            self._recorder.add_sent(actor, sent, began, outcome, f"{type(result).__name__}: {result.message}")

"""A memory backend whose producer keeps records until the test settles them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition
from typing import Any

import attrs

import mqplug
from mqplug import memory
from mqplug.spi import Descriptor, ProducerDriver, Run, Sending, hookimpl


class HeldProducer(ProducerDriver):
    """A producer driver that settles nothing by itself."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.taken: list[Sending] = []
        self.settled = 0

    def send(self, sendings: Sequence[Sending]) -> None:
        with self.changed:
            self.taken.extend(sendings)

    def pump(self, timeout: float) -> None:
        with self.changed:
            before = self.settled
            self.changed.wait_for(lambda: self.settled > before, timeout)

    def store_all(self, log: mqplug.Log) -> None:
        """Settle all records as stored."""
        with self.changed:
            for number, sending in enumerate(self.taken):
                sending.stored(log, (number,))
            self.settled += len(self.taken)
            self.taken.clear()
            self.changed.notify_all()

    def fail_all(self, error: mqplug.Error) -> None:
        """Settle all records as failed."""
        with self.changed:
            for sending in self.taken:
                sending.failed(error)
            self.settled += len(self.taken)
            self.taken.clear()
            self.changed.notify_all()


class HeldRuns(HeldProducer):
    """A producer driver that takes runs as they are, too."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Sending | Run] = []

    def send(self, sendings: Sequence[Sending]) -> None:
        self.units += sendings

    def send_run(self, run: Run) -> None:
        self.units.append(run)

    def pump(self, timeout: float) -> None:
        """Do nothing: the test settles between the calls."""


class HeldBackend:
    """The hooks of memory, except for the producer."""

    def __init__(self, producer: ProducerDriver) -> None:
        self.producer = producer

    @hookimpl
    def mqplug_describe(self) -> Descriptor:
        return attrs.evolve(memory.mqplug_describe(), name="held")

    @hookimpl
    def mqplug_open_producer(self) -> ProducerDriver:
        return self.producer

    mqplug_connect = staticmethod(memory.mqplug_connect)
    mqplug_open_consumer = staticmethod(memory.mqplug_open_consumer)
    mqplug_administer = staticmethod(memory.mqplug_administer)


@contextmanager
def held_client(driver: Any = None) -> Iterator[tuple[mqplug.Client, Any]]:
    """Open a client of a held backend with a topic ``orders``, and its producer driver."""
    backend = HeldBackend(driver or HeldProducer())
    mqplug.register("held", backend)
    mq = mqplug.connect("held")
    mq.create_topic("orders")
    try:
        yield mq, backend.producer
    finally:
        with suppress(mqplug.CloseIncomplete):
            mq.close(timeout=0)

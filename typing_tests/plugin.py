# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What the author of a plugin writes: a driver is derived, keeps defaults, and lacks no abstract method."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Log, spi


class Producer(spi.ProducerDriver):
    def send(self, sendings: Sequence[spi.Sending]) -> None:
        for offset, sending in enumerate(sendings):
            sending.stored(Log("mine", "here", sending.topic, sending.partition), (offset,))


class Consumer(spi.ConsumerDriver):
    def poll(self, most: int, timeout: float) -> list[spi.Batch]:
        return []


class Half(spi.ConsumerDriver):
    def wake(self) -> None: ...


class Alike:
    def send(self, sendings: Sequence[spi.Sending]) -> None: ...


producer: spi.ProducerDriver = Producer()
consumer: spi.ConsumerDriver = Consumer()
half: spi.ConsumerDriver = Half()  # type: ignore[abstract]
alike: spi.ProducerDriver = Alike()  # type: ignore[assignment]


@spi.hookimpl
def mqplug_open_producer(options: spi.ProducerOptions) -> spi.ProducerDriver:
    return Producer()

# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What the author of a plugin writes: drivers fit by their shape, and one that does not is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqplug import Log, Position, spi


class Producer:
    def send(self, sendings: Sequence[spi.Sending]) -> None:
        for offset, sending in enumerate(sendings):
            sending.stored(Log("mine", "here", sending.topic, sending.partition), (offset,))

    def pump(self, timeout: float) -> None: ...
    def flush(self, timeout: float) -> None: ...
    def close(self, timeout: float) -> None: ...


class Consumer:
    def poll(self, most: int, timeout: float) -> list[spi.Batch]:
        return []

    def wake(self) -> None: ...
    def tend(self, timeout: float) -> None: ...
    def pause(self, logs: Sequence[Log]) -> None: ...
    def resume(self, logs: Sequence[Log]) -> None: ...
    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None: ...
    def commit(self, positions: Mapping[Log, spi.GroupPosition], timeout: float) -> None: ...
    def close(self, timeout: float) -> None: ...


class Half:
    def poll(self, most: int, timeout: float) -> list[spi.Batch]:
        return []


producer: spi.ProducerDriver = Producer()
consumer: spi.ConsumerDriver = Consumer()
half: spi.ConsumerDriver = Half()  # type: ignore[assignment]


@spi.hookimpl
def mqplug_open_producer(options: spi.ProducerOptions) -> spi.ProducerDriver:
    return Producer()

"""The memory backend at its driver seam, without the core above it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from mqplug import Log, Position, memory
from mqplug.spi import ConsumerOptions, CreateTopic, Earliest, GroupPosition, ProducerOptions, Trim
from mqplug.spi.proxies import HookWrapper, ListenerRelay
from mqplug_testing.debug import Debug, Rules


@attrs.define
class Sent:
    """A record on its way, which keeps its outcome."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Any, ...] = ()
    timestamp: int | None = None
    outcome: Any = None

    def stored(self, log, coordinates, detail=()):
        self.outcome = coordinates

    def failed(self, error):
        self.outcome = error

    unknown = failed


class Heard:
    """A listener that keeps its assignments."""

    def __init__(self):
        self.held: dict[Log, GroupPosition] = {}

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self.held |= positions

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        for log in logs:
            del self.held[log]
        return {}

    lost = revoked


def through(hook: HookWrapper, answer: Any) -> Any:
    """Return what an extension's hook makes of the backend's answer, which a function may give in its midst."""
    next(hook)
    try:
        hook.send(answer() if inspect.isfunction(answer) else answer)
    except StopIteration as end:
        return end.value
    raise AssertionError("it yields twice")


class Seam:
    """A connection with a topic ``orders``, its producer, and any number of consumers."""

    def __init__(self, partitions: int = 1, *, debug: bool = False, **settings: Any) -> None:
        self.connection: Any = memory.mqplug_connect(memory.MemorySettings(**settings))
        self.store = self.connection.store
        self.logs = self.do(CreateTopic("orders", partitions)).logs
        self.producer = memory.mqplug_open_producer(self.connection, ProducerOptions())
        self.rules = None
        if debug:
            self.connection = through(Debug().mqplug_connect(), self.connection)
            self.rules = self.connection.unwrap(Rules)
            self.producer = through(Debug().mqplug_open_producer(self.connection), self.producer)

    def do(self, action: Any) -> Any:
        """Carry out an action."""
        return memory.mqplug_administer(self.connection, action)

    def trim(self, coordinates: tuple[int, ...], partition: int = 0) -> None:
        """Remove the messages before these coordinates."""
        log = self.logs[partition]
        self.do(Trim({log: Position(log, coordinates)}))

    def send(self, *values: bytes, partition: int = 0, keys: Iterable[bytes | None] | None = None) -> list[Any]:
        """Send these values together, and return their outcomes."""
        sent = [
            Sent("orders", partition, value, key)
            for value, key in zip(values, keys or [None] * len(values), strict=True)
        ]
        self.producer.send(sent)
        return [each.outcome for each in sent]

    def member(self, mode: Any = "ordered", group: str = "billing", listener: Any = None, **options: Any) -> Any:
        """Open a member of a group."""
        wanted = ConsumerOptions(logs=self.logs, group=group, start=Earliest(), mode=mode, **options)
        return self._open(wanted, listener or Heard())

    def reader(self) -> Any:
        """Open a consumer without a group, from the beginning."""
        start = {log: Position(log, self.store.partition(log).low) for log in self.logs}
        return self._open(ConsumerOptions(logs=self.logs, group=None, start=start), Heard())

    def _open(self, wanted: ConsumerOptions, listener: Any) -> Any:
        if self.rules is None:
            return memory.mqplug_open_consumer(self.connection, wanted, listener)
        relay = ListenerRelay(listener)
        hook = Debug().mqplug_open_consumer(self.connection, wanted, relay)
        return through(hook, lambda: memory.mqplug_open_consumer(self.connection, wanted, relay))


def values(batches: Iterable[Any]) -> list[Any]:
    """Return the values of all messages."""
    return [value for batch in batches for value in batch.values]

"""A backend that costs next to nothing, so that what is measured is the core.

Its consumer hands out columns that were made beforehand; its producer says "stored" at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import attrs

from mqplug import Batch, Log, MessageId, Position, Watermarks
from mqplug.spi import (
    Action,
    Capabilities,
    ConsumerOptions,
    DescribeTopic,
    Descriptor,
    Earliest,
    GroupPosition,
    ListColumns,
    Listener,
    ProducerOptions,
    Run,
    Sending,
    SymbolicStart,
    TopicInfo,
    hookimpl,
)

TOPIC = "columns"
SIZE = 1000
LOG = Log("synthetic", "here", TOPIC, 0)
CAPABILITIES = Capabilities(
    groups=True, ordered=True, keys=True, headers=True, null_payload=True, timestamps_producer=True, individual_ack=True
)


@attrs.frozen
class Settings:
    """How many batches there are to be received."""

    batches: int = 100


class Source:
    """Batches of 1000 messages of 128 bytes, one poll each; the columns are the same lists every time."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self._values: list[bytes | None] = [b"%0128d" % number for number in range(SIZE)]
        self._keys: list[bytes | None] = [b"key-%d" % (number % 100) for number in range(SIZE)]
        self._headers: list[Any] = [()] * SIZE
        self._times = [1_700_000_000_000 + number for number in range(SIZE)]
        self._coordinates = [
            [(offset,) for offset in range(start, start + SIZE)] for start in range(0, batches * SIZE, SIZE)
        ]

    def batch(self, number: int) -> Batch:
        """A fresh batch over the ready columns, as a driver makes one."""
        times = self._times
        columns = ListColumns(self._coordinates[number], self._values, self._keys, self._headers, times, times)
        return Batch(LOG, Position(LOG, ((number + 1) * SIZE,)), SIZE, columns)


class Connection:
    """Knows one topic of one partition."""

    capabilities = CAPABILITIES

    def __init__(self, source: Source) -> None:
        self.source = source
        self.end = Position(LOG, (source.batches * SIZE,))

    def after(self, message_id: MessageId) -> Position:
        return Position(LOG, (message_id.coordinates[0] + 1,))

    def health(self, timeout: float) -> None:
        """Always well."""

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.source if isinstance(self.source, kind) else None

    def close(self, timeout: float) -> None:
        """Nothing to let go of."""


class Consumer:
    """Hands out one batch a poll."""

    def __init__(self, source: Source, options: ConsumerOptions, listener: Listener) -> None:
        self._source = source
        self._next = 0
        self._newcomer = listener if options.group is not None else None

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if self._newcomer is not None:
            self._newcomer.assigned({LOG: GroupPosition(Position(LOG, (0,)))})
            self._newcomer = None
        if self._next == self._source.batches:
            return ()
        self._next += 1
        return (self._source.batch(self._next - 1),)

    def wake(self) -> None:
        """Never asleep."""

    def tend(self, timeout: float) -> None:
        """No membership to look after."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Nobody pauses here."""

    def resume(self, logs: Sequence[Log]) -> None:
        """Nobody pauses here."""

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._next = positions[LOG].coordinates[0] // SIZE

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Nothing is kept."""

    def close(self, timeout: float) -> None:
        """Nothing to let go of."""


class Producer:
    """Says of each message at once that it is stored."""

    def __init__(self) -> None:
        self._offset = 0

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            sending.stored(LOG, (self._offset,))
            self._offset += 1

    def send_run(self, run: Run) -> None:
        first = self._offset
        self._offset = first + len(run)
        run.stored(LOG, list(zip(range(first, self._offset), strict=False)))

    def pump(self, timeout: float) -> None:
        """Nothing is ever on its way."""

    def flush(self, timeout: float) -> None:
        """Nothing is ever on its way."""

    def close(self, timeout: float) -> None:
        """Nothing to let go of."""


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="synthetic", settings=Settings, capabilities=CAPABILITIES, from_url=lambda _: {})


@hookimpl
def mqplug_connect(settings: Settings) -> Connection:
    return Connection(Source(settings.batches))


@hookimpl
def mqplug_open_producer(connection: Connection, options: ProducerOptions) -> Producer:
    return Producer()


@hookimpl
def mqplug_open_consumer(connection: Connection, options: ConsumerOptions, listener: Listener) -> Consumer:
    return Consumer(connection.source, options, listener)


@hookimpl
def mqplug_resolve_start(connection: Connection, start: SymbolicStart, logs: Sequence[Log]) -> Mapping[Log, Position]:
    return {log: Position(log, (0,)) if isinstance(start, Earliest) else connection.end for log in logs}


@hookimpl
def mqplug_watermarks(connection: Connection, logs: Sequence[Log]) -> Mapping[Log, Watermarks]:
    return {log: Watermarks(Position(log, (0,)), connection.end, 0) for log in logs}


@hookimpl
def mqplug_administer(connection: Connection, action: Action) -> Any:
    return TopicInfo(TOPIC, (LOG,)) if isinstance(action, DescribeTopic) else {}


PLUGIN = SimpleNamespace(**{name: each for name, each in globals().items() if name.startswith("mqplug_")})
"""What is registered as the backend."""

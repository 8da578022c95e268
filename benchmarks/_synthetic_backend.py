"""A backend that costs almost nothing, so that a contest on it measures the core.

Its consumer returns prepared columns. Its producer reports each message as stored at once.
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
    Connection,
    ConsumerDriver,
    ConsumerOptions,
    DescribeTopic,
    Descriptor,
    Earliest,
    GroupPosition,
    ListColumns,
    Listener,
    ProducerDriver,
    ProducerOptions,
    Run,
    Sending,
    SymbolicStart,
    TopicInfo,
    hookimpl,
)

TOPIC = "columns"
BATCH_MESSAGES, VALUE_BYTES = 1000, 128
SYNTHETIC_LOG = Log("synthetic", "here", TOPIC, 0)
CAPABILITIES = Capabilities(
    groups=True, ordered=True, keys=True, headers=True, null_payload=True, timestamps_producer=True, individual_ack=True
)


@attrs.frozen
class SyntheticSettings:
    """The settings of the synthetic backend: the number of batches to receive."""

    batches: int = 100


class SyntheticSource:
    """The batches to receive, one for each poll: 1000 messages of 128 B. All batches share their lists of values."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self._values: list[bytes | None] = [b"%0128d" % number for number in range(BATCH_MESSAGES)]
        self._keys: list[bytes | None] = [b"key-%d" % (number % 100) for number in range(BATCH_MESSAGES)]
        self._headers: list[Any] = [()] * BATCH_MESSAGES
        self._times = [1_700_000_000_000 + number for number in range(BATCH_MESSAGES)]
        self._coordinates = [
            [(offset,) for offset in range(start, start + BATCH_MESSAGES)]
            for start in range(0, batches * BATCH_MESSAGES, BATCH_MESSAGES)
        ]

    def batch(self, number: int) -> Batch:
        """Return a new batch over the prepared columns, as a driver would."""
        times = self._times
        columns = ListColumns(self._coordinates[number], self._values, self._keys, self._headers, times, times)
        return Batch(SYNTHETIC_LOG, Position(SYNTHETIC_LOG, ((number + 1) * BATCH_MESSAGES,)), BATCH_MESSAGES, columns)


class SyntheticConnection(Connection):
    """A connection to one topic of one partition."""

    capabilities = CAPABILITIES

    def __init__(self, source: SyntheticSource) -> None:
        self.source = source
        self.end = Position(SYNTHETIC_LOG, (source.batches * BATCH_MESSAGES,))

    def after(self, message_id: MessageId) -> Position:
        return Position(SYNTHETIC_LOG, (message_id.coordinates[0] + 1,))

    def health(self, timeout: float) -> None:
        """Do nothing: this backend is always healthy."""

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.source if isinstance(self.source, kind) else None


class SyntheticConsumer(ConsumerDriver):
    """A driver that returns one batch for each poll."""

    def __init__(self, source: SyntheticSource, options: ConsumerOptions, listener: Listener) -> None:
        self._source = source
        self._next = 0
        self._newcomer = listener if options.group is not None else None

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if self._newcomer is not None:
            self._newcomer.assigned({SYNTHETIC_LOG: GroupPosition(Position(SYNTHETIC_LOG, (0,)))})
            self._newcomer = None
        if self._next == self._source.batches:
            return ()
        self._next += 1
        return (self._source.batch(self._next - 1),)

    def pause(self, logs: Sequence[Log]) -> None:
        """Do nothing: no contest pauses."""

    def resume(self, logs: Sequence[Log]) -> None:
        """Do nothing: no contest pauses."""

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._next = positions[SYNTHETIC_LOG].coordinates[0] // BATCH_MESSAGES

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Do nothing: positions are not stored."""


class SyntheticProducer(ProducerDriver):
    """A driver that reports each message as stored at once."""

    linger_s = 0.001
    stores_at_once = True

    def __init__(self) -> None:
        self._offset = 0

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            sending.stored(SYNTHETIC_LOG, (self._offset,))
            self._offset += 1

    def store(self, sending: Sending) -> None:
        sending.stored(SYNTHETIC_LOG, (self._offset,))
        self._offset += 1

    def send_run(self, run: Run) -> None:
        first = self._offset
        self._offset = first + len(run)
        run.stored(SYNTHETIC_LOG, list(zip(range(first, self._offset), strict=False)))


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="synthetic", settings=SyntheticSettings, capabilities=CAPABILITIES, from_url=lambda _: {})


@hookimpl
def mqplug_connect(settings: SyntheticSettings) -> SyntheticConnection:
    return SyntheticConnection(SyntheticSource(settings.batches))


@hookimpl
def mqplug_open_producer(connection: SyntheticConnection, options: ProducerOptions) -> SyntheticProducer:
    return SyntheticProducer()


@hookimpl
def mqplug_open_consumer(
    connection: SyntheticConnection, options: ConsumerOptions, listener: Listener
) -> SyntheticConsumer:
    return SyntheticConsumer(connection.source, options, listener)


@hookimpl
def mqplug_resolve_start(
    connection: SyntheticConnection, start: SymbolicStart, logs: Sequence[Log]
) -> Mapping[Log, Position]:
    return {log: Position(log, (0,)) if isinstance(start, Earliest) else connection.end for log in logs}


@hookimpl
def mqplug_watermarks(connection: SyntheticConnection, logs: Sequence[Log]) -> Mapping[Log, Watermarks]:
    return {log: Watermarks(Position(log, (0,)), connection.end, 0) for log in logs}


@hookimpl
def mqplug_administer(connection: SyntheticConnection, action: Action) -> Any:
    return TopicInfo(TOPIC, (SYNTHETIC_LOG,)) if isinstance(action, DescribeTopic) else {}


PLUGIN = SimpleNamespace(**{name: each for name, each in globals().items() if name.startswith("mqplug_")})
"""The plugin, for `mqplug.register`."""

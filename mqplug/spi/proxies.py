"""Tools for extensions: proxies that are put around a driver to see what goes through it, batch by batch.

Each passes everything on to ``inner``. A subclass overrides what it wants to see. An extension returns it from the
hook that opened the driver::

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self):
        return Watched((yield))
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from mqplug._model.batch import Batch
from mqplug._model.errors import Error
from mqplug._model.id_text import Numbers
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Headers
from mqplug._model.position import Position
from mqplug.spi._actions import ConsumerOptions, GroupMove, GroupPosition, Settlement, TransactionMark
from mqplug.spi._drivers import (
    Connection,
    ConsumerDriver,
    Listener,
    ProducerDriver,
    Run,
    Sending,
    TransactionDriver,
)

__all__ = [
    "ColumnsProxy",
    "ConnectionProxy",
    "ConsumerProxy",
    "HookWrapper",
    "ListenerProxy",
    "ListenerRelay",
    "ProducerProxy",
    "SendingProxy",
    "TransactionProxy",
]

HookWrapper = Generator[None, Any, Any]
"""The type of a ``hookimpl(wrapper=True)``: it yields once, gets the answer, and returns it or another one."""


class ConnectionProxy(Connection):
    """A connection. The backend's own hooks get it too, so it has every attribute of ``inner``."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:  # of the backend's own attributes, and of ``capabilities``
        return getattr(self.inner, name)

    def after(self, message_id: MessageId) -> Position:
        return self.inner.after(message_id)

    def health(self, timeout: float) -> None:
        self.inner.health(timeout)

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.inner.unwrap(kind)

    def is_possible(self, coordinates: Numbers) -> bool:
        return self.inner.is_possible(coordinates)

    def advice(self, capability: str) -> str | None:
        return self.inner.advice(capability)

    def notes(self) -> Sequence[str]:
        return self.inner.notes()

    def owns(self, log: Log) -> bool:
        return self.inner.owns(log)

    def advance(self, position: Position, count: int) -> Position:
        return self.inner.advance(position, count)

    def distance(self, start: Position, until: Position) -> int:
        return self.inner.distance(start, until)

    def close(self, timeout: float) -> None:
        self.inner.close(timeout)


class ProducerProxy(ProducerDriver):
    """A producer's driver. All records come through ``send`` and ``send_run``: it neither collects nor stores at once.

    Runs come through ``send`` where a subclass overrides that and not ``send_run``, so that it sees every record.
    """

    def __init__(self, inner: ProducerDriver) -> None:
        self.inner = inner

    def send(self, sendings: Sequence[Sending]) -> None:
        self.inner.send(sendings)

    def send_run(self, run: Run) -> None:
        """Pass a run on as it is, unless ``send`` wants to see each of its records."""
        if type(self).send is not ProducerProxy.send:
            self.send(run.sendings())
        else:
            self.inner.send_run(run)

    def pump(self, timeout: float) -> None:
        self.inner.pump(timeout)

    def flush(self, timeout: float) -> None:
        self.inner.flush(timeout)

    def close(self, timeout: float) -> None:
        self.inner.close(timeout)


class TransactionProxy(ProducerProxy, TransactionDriver):
    """The driver of a transaction name."""

    inner: TransactionDriver

    def __init__(self, inner: TransactionDriver) -> None:
        super().__init__(inner)

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        return self.inner.begin(mark, timeout)

    def annotate(self, note: str) -> None:
        self.inner.annotate(note)

    def hand_over(self, timeout: float) -> None:
        self.inner.hand_over(timeout)

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        self.inner.commit(moves, timeout)

    def abort(self, timeout: float) -> None:
        self.inner.abort(timeout)


class SendingProxy:
    """A record in flight, whose fields and outcome a subclass may see and change."""

    __slots__ = ("headers", "inner", "key", "partition", "timestamp", "topic", "value")

    def __init__(self, inner: Sending) -> None:
        self.inner = inner
        self.topic: str = inner.topic
        self.partition: int = inner.partition
        self.value: bytes | None = inner.value
        self.key: bytes | None = inner.key
        self.headers: Headers = inner.headers
        self.timestamp: int | None = inner.timestamp

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self.inner.stored(log, coordinates, detail)

    def failed(self, error: Error) -> None:
        self.inner.failed(error)

    def unknown(self, error: Error) -> None:
        self.inner.unknown(error)


class ConsumerProxy(ConsumerDriver):
    """A consumer's driver, in any mode. It offers nothing, so that every message goes through ``poll``."""

    def __init__(self, inner: ConsumerDriver) -> None:
        self.inner = inner
        self.poll_messages = inner.poll_messages

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        return self.inner.still_holds

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        return self.inner.poll(most, timeout)

    def wake(self) -> None:
        self.inner.wake()

    def tend(self, timeout: float) -> None:
        self.inner.tend(timeout)

    def pause(self, logs: Sequence[Log]) -> None:
        self.inner.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        self.inner.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self.inner.seek(positions, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        self.inner.commit(positions, timeout)

    def membership(self) -> Any:
        return self.inner.membership()

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        self.inner.follow(options, timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        return self.inner.settle(settled, timeout)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        self.inner.stop_clock(log, coordinates)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self.inner.pass_over(positions, timeout)

    def close(self, timeout: float) -> None:
        self.inner.close(timeout)


class ColumnsProxy:
    """The columns of a batch, of which a subclass changes some.

    There is no ``arrow`` here: Arrow columns are built from these, so that what was changed is changed there too.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def as_batch(self) -> Batch:
        """Return the batch with these columns."""
        return Batch(self.batch.log, self.batch.next_position, len(self.batch), self)

    def coordinates(self) -> Sequence[Numbers]:
        return self.batch.coordinates

    def details(self) -> Sequence[Numbers] | None:
        return self.batch.details

    def keys(self) -> Sequence[bytes | None]:
        return self.batch.keys

    def values(self) -> Sequence[bytes | None]:
        return self.batch.values

    def headers(self) -> Sequence[Headers]:
        return self.batch.headers

    def timestamps(self) -> Sequence[int]:
        return self.batch.timestamps

    def log_times(self) -> Sequence[int]:
        return self.batch.log_times

    def attempts(self) -> Sequence[int] | None:
        return self.batch.attempts


class ListenerProxy:
    """The core's listener, which a driver calls about assignments."""

    def __init__(self, inner: Listener) -> None:
        self.inner = inner

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self.inner.assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        return self.inner.revoked(logs)

    def lost(self, logs: Sequence[Log]) -> None:
        self.inner.lost(logs)


class ListenerRelay(ListenerProxy):
    """The listener as ``mqplug_open_consumer`` gets it: before the driver is opened, proxies can be put before it."""

    def insert(self, proxy: Callable[[Listener], Listener]) -> None:
        """Put ``proxy(listener)`` between the driver and the present listener."""
        self.inner = proxy(self.inner)

"""A consumer that records its calls and what it receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from mqplug import (
    EARLIEST,
    LATEST,
    Client,
    Consumer,
    Error,
    Log,
    Message,
    Position,
    Start,
    after,
    at_time,
    before,
    last,
)
from mqplug.spi import SHARED_MODES
from mqplug_testing.history._actors.run_context import RunContext
from mqplug_testing.history._events import (
    AcksCommitted,
    ConsumerClosed,
    ConsumerOpened,
    ConsumerSought,
    Coordinates,
    MessageAcked,
    MessageNacked,
    MessageReceived,
    PartitionsAssigned,
    PartitionsRevoked,
    ReceiveFailed,
    RunAction,
    SeekTarget,
)

T = TypeVar("T")
CONSUMER_CALL_TIMEOUT_S = 10.0  # for a seek, a commit, a close


@attrs.frozen
class TracedStart:
    """A start or a seek, and how it is recorded."""

    start: Start
    target: SeekTarget

    @classmethod
    def earliest(cls) -> TracedStart:
        return cls(EARLIEST, SeekTarget("earliest"))

    @classmethod
    def latest(cls) -> TracedStart:
        return cls(LATEST, SeekTarget("latest"))

    @classmethod
    def before(cls, message: Message) -> TracedStart:
        return cls(before(message.id), SeekTarget("before", message.partition, message.id.coordinates))

    @classmethod
    def after(cls, message: Message) -> TracedStart:
        return cls(after(message.id), SeekTarget("after", message.partition, message.id.coordinates))

    @classmethod
    def at(cls, position: Position) -> TracedStart:
        return cls(position, SeekTarget("position", position.log.partition, position.coordinates))

    @classmethod
    def last(cls, count: int) -> TracedStart:
        return cls(last(count), SeekTarget("last", number=count))

    @classmethod
    def time_of(cls, message: Message) -> TracedStart:
        moment = message.log_time
        return cls(at_time(moment), SeekTarget("time", number=round(moment.timestamp() * 1000)))


class TracedConsumer:
    """A consumer that records every call."""

    def __init__(self, context: RunContext, actor: str, name: str, inner: Consumer, *, shares: bool) -> None:
        self.name = name
        self._shares = shares
        self.inner = inner
        self._context = context
        self._recorder = context.recorder
        self._actor = actor

    @classmethod
    @contextmanager
    def opened(
        cls,
        context: RunContext,
        client: Client,
        actor: str,
        name: str,
        aim: TracedStart,
        group: str | None = None,
        **options: Any,
    ) -> Iterator[TracedConsumer]:
        """Open a consumer, and close it at the end of the block."""
        recorder, mode = context.recorder, options.get("mode", "ordered")

        def record(kind: Callable[[str, tuple[int, ...]], RunAction]) -> Callable[[Sequence[Log]], None]:
            return lambda logs: recorder.add(actor, kind(name, tuple(log.partition for log in logs)))

        if group is not None:
            options |= {
                "group": group,
                "on_assigned": record(PartitionsAssigned),
                "on_revoked": record(PartitionsRevoked),
            }
        began = recorder.begin(actor, ConsumerOpened(name, group, mode, aim.target))
        try:
            inner = client.consumer(context.topic, start=aim.start, timeout=30, **options)
        except Error as error:
            recorder.add(actor, ConsumerOpened(name, group, mode, aim.target), began, error)
            raise
        landed = _places(inner.position()) if group is None else ()
        recorder.add(actor, ConsumerOpened(name, group, mode, aim.target, landed), began)
        watched = cls(context, actor, name, inner, shares=mode in SHARED_MODES)
        try:
            yield watched
        finally:
            watched._close()

    def _close(self) -> None:
        self._do(lambda: self.inner.close(CONSUMER_CALL_TIMEOUT_S), ConsumerClosed(self.name))

    # receiving ---------------------------------------------------------------------------------------------

    def receive(self, timeout: float) -> list[Message]:
        """Return the next message, if one arrives."""
        return self._receive(lambda: [each for each in [self.inner.receive(timeout)] if each is not None])

    def receive_many(self, most: int, timeout: float) -> list[Message]:
        """Return the next messages of a partition, as far as they arrive."""
        return self._receive(lambda: list(self.inner.receive_many(most, timeout)))

    def _receive(self, call: Callable[[], list[Message]]) -> list[Message]:
        began = self._recorder.now()
        try:
            found = call()
        except Error as error:
            self._recorder.add(self._actor, ReceiveFailed(self.name), began, error)
            raise
        for message in found:
            did = MessageReceived(
                self.name, message.partition, message.id.coordinates, (message.value or b"").decode(),
                message.attempt, round(message.log_time.timestamp() * 1000),
            )  # fmt: skip
            self._recorder.add(self._actor, did, began)
        return found

    # settling ----------------------------------------------------------------------------------------------

    def ack(self, message: Message, *, through: bool = False) -> None:
        """Ack a message, or all up to it."""
        call = self.inner.ack_through if through else self.inner.ack
        self._do(lambda: call(message), MessageAcked(self.name, message.partition, message.id.coordinates, through))

    def nack(self, message: Message, delay: float) -> None:
        """Nack a message."""
        did = MessageNacked(self.name, message.partition, message.id.coordinates)
        self._do(lambda: self.inner.nack(message, delay), did)

    def commit(self) -> None:
        """Store the acks."""
        self._do(lambda: self.inner.commit(CONSUMER_CALL_TIMEOUT_S), AcksCommitted(self.name))

    def _do(self, call: Callable[[], object], did: RunAction) -> None:
        began, failure = self._recorder.begin(self._actor, did), None
        try:
            call()
        except Error as error:
            failure = error
        self._recorder.add(self._actor, did, began, failure)

    # moving ------------------------------------------------------------------------------------------------

    def seek(self, aim: TracedStart, *, missing: Any = "error", partition: int | None = None) -> None:
        """Seek."""
        before_seek = self._positions()
        target = aim.target if partition is None else attrs.evolve(aim.target, partition=partition)
        began = self._recorder.begin(self._actor, ConsumerSought(self.name, target, missing))
        try:
            self.inner.seek(aim.start, missing=missing, partition=partition, timeout=CONSUMER_CALL_TIMEOUT_S)
        except Error as error:
            self._recorder.add(self._actor, ConsumerSought(self.name, target, missing), began, error)
            raise
        positions = self._positions()
        moved = {target.partition} if target.partition is not None else {*before_seek, *positions}
        landed = tuple(each for each in _places(positions) if each[0] in moved)
        self._recorder.add(self._actor, ConsumerSought(self.name, target, missing, landed), began)

    def _positions(self) -> dict[int, Position]:
        """Return the positions of the consumer. A member that shares its logs has none."""
        return {} if self._shares else self.inner.position()


def _places(positions: dict[int, Position]) -> tuple[tuple[int, Coordinates], ...]:
    return tuple((partition, position.coordinates) for partition, position in sorted(positions.items()))

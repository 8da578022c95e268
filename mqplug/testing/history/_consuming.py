"""A consumer that writes down what it does and gets."""

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
from mqplug.testing.history._events import (
    Acked,
    Action,
    Assigned,
    Committed,
    GaveBack,
    Left,
    Opened,
    Place,
    Received,
    Revoked,
    Sought,
    Target,
    Waited,
)
from mqplug.testing.history._stage import Stage

T = TypeVar("T")
PATIENCE = 10.0  # seconds for a seek, a commit, a close


@attrs.frozen
class Aim:
    """A start, and how it is written down."""

    start: Start
    target: Target

    @classmethod
    def earliest(cls) -> Aim:
        return cls(EARLIEST, Target("earliest"))

    @classmethod
    def latest(cls) -> Aim:
        return cls(LATEST, Target("latest"))

    @classmethod
    def before(cls, message: Message) -> Aim:
        return cls(before(message.id), Target("before", message.partition, message.id.coordinates))

    @classmethod
    def after(cls, message: Message) -> Aim:
        return cls(after(message.id), Target("after", message.partition, message.id.coordinates))

    @classmethod
    def at(cls, position: Position) -> Aim:
        return cls(position, Target("position", position.log.partition, position.coordinates))

    @classmethod
    def last(cls, count: int) -> Aim:
        return cls(last(count), Target("last", number=count))

    @classmethod
    def time_of(cls, message: Message) -> Aim:
        moment = message.log_time
        return cls(at_time(moment), Target("time", number=round(moment.timestamp() * 1000)))


class Watched:
    """A consumer whose every call is recorded."""

    def __init__(self, stage: Stage, actor: str, name: str, inner: Consumer, *, shares: bool) -> None:
        self.name = name
        self._shares = shares
        self.inner = inner
        self._stage = stage
        self._recorder = stage.recorder
        self._actor = actor

    @classmethod
    @contextmanager
    def opened(
        cls, stage: Stage, client: Client, actor: str, name: str, aim: Aim, group: str | None = None, **options: Any
    ) -> Iterator[Watched]:
        """A consumer, and in the end it is closed."""
        recorder, mode = stage.recorder, options.get("mode", "ordered")

        def tell(kind: Callable[[str, tuple[int, ...]], Action]) -> Callable[[Sequence[Log]], None]:
            return lambda logs: recorder.add(actor, kind(name, tuple(log.partition for log in logs)))

        if group is not None:
            options |= {"group": group, "on_assigned": tell(Assigned), "on_revoked": tell(Revoked)}
        began = recorder.begin(actor, Opened(name, group, mode, aim.target))
        try:
            inner = client.consumer(stage.topic, start=aim.start, timeout=30, **options)
        except Error as error:
            recorder.add(actor, Opened(name, group, mode, aim.target), began, error)
            raise
        landed = _places(inner.position()) if group is None else ()
        recorder.add(actor, Opened(name, group, mode, aim.target, landed), began)
        watched = cls(stage, actor, name, inner, shares=mode in {"shared", "key_shared"})
        try:
            yield watched
        finally:
            watched._close()

    def _close(self) -> None:
        self._do(lambda: self.inner.close(PATIENCE), Left(self.name))

    # receiving ---------------------------------------------------------------------------------------------

    def receive(self, timeout: float) -> list[Message]:
        """The next message, if one comes."""
        return self._receive(lambda: [each for each in [self.inner.receive(timeout)] if each is not None])

    def receive_many(self, most: int, timeout: float) -> list[Message]:
        """The next messages of a partition, as far as they come."""
        return self._receive(lambda: list(self.inner.receive_many(most, timeout)))

    def _receive(self, call: Callable[[], list[Message]]) -> list[Message]:
        began = self._recorder.now()
        try:
            found = call()
        except Error as error:
            self._recorder.add(self._actor, Waited(self.name), began, error)
            raise
        for message in found:
            did = Received(
                self.name, message.partition, message.id.coordinates, (message.value or b"").decode(),
                message.attempt, round(message.log_time.timestamp() * 1000),
            )  # fmt: skip
            self._recorder.add(self._actor, did, began)
        return found

    # settling ----------------------------------------------------------------------------------------------

    def ack(self, message: Message, *, through: bool = False) -> None:
        """Ack a message, or all up to it."""
        call = self.inner.ack_through if through else self.inner.ack
        self._do(lambda: call(message), Acked(self.name, message.partition, message.id.coordinates, through))

    def nack(self, message: Message, delay: float) -> None:
        """Give a message back."""
        did = GaveBack(self.name, message.partition, message.id.coordinates)
        self._do(lambda: self.inner.nack(message, delay), did)

    def commit(self) -> None:
        """Store the acks."""
        self._do(lambda: self.inner.commit(PATIENCE), Committed(self.name))

    def _do(self, call: Callable[[], object], did: Action) -> None:
        began, failure = self._recorder.begin(self._actor, did), None
        try:
            call()
        except Error as error:
            failure = error
        self._recorder.add(self._actor, did, began, failure)

    # moving ------------------------------------------------------------------------------------------------

    def seek(self, aim: Aim, *, missing: Any = "error", partition: int | None = None) -> None:
        """Go on elsewhere."""
        before_it = self._stands()
        target = aim.target if partition is None else attrs.evolve(aim.target, partition=partition)
        began = self._recorder.begin(self._actor, Sought(self.name, target, missing))
        try:
            self.inner.seek(aim.start, missing=missing, partition=partition, timeout=PATIENCE)
        except Error as error:
            self._recorder.add(self._actor, Sought(self.name, target, missing), began, error)
            raise
        stands = self._stands()
        moved = {target.partition} if target.partition is not None else {*before_it, *stands}
        landed = tuple(each for each in _places(stands) if each[0] in moved)
        self._recorder.add(self._actor, Sought(self.name, target, missing, landed), began)

    def _stands(self) -> dict[int, Position]:
        """Where the consumer stands; a member that shares its logs stands nowhere."""
        return {} if self._shares else self.inner.position()


def _places(positions: dict[int, Position]) -> tuple[tuple[int, Place], ...]:
    return tuple((partition, position.coordinates) for partition, position in sorted(positions.items()))

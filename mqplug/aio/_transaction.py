"""The asyncio transaction: sends and acks that are stored together or not at all."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from mqplug._client.transaction import Transaction
from mqplug._model.ids import MessageId
from mqplug._produce.columns import Records, snapshot
from mqplug._produce.record import HeadersArgument
from mqplug.aio._loop import ClientLoop, noted, on_thread

T_co = TypeVar("T_co", covariant=True)


class StepHandle(Protocol[T_co]):
    """The handle of a record or a batch that was sent in a transaction."""

    def result(self, timeout: float | None = 30) -> T_co: ...

    @property
    def done(self) -> bool: ...


class AsyncStepHandle(Generic[T_co]):
    """The handle of a record or a batch sent in a transaction: ``await`` it after the commit for the id or ids."""

    def __init__(self, loop: ClientLoop, handle: StepHandle[T_co]) -> None:
        self._loop = loop
        self._handle = handle

    async def result(self, timeout: float | None = 30) -> T_co:
        """Return the id, or the ids of a batch. Raises ``NotCommitted`` before the commit.

        After an abort a record raises ``NotCommitted``, a batch ``SendFailed``.
        """
        return await self._loop.call(partial(self._handle.result, timeout))

    def __await__(self) -> Generator[object, None, T_co]:
        return self.result(None).__await__()

    @property
    def done(self) -> bool:
        """Whether it is settled, even if the outcome is unknown."""
        return self._handle.done

    def __repr__(self) -> str:
        return f"<Async{repr(self._handle)[1:]}"


class AsyncTransaction:
    """A transaction whose calls are awaited. Leaving its block commits; an exception in it aborts and propagates."""

    def __init__(self, loop: ClientLoop, step: Transaction) -> None:
        self.sync = step
        """The synchronous transaction, for use from threads."""
        self._loop = loop
        self._call = loop.call

    @property
    def name(self) -> str:
        """As ``Transaction.name``."""
        return self.sync.name

    @property
    def topic(self) -> str | None:
        """As ``Transaction.topic``."""
        return self.sync.topic

    @property
    def repeated(self) -> bool:
        """As ``Transaction.repeated``."""
        return self.sync.repeated

    @property
    def note(self) -> str:
        """As ``Transaction.note``."""
        return self.sync.note

    @note.setter
    def note(self, note: str) -> None:
        self.sync.note = note

    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        timeout: float | None = 30,
    ) -> AsyncStepHandle[MessageId]:
        """As ``Transaction.send``."""
        send = partial(
            self.sync.send, value, key=key, headers=headers, timestamp=timestamp, partition=partition, topic=topic,
            timeout=timeout,
        )  # fmt: skip
        return AsyncStepHandle(self._loop, await self._loop.call(send))

    async def send_many(self, records: Records, *, timeout: float | None = 30) -> AsyncStepHandle[Sequence[MessageId]]:
        """As ``Transaction.send_many``."""
        send_many = partial(self.sync.send_many, snapshot(records), timeout=timeout)
        return AsyncStepHandle(self._loop, await self._loop.call(send_many))

    flush = on_thread(Transaction.flush)
    commit = noted(on_thread(Transaction.commit), "If cancelled, it still finishes.")
    abort = noted(on_thread(Transaction.abort), "If cancelled, it still finishes.")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loop.call(partial(self.sync.__exit__, kind, error, trace))

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

"""The asyncio client, and ``connect`` for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mqplug._base.deadline import Deadline
from mqplug._client.client import PREFETCH_BYTES, Client, session_of
from mqplug._client.connect import connect as connect_now
from mqplug._client.stage import Stage
from mqplug._client.transaction import Transaction
from mqplug._consume.consumer import Consumer
from mqplug._consume.opening import ConsumerRequest
from mqplug._consume.retries import Retry
from mqplug._consume.start_positions import ResetTarget
from mqplug._model.checks import Retention
from mqplug._model.errors import Error
from mqplug._model.log import GroupDescription, Log
from mqplug._model.message import Message
from mqplug._model.names import Matching, TopicNames
from mqplug._model.position import EARLIEST, LATEST, Bounds, Position, Start, Watermarks
from mqplug._plugins.capabilities import Support
from mqplug._produce.routing import Partitioner, PartitionerName
from mqplug.aio._assignment_callbacks import AsyncOnChange as OnChange, Callbacks
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._loop import AsyncClosable, ClientLoop, Opening
from mqplug.aio._producer import AsyncProducer, AsyncStage
from mqplug.aio._transaction import AsyncTransaction
from mqplug.spi._actions import ClusterInfo, GroupInfo, GroupPosition, Ingested, Mode, Staged, TopicInfo

if TYPE_CHECKING:
    from mqplug._config.plan import Target
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._produce.producer_session import ProducerSession
    from mqplug.spi._descriptor import Capabilities

T = TypeVar("T")


class AsyncClient(AsyncClosable):
    """A client whose calls are awaited. It belongs to the event loop in which it was opened."""

    def __init__(self, loop: ClientLoop, client: Client) -> None:
        self.sync = client
        """The synchronous client, for use from threads."""
        self._session = session_of(client)
        self._loop = loop
        self._consumers: dict[AsyncConsumer, None] = {}
        self._producers: dict[AsyncProducer, None] = {}
        self._closed = False

    @property
    def backend(self) -> str:
        """As ``Client.backend``."""
        return self.sync.backend

    @property
    def capabilities(self) -> Capabilities:
        """As ``Client.capabilities``."""
        return self.sync.capabilities

    async def support(self, capability: str) -> Support:
        """As ``Client.support``."""
        self._loop.check()
        return self.sync.support(capability)

    async def health(self, timeout: float | None = 30) -> None:
        """As ``Client.health``."""
        await self._loop.call(partial(self.sync.health, timeout))

    async def unwrap(self, kind: type[T]) -> T | None:
        """As ``Client.unwrap``."""
        return await self._loop.call(partial(self.sync.unwrap, kind))

    # topics ------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        retention: Retention | None = None,
        retention_bytes: int | None = None,
        exist_ok: bool = False,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = 30,
    ) -> None:
        """As ``Client.create_topic``."""
        await self._loop.call(
            partial(
                self.sync.create_topic, topic, partitions=partitions, retention=retention,
                retention_bytes=retention_bytes, exist_ok=exist_ok, options=options, timeout=timeout,
            )
        )  # fmt: skip

    async def alter_topic(
        self,
        topic: str,
        *,
        retention: Retention | None = None,
        retention_bytes: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = 30,
    ) -> TopicInfo:
        """As ``Client.alter_topic``."""
        return await self._loop.call(
            partial(
                self.sync.alter_topic, topic, retention=retention, retention_bytes=retention_bytes, options=options,
                timeout=timeout,
            )
        )  # fmt: skip

    async def delete_topic(self, topic: str, *, timeout: float | None = 30) -> None:
        """As ``Client.delete_topic``."""
        await self._loop.call(partial(self.sync.delete_topic, topic, timeout=timeout))

    async def topics(self, pattern: Matching | None = None, *, timeout: float | None = 30) -> list[str]:
        """As ``Client.topics``."""
        return await self._loop.call(partial(self.sync.topics, pattern, timeout=timeout))

    async def describe(self, topic: str, *, timeout: float | None = 30) -> TopicInfo:
        """As ``Client.describe``."""
        return await self._loop.call(partial(self.sync.describe, topic, timeout=timeout))

    async def partitions(self, topic: str, *, timeout: float | None = 30) -> list[Log]:
        """As ``Client.partitions``."""
        return await self._loop.call(partial(self.sync.partitions, topic, timeout=timeout))

    async def add_partitions(self, topic: str, total: int, *, timeout: float | None = 30) -> None:
        """As ``Client.add_partitions``."""
        await self._loop.call(partial(self.sync.add_partitions, topic, total, timeout=timeout))

    async def trim(self, topic: str, before: Mapping[int, Position], *, timeout: float | None = 30) -> None:
        """As ``Client.trim``."""
        await self._loop.call(partial(self.sync.trim, topic, before, timeout=timeout))

    # producing and consuming -------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | None = None,
        *,
        create: bool = False,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        partitions_refresh: float = 60,
        timeout: float | None = 30,
    ) -> Opening[AsyncProducer]:
        """As ``Client.producer``; ``await`` it, or enter it with ``async with``."""
        return Opening(
            self._open_producer(
                partial(
                    self._session.open_producer, topic, create=create, partitioner=partitioner,
                    queue_messages=queue_messages, queue_bytes=queue_bytes, partitions_refresh=partitions_refresh,
                    timeout=timeout,
                )
            )
        )  # fmt: skip

    async def _open_producer(self, opened: Callable[[], ProducerSession]) -> AsyncProducer:
        session = await self._loop.call(opened, undo=lambda made: made.close(0))
        made = AsyncProducer(self._loop, session, self._producers.pop)
        self._producers[made] = None
        return made

    def stage(
        self, topic: str, *, partitioner: PartitionerName | Partitioner = "murmur2", timeout: float | None = 30
    ) -> Opening[AsyncStage]:
        """As ``Client.stage``; ``await`` it, or enter it with ``async with``."""
        return Opening(self._open_stage(partial(self.sync.stage, topic, partitioner=partitioner, timeout=timeout)))

    async def _open_stage(self, opened: Callable[[], Stage]) -> AsyncStage:
        return AsyncStage(self._loop, await self._loop.call(opened, undo=lambda made: made.discard()))

    def transaction(
        self,
        name: str,
        topic: str | None = None,
        *,
        consumer: AsyncConsumer | None = None,
        number: int | None = None,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        timeout: float | None = 30,
    ) -> Opening[AsyncTransaction]:
        """As ``Client.transaction``; ``await`` it, or enter it with ``async with``."""
        return Opening(
            self._begin(
                partial(
                    self.sync.transaction, name, topic, consumer=_beneath(consumer), number=number,
                    partitioner=partitioner, queue_messages=queue_messages, queue_bytes=queue_bytes, timeout=timeout,
                )
            )
        )  # fmt: skip

    async def _begin(self, begun: Callable[[], Transaction]) -> AsyncTransaction:
        return AsyncTransaction(self._loop, await self._loop.call(begun, undo=lambda made: made.abort()))

    async def ingest(
        self, staged: Staged | Sequence[Staged], *, writer: str, number: int, timeout: float | None = 30
    ) -> Ingested:
        """As ``Client.ingest``."""
        ingest = partial(self.sync.ingest, staged, writer=writer, number=number, timeout=timeout)
        return await self._loop.call(ingest)

    async def discard(self, staged: Staged | Sequence[Staged], *, timeout: float | None = 30) -> None:
        """As ``Client.discard``."""
        await self._loop.call(partial(self.sync.discard, staged, timeout=timeout))

    def consumer(
        self,
        topics: str | Sequence[str] | Matching,
        *,
        group: str | None = None,
        start: Start | None = None,
        until: Start | None = None,
        partitions: Sequence[int] | None = None,
        mode: Mode = "ordered",
        missing: Literal["error", "next"] = "error",
        must_exist: bool = False,
        create: bool = False,
        auto_ack: bool = False,
        max_unacked: int | None = None,
        max_processing: float | None = None,
        retry: Retry | None = None,
        dead_letter: str | None = None,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
        prefetch_bytes: int = PREFETCH_BYTES,
        timeout: float | None = 30,
    ) -> Opening[AsyncConsumer]:
        """As ``Client.consumer``; ``await`` it, or enter it with ``async with``.

        The callbacks may be ``async``. They run in the event loop, and the hand-over waits for them.
        """
        callbacks = Callbacks(self._loop)
        request = ConsumerRequest(
            group=group, start=start, until=until, partitions=partitions, mode=mode,
            missing=missing, must_exist=must_exist, auto_ack=auto_ack, max_unacked=max_unacked,
            max_processing=max_processing, retry=retry, dead_letter=dead_letter,
            on_assigned=callbacks.on_loop(on_assigned), on_revoked=callbacks.on_loop(on_revoked),
            prefetch_bytes=prefetch_bytes,
        )  # fmt: skip
        opened = partial(self._session.open_consumer, topics, request, create=create, timeout=timeout)
        return Opening(self._open_consumer(opened, callbacks))

    async def _open_consumer(self, opened: Callable[[], ConsumerSession], callbacks: Callbacks) -> AsyncConsumer:
        session = await self._loop.call(opened, undo=lambda made: made.close(0))
        made = AsyncConsumer(self._loop, session, callbacks, self._consumers.pop)
        self._consumers[made] = None
        return made

    async def read(
        self,
        topics: str | Sequence[str] | Matching,
        *,
        start: Start = EARLIEST,
        until: Start = LATEST,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> AsyncIterator[Message]:
        """As ``Client.read``; it begins with the request for the first message."""
        reading = self.consumer(
            topics, start=start, until=until, partitions=partitions, missing=missing, timeout=timeout
        )
        async with reading as consumer:
            async for message in consumer._read_to_end(timeout):  # noqa: SLF001  # only a read has an end to reach
                yield message

    async def describe_cluster(self, *, timeout: float | None = 30) -> ClusterInfo:
        """As ``Client.describe_cluster``."""
        return await self._loop.call(partial(self.sync.describe_cluster, timeout=timeout))

    # groups ------------------------------------------------------------------------------------------------

    async def groups(self, topic: str | None = None, *, timeout: float | None = 30) -> list[GroupInfo]:
        """As ``Client.groups``."""
        return await self._loop.call(partial(self.sync.groups, topic, timeout=timeout))

    async def describe_group(self, group: str, *, timeout: float | None = 30) -> GroupDescription:
        """As ``Client.describe_group``."""
        return await self._loop.call(partial(self.sync.describe_group, group, timeout=timeout))

    async def positions(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, GroupPosition]:
        """As ``Client.positions``."""
        return await self._loop.call(partial(self.sync.positions, topic, group=group, timeout=timeout))

    async def reset_group(
        self,
        group: str,
        topic: str,
        to: ResetTarget,
        *,
        missing: Literal["error", "next"] = "error",
        must_exist: bool = False,
        timeout: float | None = 30,
    ) -> None:
        """As ``Client.reset_group``."""
        moved = partial(self.sync.reset_group, group, topic, to, missing=missing, must_exist=must_exist)
        await self._loop.call(partial(moved, timeout=timeout))

    async def delete_group(self, group: str, *, timeout: float | None = 30) -> None:
        """As ``Client.delete_group``."""
        await self._loop.call(partial(self.sync.delete_group, group, timeout=timeout))

    # queries -----------------------------------------------------------------------------------------------

    @overload
    async def watermarks(self, topic: str, *, timeout: float | None = 30) -> dict[int, Watermarks]: ...
    @overload
    async def watermarks(
        self, topic: TopicNames, *, timeout: float | None = 30
    ) -> dict[str, dict[int, Watermarks]]: ...
    async def watermarks(
        self, topic: str | TopicNames, *, timeout: float | None = 30
    ) -> dict[int, Watermarks] | dict[str, dict[int, Watermarks]]:
        """As ``Client.watermarks``."""
        watermarks: Callable[..., Any] = self.sync.watermarks
        return await self._loop.call(partial(watermarks, topic, timeout=timeout))

    async def bounds(self, topic: str, *, timeout: float | None = 30) -> dict[int, Bounds]:
        """As ``Client.bounds``."""
        return await self._loop.call(partial(self.sync.bounds, topic, timeout=timeout))

    @overload
    async def lag(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, int]: ...
    @overload
    async def lag(self, topic: TopicNames, *, group: str, timeout: float | None = 30) -> dict[str, dict[int, int]]: ...
    async def lag(
        self, topic: str | TopicNames, *, group: str, timeout: float | None = 30
    ) -> dict[int, int] | dict[str, dict[int, int]]:
        """As ``Client.lag``."""
        lag: Callable[..., Any] = self.sync.lag
        return await self._loop.call(partial(lag, topic, group=group, timeout=timeout))

    @overload
    async def resolve(
        self,
        topic: str,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[int, Position]: ...
    @overload
    async def resolve(
        self,
        topic: TopicNames,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[str, dict[int, Position]]: ...
    async def resolve(
        self,
        topic: str | TopicNames,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[int, Position] | dict[str, dict[int, Position]]:
        """As ``Client.resolve``."""
        resolve: Callable[..., Any] = self.sync.resolve
        resolved = partial(resolve, topic, start, partitions=partitions, missing=missing, timeout=timeout)
        return await self._loop.call(resolved)

    async def advance(self, position: Position, count: int) -> Position:
        """As ``Client.advance``."""
        self._loop.check()
        return self.sync.advance(position, count)

    async def distance(self, start: Position, until: Position) -> int:
        """As ``Client.distance``."""
        self._loop.check()
        return self.sync.distance(start, until)

    # ending ------------------------------------------------------------------------------------------------

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Client.close``. If cancelled, it still finishes."""
        deadline = Deadline(timeout)
        self._loop.check()
        if self._closed:
            return
        self._closed = True
        children = [consumer.begin_close() for consumer in list(self._consumers)]
        children += [producer.begin_close() for producer in list(self._producers)]
        try:
            await self._loop.call(partial(self._close, children, deadline))
        finally:
            self._loop.pool.shut_down()

    def _close(self, children: Sequence[Callable[[Deadline], None]], deadline: Deadline) -> None:
        failures: list[Error] = []
        for close in (*children, self._close_sync):
            try:
                close(deadline)
            except Error as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _close_sync(self, deadline: Deadline) -> None:
        self.sync.close(deadline.timeout_left())

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"


def _beneath(consumer: AsyncConsumer | None) -> Consumer | None:
    if consumer is not None and not isinstance(consumer, AsyncConsumer):
        raise TypeError(f"consumer= must be a consumer of this client, not {type(consumer).__name__}")
    return None if consumer is None else consumer.sync


def connect(
    target: Target = None,
    /,
    *,
    timeout: float | None = 30,
    extensions: Sequence[object] | None = None,
    must_exist: bool = False,
    **settings: Any,
) -> Opening[AsyncClient]:
    """As ``mqplug.connect``; ``await`` it, or enter it with ``async with``."""
    return connecting(
        partial(connect_now, target, timeout=timeout, extensions=extensions, must_exist=must_exist, **settings)
    )


def connecting(connected: Callable[[], Client]) -> Opening[AsyncClient]:
    """Return an asyncio client for the one that this function connects. It is called on a thread."""
    return Opening(_connect(connected))


async def _connect(connected: Callable[[], Client]) -> AsyncClient:
    loop = ClientLoop()
    try:
        return AsyncClient(loop, await loop.call(connected, undo=lambda client: client.close(0)))
    except BaseException:
        loop.pool.shut_down()
        raise

"""The asyncio client, and ``connect`` for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mqplug._base.deadline import Deadline
from mqplug._client.client import PREFETCH_BYTES, Client, session_of
from mqplug._client.connect import connect as connect_now
from mqplug._client.stage import Stage
from mqplug._client.transaction import Transaction
from mqplug._consume.consumer import Consumer
from mqplug._consume.opening import ConsumerRequest
from mqplug._consume.retries import Retry
from mqplug._model.errors import Error
from mqplug._model.message import Message
from mqplug._model.names import Matching
from mqplug._model.position import EARLIEST, LATEST, Start
from mqplug._produce.routing import Partitioner, PartitionerName
from mqplug.aio._assignment_callbacks import AsyncOnChange as OnChange, Callbacks
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._loop import AsyncClosable, ClientLoop, Opening, at_once, on_thread
from mqplug.aio._producer import AsyncProducer, AsyncStage
from mqplug.aio._transaction import AsyncTransaction
from mqplug.spi._actions import Mode

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
        self._call = loop.call
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

    support = at_once(Client.support)
    health = on_thread(Client.health)
    unwrap = on_thread(Client.unwrap)

    # topics ------------------------------------------------------------------------------------------------

    create_topic = on_thread(Client.create_topic)
    alter_topic = on_thread(Client.alter_topic)
    delete_topic = on_thread(Client.delete_topic)
    topics = on_thread(Client.topics)
    describe = on_thread(Client.describe)
    partitions = on_thread(Client.partitions)
    add_partitions = on_thread(Client.add_partitions)
    trim = on_thread(Client.trim)

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

    ingest = on_thread(Client.ingest)
    discard = on_thread(Client.discard)

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

    describe_cluster = on_thread(Client.describe_cluster)

    # groups ------------------------------------------------------------------------------------------------

    groups = on_thread(Client.groups)
    describe_group = on_thread(Client.describe_group)
    positions = on_thread(Client.positions)
    reset_group = on_thread(Client.reset_group)
    delete_group = on_thread(Client.delete_group)

    # queries -----------------------------------------------------------------------------------------------

    watermarks = on_thread(Client.watermarks)
    bounds = on_thread(Client.bounds)
    lag = on_thread(Client.lag)
    resolve = on_thread(Client.resolve)
    advance = at_once(Client.advance)
    distance = at_once(Client.distance)

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

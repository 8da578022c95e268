"""The asyncio client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

from mqplug._client import Client
from mqplug._connect import connect as connect_now
from mqplug._log import Log
from mqplug._position import Start
from mqplug._watermarks import Watermarks
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._loops import Home, Opening
from mqplug.aio._producer import AsyncProducer


def connect(target: str | Mapping[str, Any] | None = None, /, **settings: Any) -> Opening[AsyncClient]:
    """As ``mqplug.connect``; ``await`` it, or enter it with ``async with``."""

    async def opened() -> AsyncClient:
        home = Home()
        return AsyncClient(home, await home.call(partial(connect_now, target, **settings)))

    return Opening(opened)


class AsyncClient:
    """A client whose calls are awaited."""

    def __init__(self, home: Home, client: Client) -> None:
        self._home = home
        self.sync = client
        """The client beneath, for what this façade does not have."""

    async def create_topic(self, topic: str, *, partitions: int = 1, **options: Any) -> None:
        """As ``Client.create_topic``."""
        await self._home.call(partial(self.sync.create_topic, topic, partitions=partitions, **options))

    async def partitions(self, topic: str) -> list[Log]:
        """As ``Client.partitions``."""
        return await self._home.call(partial(self.sync.partitions, topic))

    async def watermarks(self, topic: str) -> dict[int, Watermarks]:
        """As ``Client.watermarks``."""
        return await self._home.call(partial(self.sync.watermarks, topic))

    async def producer(self, topic: str | None = None, **options: Any) -> AsyncProducer:
        """As ``Client.producer``."""
        return AsyncProducer(self._home, await self._home.call(partial(self.sync.producer, topic, **options)))

    async def consumer(
        self, topics: str | Sequence[str], *, group: str | None = None, start: Start | None = None, **options: Any
    ) -> AsyncConsumer:
        """As ``Client.consumer``."""
        opened = partial(self.sync.consumer, topics, group=group, start=start, **options)
        return AsyncConsumer(self._home, await self._home.call(opened))

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Client.close``."""
        await self._home.call(partial(self.sync.close, timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

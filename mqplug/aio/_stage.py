"""The asyncio stage for messages to ingest at once."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Self

from mqplug._client.stage import Stage
from mqplug._produce.columns import Records
from mqplug.aio._loop import ClientLoop
from mqplug.spi._actions import Staged


class AsyncStage:
    """A stage whose calls are awaited, one at a time."""

    def __init__(self, loop: ClientLoop, stage: Stage) -> None:
        self.sync = stage
        """The stage beneath, to be used from threads."""
        self._loop = loop

    @property
    def topic(self) -> str:
        """As ``Stage.topic``."""
        return self.sync.topic

    async def write(self, records: Records, *, timeout: float | None = 30) -> None:
        """As ``Stage.write``."""
        await self._loop.call(partial(self.sync.write, records, timeout=timeout))

    async def finish(self, *, timeout: float | None = 30) -> Staged:
        """As ``Stage.finish``."""
        return await self._loop.call(partial(self.sync.finish, timeout=timeout))

    async def discard(self) -> None:
        """As ``Stage.discard``."""
        await self._loop.call(self.sync.discard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.discard()

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

"""The asyncio consumer: a thread polls, and what it fetched waits here for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

from mqplug._batch import Batch
from mqplug._consumer import POLL_MESSAGES, Consumer
from mqplug._deadline import check_timeout
from mqplug._errors import Closed, ConcurrentUse
from mqplug._ids import MessageId
from mqplug._message import Message
from mqplug._position import Start
from mqplug.aio._loops import Home


class AsyncConsumer:
    """A consumer whose ``receive`` is awaited. To cancel a receive loses no message: the next one gets it."""

    def __init__(self, home: Home, consumer: Consumer) -> None:
        self._home = home
        self.sync = consumer
        self._thread = ThreadPoolExecutor(1, "mqplug-aio-consumer")
        self._messages: Iterator[Message] = iter(())
        self._fetching: asyncio.Future[Batch] | None = None
        self._receiving = False
        self._closed = False

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came in time."""
        self._home.check()
        check_timeout(timeout)
        for message in self._messages:
            return message
        if self._receiving:
            raise ConcurrentUse("another task is receiving from this consumer", operation="receive")
        self._receiving = True
        try:
            return await self._fetch(timeout)
        finally:
            self._receiving = False

    async def _fetch(self, timeout: float | None) -> Message | None:
        if self._closed:
            raise Closed(f"{self!r} was closed", operation="receive")
        fetching = self._fetching
        if fetching is None:
            work = partial(self.sync.receive_many, POLL_MESSAGES, None)
            fetching = self._fetching = self._home.loop.run_in_executor(self._thread, work)
        done, _ = await asyncio.wait({fetching}, timeout=timeout)  # which cancels nothing
        if not done:
            return None
        self._fetching = None
        self._messages = iter(fetching.result())
        return next(self._messages, None)

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self._closed:
            try:
                message = await self.receive()
            except Closed:
                return
            if message is None:
                return
            yield message

    def ack(self, message: Message | MessageId) -> None:
        """As ``Consumer.ack``: recorded at once, so there is nothing to await."""
        self.sync.ack(message)

    async def commit(self, timeout: float | None = 30) -> None:
        """As ``Consumer.commit``."""
        await self._home.call(partial(self.sync.commit, timeout))

    async def seek(self, to: Start | MessageId, *, inclusive: bool = True, timeout: float | None = 30) -> None:
        """As ``Consumer.seek``; what was fetched before is not delivered after it."""
        await self._home.call(partial(self.sync.seek, to, inclusive=inclusive, timeout=timeout))
        self._messages = iter(())

    def stop(self) -> None:
        """As ``Consumer.stop``."""
        self.sync.stop()

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Consumer.close``; a waiting receive raises ``Closed``, an iteration ends."""
        self._home.check()
        if self._closed:
            return
        self._closed = True
        await self._home.call(partial(self.sync.close, timeout))
        self._thread.shutdown(wait=False)
        fetching, self._fetching = self._fetching, None
        if fetching is not None and not self._receiving:
            await asyncio.wait({fetching})
            fetching.exception()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

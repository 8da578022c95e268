"""The handle of a record on its way, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from mqplug._base.deadline import check_timeout
from mqplug._model.errors import Error
from mqplug._model.ids import MessageId
from mqplug._model.outcome import SendTimeout
from mqplug._produce.handle import SendHandle


class AsyncSendHandle:
    """The handle of a submitted record: ``await`` it for the id, or ``await handle.result(timeout)``."""

    __slots__ = ("_event_loop", "_handle", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: SendHandle) -> None:
        self._event_loop = loop
        self._handle = handle
        self._waiters: list[asyncio.Future[None]] = []

    async def result(self, timeout: float | None = 30) -> MessageId:
        """As ``SendHandle.result``. Cancelled, it ends the waiting, not the send."""
        check_timeout(timeout)
        handle = self._handle
        if not handle.done:
            await self._wait(timeout)
        if not handle.done:
            raise self._timed_out()
        return handle.result()

    def __await__(self) -> Generator[object, None, MessageId]:
        return self.result(None).__await__()

    @property
    def done(self) -> bool:
        """As ``SendHandle.done``."""
        return self._handle.done

    @property
    def error(self) -> Error | None:
        """As ``SendHandle.error``."""
        return self._handle.error

    async def _wait(self, timeout: float | None) -> None:
        waiter = self._event_loop.create_future()
        self._waiters.append(waiter)
        timer = None if timeout is None else self._event_loop.call_later(timeout, ring, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.remove(waiter)

    def _timed_out(self) -> SendTimeout:
        error = self._handle.timed_out()
        error.handle = self  # type: ignore[assignment]  # the asyncio handle, as everywhere here
        return error

    # for the send queue, on the loop's thread

    @property
    def deserted(self) -> bool:
        """Whether all callers that waited were cancelled."""
        return bool(self._waiters) and all(waiter.cancelled() for waiter in self._waiters)

    def wake(self) -> None:
        """Wake all waiting callers: the record is settled."""
        for waiter in self._waiters:
            ring(waiter)

    def __repr__(self) -> str:
        return f"<Async{repr(self._handle)[1:]}"


def ring(waiter: asyncio.Future[None]) -> None:
    """Wake a waiting caller, unless it was cancelled."""
    if not waiter.done():
        waiter.set_result(None)

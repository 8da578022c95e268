"""The asyncio producer: a thread hands records over in order, and resolves futures as they are settled."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Self

from mqplug._errors import Closed, Error, OutcomeUnknown, SendTimeout
from mqplug._handle import SendHandle
from mqplug._ids import MessageId
from mqplug._producer import Producer
from mqplug.aio._loops import Home

Request = tuple[bytes | None, dict[str, Any], "asyncio.Future[MessageId]"]


class AsyncProducer:
    """A producer whose ``send`` is awaited. Sends keep the order in which they were called."""

    def __init__(self, home: Home, producer: Producer) -> None:
        self._home = home
        self.sync = producer
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._waiting: deque[tuple[SendHandle, asyncio.Future[MessageId]]] = deque()
        self._closing = False
        self._thread = Thread(target=self._run, name="mqplug-aio-producer", daemon=True)
        self._thread.start()

    async def send(self, value: bytes | None, *, timeout: float | None = 30, **fields: Any) -> MessageId:
        """Send one message and wait until it is stored. Takes what ``Producer.send`` takes.

        Cancelled or timed out, the send itself goes on, and its outcome is unknown to the caller.
        """
        self._home.check()
        if self._closing:
            raise Closed(f"{self!r} was closed", operation="send")
        future: asyncio.Future[MessageId] = self._home.loop.create_future()
        self._requests.put((value, fields, future))
        try:
            return await asyncio.wait_for(asyncio.shield(future), timeout)
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise SendTimeout(f"no answer within {timeout:g} s: the message may or may not be stored") from None

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Producer.close``."""
        self._home.check()
        if self._closing:
            return
        self._closing = True
        self._requests.put(None)
        await self._home.call(self._thread.join)
        await self._home.call(partial(self.sync.close, timeout))

    def _run(self) -> None:
        open_for_more = True
        while open_for_more or self._waiting:
            open_for_more = self._take_requests(open_for_more)
            if self._waiting:
                handle, future = self._waiting.popleft()
                self._await_one(handle, future)

    def _take_requests(self, open_for_more: bool) -> bool:
        """Submit what was asked for; wait for a request only when nothing is on its way."""
        while open_for_more:
            try:
                request = self._requests.get(block=not self._waiting)
            except Empty:
                return True
            if request is None:
                return False
            value, fields, future = request
            try:
                self._waiting.append((self.sync.submit(value, **fields), future))
            except Exception as error:  # noqa: BLE001 - the caller's await raises it
                self._resolve(future, error)
        return False

    def _await_one(self, handle: SendHandle, future: asyncio.Future[MessageId]) -> None:
        try:
            self._resolve(future, handle.result(0.05))
        except SendTimeout:
            self._waiting.appendleft((handle, future))
        except Error as error:
            self._resolve(future, error)

    def _resolve(self, future: asyncio.Future[MessageId], outcome: MessageId | Exception) -> None:
        try:
            self._home.loop.call_soon_threadsafe(_settle, future, outcome)
        except RuntimeError as error:  # the loop is closed: nobody waits any more
            if not self._home.loop.is_closed():
                raise OutcomeUnknown("the event loop refused the result") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"


def _settle(future: asyncio.Future[MessageId], outcome: MessageId | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # looked at: a caller that went away is no defect
    else:
        future.set_result(outcome)

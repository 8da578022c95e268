"""Which loop an object belongs to, and calls that wait elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from mqplug._errors import ConcurrentUse

T = TypeVar("T")


class Home:
    """The loop that made an object; using it from another one is an error that says so."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def check(self) -> None:
        """``ConcurrentUse`` when another loop is running."""
        if asyncio.get_running_loop() is not self.loop:
            raise ConcurrentUse(
                "this was opened in another event loop", fix="Connect again inside the loop that uses it"
            )

    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread. Cancelled, it still ends there; nobody sees its result."""
        self.check()
        return await asyncio.to_thread(work)


class Closable(Protocol):
    """What can be entered and left."""

    async def close(self) -> None:
        """Let go."""


C = TypeVar("C", bound=Closable)


class Opening(Generic[C]):
    """Something about to be opened: await it, or enter it with ``async with``."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._open = opened
        self._made: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        made: C = yield from self._open().__await__()
        return made

    async def __aenter__(self) -> C:
        self._made = await self
        return self._made

    async def __aexit__(self, *error: object) -> None:
        if self._made is not None:
            await self._made.close()

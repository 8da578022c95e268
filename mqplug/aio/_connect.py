"""``connect`` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mqplug._client.connect import connect as connect_now
from mqplug.aio._client import AsyncClient
from mqplug.aio._loop import ClientLoop, Opening

if TYPE_CHECKING:
    from mqplug._client.client import Client
    from mqplug._config.plan import Target


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
    """Return the client over the one that this function, called on a thread, connects."""
    return Opening(_connect(connected))


async def _connect(connected: Callable[[], Client]) -> AsyncClient:
    loop = ClientLoop()
    try:
        return AsyncClient(loop, await loop.call(connected, undo=lambda client: client.close(0)))
    except BaseException:
        loop.pool.shut_down()
        raise

"""The asyncio API: the same calls with ``await``, over the same drivers.

In short::

    import mqplug.aio

    async with mqplug.aio.connect("memory") as mq:
        await mq.create_topic("orders")
        async with mq.producer("orders") as out:
            await out.send(b"hello")
        async with mq.consumer("orders", group="billing") as orders:
            message = await orders.receive(timeout=1)
            await orders.ack(message)

Every call is awaited, except ``stop``. The loop is never blocked: threads of the client do the waiting. A cancelled
receive loses no message; a cancelled send leaves its outcome unknown. Every object belongs to the loop that opened it.
"""

from __future__ import annotations

from mqplug.aio._client import AsyncClient, connect, connecting
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._loop import Opening
from mqplug.aio._producer import AsyncProducer, AsyncStage
from mqplug.aio._send_queue import AsyncSendHandle
from mqplug.aio._serving import serve
from mqplug.aio._transaction import AsyncStepHandle, AsyncTransaction

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncSendHandle",
    "AsyncStage",
    "AsyncStepHandle",
    "AsyncTransaction",
    "Opening",
    "connect",
    "connecting",
    "serve",
]

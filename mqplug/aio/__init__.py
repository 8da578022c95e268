"""The same words with ``await``: a façade over the same drivers.

In short::

    import mqplug.aio

    async with mqplug.aio.connect("memory") as mq:
        await mq.create_topic("orders")
        async with await mq.producer("orders") as out:
            await out.send(b"hello")
        async with await mq.consumer("orders", group="billing") as orders:
            message = await orders.receive(timeout=1)
            orders.ack(message)

The loop is never blocked: a thread of each producer and consumer does the waiting. To cancel a receive loses no
message; to cancel a send leaves its outcome unknown. Everything belongs to the loop that made it.
"""

from __future__ import annotations

from mqplug.aio._client import AsyncClient, connect
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._producer import AsyncProducer

__all__ = ["AsyncClient", "AsyncConsumer", "AsyncProducer", "connect"]

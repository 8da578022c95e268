# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What an application writes with ``await``: the types it gets, and mistakes that both checkers must find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

import mqplug
import mqplug.aio


async def opening() -> None:
    assert_type(await mqplug.aio.connect("memory"), mqplug.aio.AsyncClient)
    async with mqplug.aio.connect() as mq, mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
        assert_type(mq, mqplug.aio.AsyncClient)
        assert_type(out, mqplug.aio.AsyncProducer)
        assert_type(orders, mqplug.aio.AsyncConsumer)
    mq.consumer("orders", mode="share")  # type: ignore[arg-type]


async def sending(out: mqplug.aio.AsyncProducer) -> None:
    assert_type(await out.send(b""), mqplug.MessageId)
    handle = await out.submit(b"", key=b"k")
    assert_type(handle, mqplug.aio.AsyncSendHandle)
    assert_type(await handle, mqplug.MessageId)
    assert_type(await out.send_many([b""]), Sequence[mqplug.MessageId])
    await out.send("text")  # type: ignore[arg-type]


async def transacting(mq: mqplug.aio.AsyncClient, orders: mqplug.aio.AsyncConsumer) -> None:
    async with mq.transaction("biller", "invoices", consumer=orders) as step:
        assert_type(step, mqplug.aio.AsyncTransaction)
        handle = await step.send(b"value")
        await step.send("text")  # type: ignore[arg-type]
    assert_type(await handle.result(), mqplug.MessageId)
    await orders.run(receiving_one, concurrency=8, order="key")
    await mqplug.aio.serve([(orders, receiving_one)], concurrency=8)
    await mqplug.aio.serve([(orders, print)])  # type: ignore[list-item]


async def receiving_one(message: mqplug.Message) -> None: ...


async def receiving(mq: mqplug.aio.AsyncClient, orders: mqplug.aio.AsyncConsumer) -> None:
    assert_type(await orders.receive(), mqplug.Message | None)
    async for message in orders:
        assert_type(message, mqplug.Message)
        await orders.ack(message)
        async with orders.handling(message) as held:
            assert_type(held, mqplug.Message)
    async for batch in orders.batches():
        assert_type(batch, mqplug.Batch)
    async for message in mq.read("orders"):
        assert_type(message, mqplug.Message)
    assert_type(await mq.unwrap(int), int | None)
    await mq.create_topic("orders", 3)  # type: ignore[call-arg]
    await mq.health(timeout="1")  # type: ignore[arg-type]
    assert_type(await mq.lag(["orders"], group="g"), dict[str, dict[int, int]])
    assert_type(await mq.resolve("orders", mqplug.LATEST), dict[int, mqplug.Position])
    assert_type(await mq.resolve(("orders", "audit"), mqplug.LATEST), dict[str, dict[int, mqplug.Position]])


async def running(mq: mqplug.aio.AsyncClient, orders: mqplug.aio.AsyncConsumer) -> None:
    async def handle(message: mqplug.Message) -> None: ...
    def plain(message: mqplug.Message) -> None: ...
    async def on_assigned(logs: Sequence[mqplug.Log]) -> None: ...
    def on_revoked(logs: Sequence[mqplug.Log]) -> None: ...

    await orders.run(handle, concurrency=8)
    await orders.run(plain)  # type: ignore[arg-type]
    await mq.consumer("orders", group="g", on_assigned=on_assigned, on_revoked=on_revoked)

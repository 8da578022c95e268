"""The asyncio façade as a whole: its public names, its event loop and its threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import time
import warnings
from collections.abc import Awaitable, Callable

import pytest
from checked_loops import aio_threads, at_once, connected, filled, run, until, wait_until

import mqplug
import mqplug.aio
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConnectionProxy, ConsumerProxy, ProducerProxy

pytestmark = pytest.mark.python

FACES = {
    mqplug.aio.AsyncClient: mqplug.Client,
    mqplug.aio.AsyncProducer: mqplug.Producer,
    mqplug.aio.AsyncConsumer: mqplug.Consumer,
    mqplug.aio.AsyncStage: mqplug.Stage,
    mqplug.aio.AsyncTransaction: mqplug.Transaction,
}
CALLS = [
    (face, sync, name)
    for face, sync in FACES.items()
    for name in sorted(vars(sync))
    if not name.startswith("_") and name != "know"  # a client's call to its producer
]  # fmt: skip
OTHERWISE = {("run", "threads"): "concurrency"}
"""Parameters that have another name in the asyncio API."""


def parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Return a function's parameters."""
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("face", "sync", "name"), CALLS, ids=lambda each: getattr(each, "__name__", each))
def test_every_public_name_is_here(face: type, sync: type, name: str) -> None:
    """The asyncio classes have every public name of the synchronous ones, with the same parameters."""
    mine, theirs = getattr(face, name), getattr(sync, name)
    assert mine.__doc__.startswith(f"As ``{sync.__name__}.{name}``")
    if not isinstance(theirs, property):
        expected = [each.replace(name=OTHERWISE.get((name, each.name), each.name)) for each in parameters(theirs)]
        if name not in {"run", "transaction"}:  # these take callables or objects that are asynchronous here
            assert parameters(mine) == expected
        assert [each.name for each in parameters(mine)] == [each.name for each in expected]


def test_all_calls_are_awaited_but_stop() -> None:
    """Every method is awaited, iterated with async for or entered with async with, except stop."""
    calls = {name: getattr(face, name) for face, _, name in CALLS}
    plain = {
        name
        for name, call in calls.items()
        if not isinstance(call, property)
        if not inspect.iscoroutinefunction(call)
        if not inspect.signature(call).return_annotation.startswith(("AsyncIterator", "Opening"))
    }
    assert plain == {"stop"}


def test_connect_takes_what_connect_takes() -> None:
    """The parameters of connect are those of mqplug.connect."""
    assert parameters(mqplug.aio.connect) == parameters(mqplug.connect)


@pytest.mark.parametrize("name", ["result", "done", "error"])
def test_handles_say_the_same(name: str) -> None:
    """The docstrings of an asyncio send handle refer to those of SendHandle."""
    assert getattr(mqplug.aio.AsyncSendHandle, name).__doc__.startswith(f"As ``SendHandle.{name}``")


def test_a_message_goes_round() -> None:
    """A message that was sent with await is received, acked and committed with await."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                placed = await out.send(b"one", key=b"k")
            async with mq.consumer("orders", group="g") as orders:
                message = await orders.receive(timeout=5)
                assert message is not None
                assert (message.id, message.value, message.key) == (placed, b"one", b"k")
                await orders.ack(message)
                await orders.commit()
            assert await mq.lag("orders", group="g") == {0: 0}

    run(story())


def test_a_client_answers_questions() -> None:
    """Topics, partitions, watermarks, bounds and groups are queried with await."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 3)
            assert (mq.backend, await mq.topics(), await mq.groups()) == ("memory", ["orders"], [])
            assert (await mq.bounds("orders"))[0].last_id == ids[-1]
            marks = (await mq.watermarks(["orders"]))["orders"][0]
            assert marks.count == await mq.distance(marks.low, marks.high) == 3
            assert await mq.advance(marks.low, 3) == marks.high
            assert await mq.resolve("orders", mqplug.LATEST) == {0: marks.high}
            assert await mq.resolve(["orders"], mqplug.EARLIEST, partitions=[0]) == {"orders": {0: marks.low}}
            await mq.reset_group("g", "orders", ids[1])
            assert await mq.lag("orders", group="g") == {0: 2}
            assert (await mq.positions("orders", group="g"))[0].position < (await mq.watermarks("orders"))[0].high
            assert (await mq.describe("orders")).name == "orders"
            assert (await mq.describe_group("g")).topics == ("orders",)
            await mq.delete_group("g")
            await mq.trim("orders", {0: (await mq.watermarks("orders"))[0].high})
            assert (await mq.alter_topic("orders", retention=90, retention_bytes=5000)).retention == 90
            await mq.add_partitions("orders", 2)
            assert len(await mq.partitions("orders")) == 2
            await mq.delete_topic("orders")
            await mq.health()
            assert await mq.support("nack") in {"native", "core"}

    run(story())


def test_reading_ends_at_what_was_stored() -> None:
    """A read without a group returns the messages that were stored when it began, and closes its consumer."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 2500)
            assert [message.value async for message in mq.read("orders")] == [b"%d" % n for n in range(2500)]
            assert mq._consumers == {}

    run(story())


def test_a_read_that_cannot_reach_its_end_raises_timeout() -> None:
    """A read that gets no message for its timeout before its end raises Timeout, and closes its consumer."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 3)
            [log] = await mq.partitions("orders")
            read = mq.read("orders", until=mqplug.Position(log, (4,)), timeout=0.2)
            assert [(await anext(read)).value for _ in range(3)] == [b"0", b"1", b"2"]
            with pytest.raises(mqplug.Timeout, match="is before"):
                await anext(read)
            assert mq._consumers == {}

    run(story())


def test_a_read_that_is_left_closes_its_consumer() -> None:
    """A read whose loop ends early closes its consumer."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async for _ in mq.read("orders"):
                break
            await until(lambda: not mq._consumers)

    run(story())


class Unwilling(ConnectionProxy):
    """A connection whose close fails."""

    def close(self, timeout: float) -> None:
        super().close(timeout)
        raise mqplug.ConnectError("gone already")


class UnwillingConnections:
    """An extension whose connections fail to close."""

    @hookimpl(wrapper=True)
    def mqplug_connect(self):
        return Unwilling((yield))


def test_the_first_error_says_more() -> None:
    """An error inside async with is raised instead of a later error from closing."""

    async def story() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with mqplug.aio.connect("memory", extensions=[UnwillingConnections()]):
                raise KeyError("mine")
        with pytest.raises(mqplug.CloseIncomplete, match="gone already"):
            async with mqplug.aio.connect("memory", extensions=[UnwillingConnections()]):
                pass

    run(story())


# loops and threads


def refused_in_child(calls: Callable[[], list[Awaitable[object]]]) -> int:
    """Return the number of calls that raise ForkedClient in a child process, before they wait for anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
        child = os.fork()
    if not child:
        refused = 0
        try:
            for call in calls():
                try:
                    next(iter(call.__await__()))
                except mqplug.ForkedClient:
                    refused += 1
        finally:
            os._exit(refused)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_process_is_told() -> None:
    """An object that was opened before a fork raises ForkedClient in the child, which has no thread to wait with."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                assert (
                    refused_in_child(
                        lambda: [mq.topics(), out.send(b""), out.flush(), orders.receive(timeout=0), orders.commit()]
                    )
                    == 5
                )

    run(story())


def test_threads_end_with_their_client_also_when_it_was_not_closed() -> None:
    """A client that is dropped without close warns, and its threads end."""

    async def story() -> None:
        mq = await mqplug.aio.connect("memory")
        await mq.topics()

    with pytest.warns(ResourceWarning, match="was not closed"):
        run(story())


def test_what_was_closed_says_so() -> None:
    """After close, every call raises Closed, and a second close does nothing."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            out = await mq.producer("orders")
            orders = await mq.consumer("orders", group="g")
        await mq.close()
        await out.close()
        await orders.close()
        for call in (mq.topics(), mq.producer("orders"), out.send(b""), out.flush(), orders.receive(), orders.commit()):
            with pytest.raises(mqplug.Closed):
                await call
        assert [message async for message in orders] == []

    run(story())


def test_a_client_closes_what_it_opened() -> None:
    """Closing a client stores the acks of its consumers and the messages that its producers accepted."""

    async def story() -> None:
        async with mqplug.aio.connect("memory://closes-all") as watcher:
            async with mqplug.aio.connect("memory://closes-all") as mq:
                await filled(mq, 3)
                out = await mq.producer("orders")
                orders = await mq.consumer("orders", group="g")
                await orders.ack(await orders.receive(timeout=5))
                await out.submit(b"last")
            assert await watcher.lag("orders", group="g") == {0: 3}

    run(story())


def test_opening_that_is_cancelled_leaves_nothing_open() -> None:
    """A consumer whose opening task is cancelled does not stay a member of its group."""

    class SlowOpening:
        opened = threading.Event()

        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self):
            driver = yield
            self.opened.set()
            return driver

    async def story() -> None:
        async with mqplug.aio.connect("memory", extensions=[slow := SlowOpening()]) as mq:
            await mq.create_topic("orders")

            async def open_one() -> None:
                await mq.consumer("orders", group="g")

            opening = asyncio.ensure_future(open_one())
            await at_once(slow.opened.is_set)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await until(lambda: not mq.sync._session.open_objects.consumers)

    run(story())


@pytest.mark.parametrize("what", ["consumer", "producer"])
def test_a_client_waits_for_closes_under_way(what: str) -> None:
    """A cancelled close that is still running ends before the connection is closed; a second close waits for it."""

    class Lingering:
        order: list[str] = []  # noqa: RUF012 - of this test alone

        def linger(self, driver):
            close = driver.close

            def closed(timeout: float) -> None:
                time.sleep(0.2)
                close(timeout)
                self.order.append(what)

            driver.close = closed
            return driver

        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self):
            return self.linger(ConsumerProxy((yield)))

        @hookimpl(wrapper=True)
        def mqplug_open_producer(self):
            return self.linger(ProducerProxy((yield)))

        @hookimpl(wrapper=True)
        def mqplug_connect(self):
            connection = ConnectionProxy((yield))
            close = connection.close
            connection.close = lambda timeout: (close(timeout), self.order.append("connection"))
            return connection

    async def story() -> None:
        async with mqplug.aio.connect("memory", extensions=[slow := Lingering()]) as mq:
            await mq.create_topic("orders")
            child = await (mq.consumer("orders", group="g") if what == "consumer" else mq.producer("orders"))
            closing = asyncio.ensure_future(child.close())
            await asyncio.sleep(0.02)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert slow.order == []
        assert slow.order == [what, "connection"]
        await child.close()

    run(story())


def test_control_c_ends_a_waiting_receive() -> None:
    """Ctrl-C interrupts a waiting receive at once, and everything is closed on the way out."""
    closed = []

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.consumer("orders", group="g") as orders:
                asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
                try:
                    await orders.receive()
                finally:
                    closed.append(orders)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(story(), debug=True)
    assert "closed" in repr(closed[0])
    wait_until(lambda: not aio_threads())


def test_an_opening_that_nobody_awaits_warns() -> None:
    """Opening a producer without awaiting it gives Python's own warning."""

    async def story() -> None:
        async with connected() as mq:
            with pytest.warns(RuntimeWarning, match="never awaited"):
                mq.producer("orders")

    run(story())

"""Invalid timeouts and numbers, for every call that takes one, whether or not it would have to wait."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from checked_loops import run
from limited_memory import narrowed

import mqplug
import mqplug.aio
from mqplug import EARLIEST, Consumer, Producer, SendHandle, Stage

Call = Callable[[Any, Any], Any]

CONSUMER: dict[str, Call] = {
    "receive": lambda orders, timeout: orders.receive(timeout),
    "receive_many": lambda orders, timeout: orders.receive_many(10, timeout),
    "commit": lambda orders, timeout: orders.commit(timeout),
    "seek": lambda orders, timeout: orders.seek(EARLIEST, timeout=timeout),
    "committed": lambda orders, timeout: orders.committed(timeout=timeout),
    "watermarks": lambda orders, timeout: orders.watermarks(timeout=timeout),
    "pause": lambda orders, timeout: orders.pause(timeout=timeout),
    "resume": lambda orders, timeout: orders.resume(timeout=timeout),
    "close": lambda orders, timeout: orders.close(timeout),
}
PRODUCER: dict[str, Call] = {
    "send": lambda out, timeout: out.send(b"x", timeout=timeout),
    "submit": lambda out, timeout: out.submit(b"x", timeout=timeout),
    "send_many": lambda out, timeout: out.send_many([b"x"], timeout=timeout),
    "flush": lambda out, timeout: out.flush(timeout),
    "close": lambda out, timeout: out.close(timeout),
}
STAGE: dict[str, Call] = {
    "write": lambda stage, timeout: stage.write([b"x"], timeout=timeout),
    "finish": lambda stage, timeout: stage.finish(timeout=timeout),
}
HANDLE: dict[str, Call] = {"result": lambda handle, timeout: handle.result(timeout)}
TIMED = {"consumer": CONSUMER, "producer": PRODUCER, "stage": STAGE, "handle": HANDLE}
EVERY = [(kind, name) for kind, calls in TIMED.items() for name in calls]
CLASSES = {"consumer": Consumer, "producer": Producer, "stage": Stage, "handle": SendHandle}
ASYNC = {
    "consumer": mqplug.aio.AsyncConsumer, "producer": mqplug.aio.AsyncProducer, "stage": mqplug.aio.AsyncStage,
    "handle": mqplug.aio.AsyncSendHandle,
}  # fmt: skip

WRONG: list[tuple[Any, type[Exception]]] = [
    (-1, ValueError), (-0.001, ValueError), (math.nan, ValueError), (-math.inf, ValueError),
    ("1", TypeError), (True, TypeError), ([1], TypeError), (timedelta(seconds=1), TypeError),
]  # fmt: skip

COUNTS: list[tuple[Any, type[Exception]]] = [
    (0, ValueError), (-1, ValueError), ("3", TypeError), (True, TypeError), (2.0, TypeError), (None, TypeError),
]  # fmt: skip


def test_every_call_with_a_timeout_is_tested() -> None:
    """Each public method with a timeout is in these tables, and its asyncio counterpart has a timeout too."""
    for classes in (CLASSES, ASYNC):
        for kind, of in classes.items():
            timed = {
                name
                for name, method in inspect.getmembers(of, inspect.isfunction)
                if not name.startswith("_") and "timeout" in inspect.signature(method).parameters
            }
            assert timed == set(TIMED[kind])


@pytest.fixture
def things() -> Iterator[dict[str, Any]]:
    """A consumer with messages, one with none, a producer, a stage, and a handle that is settled."""
    with narrowed() as (mq, _):
        mq.create_topic("orders")
        mq.create_topic("empty")
        with mq.producer("orders") as out:
            out.send_many([b"%d" % number for number in range(20)])
            handle = out.submit(b"x")
            handle.result()
            with mq.consumer("orders", group="g") as orders, mq.consumer("empty", group="g") as idle:
                orders.receive(timeout=5)
                with mq.stage("orders") as stage:
                    yield {"consumer": orders, "idle": idle, "producer": out, "stage": stage, "handle": handle}


@pytest.mark.parametrize(("timeout", "error"), WRONG, ids=[repr(each[0]) for each in WRONG])
@pytest.mark.parametrize(("kind", "name"), [*EVERY, *(("idle", name) for name in CONSUMER)])
def test_a_timeout_is_looked_at_first(
    things: dict[str, Any], kind: str, name: str, timeout: Any, error: type[Exception]
) -> None:
    """An invalid timeout is refused first, with and without a message at hand; the call has no effect."""
    before = things["producer"].statistics(), things["consumer"].statistics()
    with pytest.raises(error, match="a timeout must be"):
        TIMED["consumer" if kind == "idle" else kind][name](things[kind], timeout)
    assert (things["producer"].statistics(), things["consumer"].statistics()) == before
    assert things["consumer"].receive(timeout=5).value == b"1"


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_timeout_without_end_is_one(things: dict[str, Any], kind: str, name: str, timeout: float) -> None:
    """An infinite timeout waits as None does, and so does one of many years, nearly."""
    TIMED[kind][name](things[kind], timeout)


@pytest.mark.parametrize(("most", "error"), COUNTS, ids=[repr(each[0]) for each in COUNTS])
@pytest.mark.parametrize("kind", ["consumer", "idle"])
def test_a_number_of_messages_is_looked_at_first(
    things: dict[str, Any], kind: str, most: Any, error: type[Exception]
) -> None:
    """An invalid number of messages is refused at once, with and without a message at hand."""
    for ask in (things[kind].receive_many, things[kind].batches):
        with pytest.raises(error, match="receive_many"):
            ask(most)
    assert things["consumer"].receive(timeout=5).value == b"1"


def test_the_same_with_await() -> None:
    """The asyncio calls refuse the same numbers, with and without a message at hand."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            await mq.create_topic("empty")
            async with mq.producer("orders") as out:
                await out.send_many([b"0", b"1", b"2"])
                handle = await out.submit(b"x")
                await handle
                async with mq.consumer("orders", group="g") as orders, mq.consumer("empty", group="g") as idle:
                    await orders.receive(timeout=5)
                    for thing, calls in ((orders, CONSUMER), (idle, CONSUMER), (out, PRODUCER), (handle, HANDLE)):
                        for call in calls.values():
                            for timeout, error in WRONG:
                                with pytest.raises(error, match="a timeout must be"):
                                    await call(thing, timeout)
                        for call in [] if calls is not CONSUMER else [thing.receive_many, thing.batches]:
                            for most, error in COUNTS:
                                with pytest.raises(error, match="receive_many"):
                                    await call(most)
                    assert (await orders.receive(timeout=math.inf)).value == b"1"

    run(story())

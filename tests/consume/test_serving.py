"""``serve``: several consumers, which stop together."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waiting import wait_until

import mqplug
import mqplug.aio
from mqplug import LATEST

Handle = Callable[[mqplug.Message], None]
TOPICS = ("orders", "mails")


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store with two topics of 100 messages each."""
    with mqplug.connect("memory://served") as client:
        for topic in TOPICS:
            client.create_topic(topic)
            with client.producer(topic) as out:
                out.send_many([b"%d" % number for number in range(100)])
        yield client
        for topic in client.topics():
            client.delete_topic(topic)


def serve(mq: mqplug.Client, handlers: dict[str, Handle], **options: Any) -> None:
    """Serve each of these topics in threads."""
    consumers = {topic: mq.consumer(topic, group="g", **options) for topic in handlers}
    for topic, handler in handlers.items():
        if isinstance(handler, Counting):  # the main thread sees a signal only when it wakes up
            handler.fetcher = consumers[topic]._session.fetcher
    try:
        mqplug.serve([(consumers[topic], handlers[topic]) for topic in handlers])
    finally:
        for consumer in consumers.values():
            consumer.close()


def serve_in_loop(mq: mqplug.Client, handlers: dict[str, Handle], **options: Any) -> None:
    """Serve each of these topics in tasks."""

    def awaited(handle: Handle) -> Callable[[mqplug.Message], Any]:
        async def handler(message: mqplug.Message) -> None:
            await asyncio.sleep(0.001)
            handle(message)
            await asyncio.sleep(0.001)

        return handler

    async def story() -> None:
        async with mqplug.aio.connect("memory://served") as other:
            consumers = {topic: await other.consumer(topic, group="g", **options) for topic in handlers}
            await mqplug.aio.serve([(consumers[topic], awaited(handlers[topic])) for topic in handlers])

    asyncio.run(story())


both = pytest.mark.parametrize("serve", [serve, serve_in_loop])


class Counting:
    """A handler that counts its messages, and calls ``then`` at the tenth."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self.then = then
        self.fetcher: Any = None

    def __call__(self, message: mqplug.Message) -> None:
        self.count += 1
        if self.count == 10:
            self.then()

    def interrupt(self, number: signal.Signals) -> None:
        """Raise a signal in this process, and wait until it takes effect."""
        os.kill(os.getpid(), number)
        wait_until(lambda: self.fetcher is None or self.fetcher.stopping)


def left(mq: mqplug.Client, topic: str) -> int:
    """Return the number of messages that are not acked."""
    return sum(mq.lag(topic, group="g").values())


@both
def test_all_that_is_there_is_handled(mq: mqplug.Client, serve: Callable[..., None]) -> None:
    """A consumer that reaches its end leaves the others running, and serve returns after the last one."""
    with mq.producer("orders") as out:
        out.send_many([b"x"] * 500)
    handlers = {topic: Counting() for topic in TOPICS}
    serve(mq, handlers, until=LATEST)
    assert [handlers[topic].count for topic in TOPICS] == [600, 100]
    assert [left(mq, topic) for topic in TOPICS] == [0, 0]


@both
def test_sigterm_ends_all(mq: mqplug.Client, serve: Callable[..., None]) -> None:
    """After SIGTERM each message in hand is finished and acked, no other begins, and serve returns."""
    before = signal.getsignal(signal.SIGTERM)
    mq.create_topic("quiet")
    handlers = {"orders": Counting(), "mails": Counting()}
    handlers["orders"].then = lambda: handlers["orders"].interrupt(signal.SIGTERM)
    serve(mq, {**handlers, "quiet": Counting()})
    for topic in TOPICS:
        assert left(mq, topic) == 100 - handlers[topic].count
    assert handlers["orders"].count == 10
    assert signal.getsignal(signal.SIGTERM) is before


@both
def test_ctrl_c_ends_all(mq: mqplug.Client, serve: Callable[..., None]) -> None:
    """After Ctrl-C each message in hand is finished and acked, and KeyboardInterrupt is raised at the end."""
    before = signal.getsignal(signal.SIGINT)
    handlers = {"orders": Counting(), "mails": Counting()}
    handlers["orders"].then = lambda: handlers["orders"].interrupt(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        serve(mq, handlers)
    for topic in TOPICS:
        assert left(mq, topic) == 100 - handlers[topic].count
    assert handlers["orders"].count == 10
    assert signal.getsignal(signal.SIGINT) is before


@both
def test_the_first_failure_ends_all(mq: mqplug.Client, serve: Callable[..., None]) -> None:
    """If one consumer fails, the others finish the messages in hand, and its error is raised."""
    mails = Counting()
    handlers = {"orders": Counting(lambda: mq.delete_topic("orders")), "mails": mails}
    with pytest.raises(mqplug.TopicNotFound, match="orders"):
        serve(mq, handlers)
    assert left(mq, "mails") == 100 - mails.count


def test_what_is_no_exception_ends_all(mq: mqplug.Client) -> None:
    """A SystemExit in a handler ends serve, and is raised."""

    def leave() -> None:
        raise SystemExit(3)

    mails = Counting()
    with pytest.raises(SystemExit):
        serve(mq, {"orders": Counting(leave), "mails": mails})
    assert left(mq, "orders") == 91
    assert left(mq, "mails") == 100 - mails.count


def test_a_cancelled_serve_cancels_its_handlers(mq: mqplug.Client) -> None:
    """A cancelled serve leaves no handler running, and their messages come again."""

    async def story() -> None:
        begun = asyncio.Event()

        async def handle(message: mqplug.Message) -> None:
            begun.set()
            await asyncio.sleep(60)

        async with mqplug.aio.connect("memory://served") as other:
            consumers = [await other.consumer(topic, group="g") for topic in TOPICS]
            serving = asyncio.ensure_future(mqplug.aio.serve([(each, handle) for each in consumers]))
            await begun.wait()
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving

    asyncio.run(story())
    assert [left(mq, topic) for topic in TOPICS] == [100, 100]


def test_runs_that_overlap_in_a_loop_all_end_at_sigterm(mq: mqplug.Client) -> None:
    """Of two runs in one loop, the later one ends at SIGTERM although the other ended before."""

    async def story() -> None:
        first_ended = asyncio.Event()

        async def handle(message: mqplug.Message) -> None:
            if message.topic == "mails":
                await first_ended.wait()
                os.kill(os.getpid(), signal.SIGTERM)

        async with mqplug.aio.connect("memory://served") as other:
            orders = await other.consumer("orders", group="g", until=LATEST)
            mails = await other.consumer("mails", group="g")
            first = asyncio.ensure_future(orders.run(handle))
            await asyncio.sleep(0)
            second = asyncio.ensure_future(mails.run(handle))
            await first
            first_ended.set()
            await second

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(story())
    assert left(mq, "mails") == 99
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("services", "error", "says"),
    [
        (lambda one, other: [], ValueError, "at least one"),
        (lambda one, other: [one, other], TypeError, "pairs"),
        (lambda one, other: [(one, print), (one, print)], ValueError, "once"),
        (lambda one, other: [(one, print), (other, None)], TypeError, "must be callable"),
    ],
)
def test_what_cannot_be_served_is_refused(mq: mqplug.Client, services: Any, error: type[Exception], says: str) -> None:
    """Invalid arguments are refused before any consumer runs."""
    consumers = [mq.consumer(topic, group="g", until=LATEST) for topic in TOPICS]
    with pytest.raises(error, match=says):
        mqplug.serve(services(*consumers))
    assert [len(list(consumer)) for consumer in consumers] == [100, 100]


def test_it_needs_the_main_thread(mq: mqplug.Client) -> None:
    """In another thread, where no signal would end it, serve is refused."""
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            serve(mq, {"orders": Counting()})
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(20)
    assert "main thread" in str(failures[0])

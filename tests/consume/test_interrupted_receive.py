"""Ctrl-C at any step of a receive: nothing is lost, nothing comes twice, and the consumer continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from threading import Lock

import pytest
from helpers.interrupted_steps import Interrupt, interrupted

import mqplug
from mqplug import EARLIEST, Client, Consumer, Message, Record, spi
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConsumerProxy

PACKAGES = ("_consume", "_base", "_model", "memory")
STRIDE = 7  # 1 tries every step, and takes a minute

Receive = Callable[[Consumer], Iterable[Message]]


def receive(orders: Consumer) -> list[Message]:
    """Return one message, or none, in a list."""
    message = orders.receive(timeout=0)
    return [] if message is None else [message]


def receive_many(orders: Consumer) -> Iterable[Message]:
    """Return a batch, which may be empty."""
    return orders.receive_many(2, timeout=0)


def drained(orders: Consumer, fetch: Receive) -> list[Message]:
    """Receive until nothing came twice in a row."""
    found: list[Message] = []
    idle = 0
    while idle < 2:
        some = list(fetch(orders))
        found += some
        idle = 0 if some else idle + 1
    return found


def by_partition(messages: Iterable[Message]) -> dict[int, list[bytes | None]]:
    """Return the values of each partition, in the order in which they came."""
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    for message in messages:
        found[message.partition].append(message.value)
    return found


def call_in_thread(call: Callable[[], object]) -> None:
    """Call a function in its own thread, which must return."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "another thread waits for a lock that nobody holds"
    assert not failures, failures


def fill(mq: Client, values: Sequence[bytes]) -> None:
    """Send to two partitions, in turn."""
    with mq.producer("orders") as out:
        out.send_many([Record(value, partition=row % 2) for row, value in enumerate(values)])


def each_step() -> Iterator[tuple[Client, Interrupt]]:
    """Yield a client with a topic of four messages, and an interrupt one step later each time."""
    for number in count(1, STRIDE):
        interrupt = Interrupt(number, PACKAGES)
        with mqplug.connect("memory") as mq:
            mq.create_topic("orders", partitions=2)
            fill(mq, [b"a0", b"b0", b"a1", b"b1"])
            yield mq, interrupt
        if interrupt.where is None:
            assert number > 10 * STRIDE
            return


KINDS = {
    "reader": {"start": EARLIEST},
    "until": {"start": EARLIEST, "until": mqplug.LATEST},
    "member": {"group": "g"},
    "auto-ack": {"group": "g", "auto_ack": True},
    "bounded": {"group": "g", "max_unacked": 4},
    "sharing": {"group": "g", "mode": "shared"},
}


@pytest.mark.parametrize("fetch", [receive, receive_many])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_receive_loses_nothing(kind: str, fetch: Receive) -> None:
    """Whichever step Ctrl-C interrupts, each message comes in order and once; in shared mode it may come again."""
    for mq, interrupt in each_step():
        fill(mq, [b"a2", b"b2"]) if kind == "until" else None
        with mq.consumer("orders", **KINDS[kind]) as orders:
            received = [fetch(orders)]
            fill(mq, [b"a2", b"b2"]) if kind != "until" else None
            with interrupted(interrupt):
                for _ in range(4):
                    received += [fetch(orders)]
            found = [message for some in received for message in some]
            assert not orders._session.driver_session.lock.busy, interrupt.where
            call_in_thread(lambda: orders.pause(0) or orders.resume(0))
            found += drained(orders, fetch)
            if kind == "sharing":
                assert {each.value for each in found} == {b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"}, interrupt.where
            else:
                assert by_partition(found) == {0: [b"a0", b"a1", b"a2"], 1: [b"b0", b"b1", b"b2"]}, interrupt.where
            if kind in {"member", "bounded"}:
                for message in found:
                    orders.ack(message)
                assert not orders.late_acks, interrupt.where
                orders.commit(timeout=5)


@pytest.mark.parametrize("fetch", [receive, receive_many])
def test_a_nacked_message_comes_again_after_an_interrupt(fetch: Receive) -> None:
    """Whichever step Ctrl-C interrupts, a nacked message comes once more, and before the messages after it."""
    for mq, interrupt in each_step():
        with mq.consumer("orders", group="g") as orders:
            received = [fetch(orders)]
            first, *others = received[0]
            orders.nack(first, delay=0)
            with interrupted(interrupt):
                for _ in range(3):
                    received += [fetch(orders)]
            found = [message for some in received for message in some] + drained(orders, fetch)
            for message in found[1:]:
                orders.ack(message)
            found += drained(orders, fetch)
            expected = {0: [b"a0", b"a1"], 1: [b"b0", b"b1"]}
            expected[first.partition].insert(1 + len(others), first.value)
            assert by_partition(found) == expected, interrupt.where


class BreaksItsWait(ConsumerProxy):
    """A driver whose wait is interrupted so that it releases a lock which it does not have, as ``Condition.wait``."""

    def poll(self, most: int, timeout: float) -> Sequence[spi.Batch]:
        with (lock := Lock()):
            lock.release()
            raise KeyboardInterrupt


class Breaking:
    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self):
        return BreaksItsWait((yield))


def test_an_interrupt_that_breaks_a_lock_is_an_interrupt() -> None:
    """Ctrl-C within a driver's wait is raised as Ctrl-C, although the wait then fails to release its lock."""
    with mqplug.connect("memory://", extensions=[Breaking()]) as mq:
        mq.create_topic("orders")
        with mq.consumer("orders", start=EARLIEST) as orders, pytest.raises(KeyboardInterrupt):
            orders.receive(timeout=5)


def test_a_client_closes_after_an_interrupted_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a client starts its background thread leaves a client that works and closes."""
    with mqplug.connect("memory://") as mq:
        mq.create_topic("orders")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupt_start)
            with pytest.raises(KeyboardInterrupt):
                mq.producer("orders")
        with mq.producer("orders") as producer:
            assert producer.submit(b"kept").result(5)


def interrupt_start(thread: threading.Thread) -> None:
    """Fail as a thread's start does at Ctrl-C."""
    raise KeyboardInterrupt

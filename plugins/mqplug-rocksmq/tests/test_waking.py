"""Wake-ups: a waiting receiver gets a message at once, in this process and in another."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from rocksmq_stores import Member, eventually, serving

import mqplug
from mqplug import Position
from mqplug.spi import Mode
from mqplug_rocksmq._processes import following_connection, served_consumer
from mqplug_rocksmq._processes.codec import pack_batches
from mqplug_rocksmq._processes.owner_services import UNCOUNTED_BYTES
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.served_consumer import PollBell, answer_first, hold_rings, ring_held

WAIT = 5.0  # seconds of one poll: a client process asks again after at most that


@pytest.fixture(params=["owner", "guest"])
def mq(request: pytest.FixtureRequest, path: Path) -> Iterator[mqplug.Client]:
    """A client that owns its store, or one whose store another process owns."""
    with ExitStack() as stack:
        if request.param == "guest":
            stack.enter_context(serving(path, "--sync", "os"))
        client = stack.enter_context(mqplug.connect("rocksmq", path=str(path), sync="os"))
        client.create_topic("orders")
        yield client


def test_a_send_ends_a_wait_at_once(mq: mqplug.Client) -> None:
    """A waiting receiver is woken by each message, and does not just look at the timeout."""
    sent: list[float] = []
    asked = threading.Semaphore(0)

    def send() -> None:
        with mq.producer("orders") as out:
            for _ in range(20):
                assert asked.acquire(timeout=10)
                time.sleep(0.01)  # let it wait
                sent.append(time.monotonic())
                out.send(b"x")

    sender = threading.Thread(target=send)
    sender.start()
    took = []
    reader = Member(mq, "orders", None, start={log: Position(log, (0,)) for log in mq.partitions("orders")})
    for _ in range(20):
        asked.release()
        deadline = time.monotonic() + 30
        while not reader.driver.poll(1, WAIT):  # a poll may end early, with nothing
            assert time.monotonic() < deadline
        took.append(time.monotonic() - sent[-1])
    reader.driver.close(10)
    sender.join()
    assert median(took) < WAIT - 1, "it did not wake, and looked when the time was over"


def test_a_poll_is_answered_by_the_thread_that_stores() -> None:
    """While a poll's thread sleeps, the thread that stores a message answers it, without waking the poll's thread."""
    answers = [True, False, False]
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as silent, ThreadPoolExecutor(1) as waiter:
        bell = PollBell(silent.fileno(), lambda: answers.pop(0))
        assert not bell.answer(), "its own thread is awake, and uses the consumer"
        woken = waiter.submit(bell.wait, 30)
        eventually(lambda: not bell._awake.locked())
        for left in (2, 1):
            assert not woken.done()
            hold_rings()
            bell.ring()
            answer_first()
            assert len(answers) == left
            ring_held()
        assert not answers
        assert woken.result(30), "the answer that failed is left to its own thread"
        bell.ring()
        assert bell.wait(30)
        assert not bell.wait(0)
        bell.close()
        bell.ring()


@pytest.mark.parametrize("mode", ["ordered", "shared"])
@pytest.mark.parametrize("most", [0, UNCOUNTED_BYTES])
def test_answers_of_other_threads(path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, most: int) -> None:
    """A waiting receiver gets each message once and in order, from any sending thread."""
    monkeypatch.setattr(served_consumer, "UNCOUNTED_BYTES", most)  # 0 leaves every answer to the poll's own thread
    with served(path) as (owner, guest):
        got = ThreadPoolExecutor(1)
        with guest.consumer("orders", group="g", mode=mode, start=mqplug.EARLIEST) as consumer:
            values = got.submit(lambda: [received(consumer) for _ in range(100)])
            with guest.producer("orders") as out, owner.producer("orders") as other:
                for number in range(0, 100, 2):
                    out.send(b"%d" % number)
                    other.send(b"%d" % (number + 1))
            assert values.result(60) == [b"%d" % number for number in range(100)]
        got.shutdown()


def test_an_answer_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If a message cannot be passed on, its sender is not affected, and its receiver reconnects and gets it."""
    failures = [MemoryError()]

    def failing(*arguments: Any, **named: Any) -> Any:
        if failures and arguments[0]:
            raise failures.pop()
        return pack_batches(*arguments, **named)

    with served(path) as (_, guest), guest.consumer("orders", group="g", start=mqplug.EARLIEST) as consumer:
        got = ThreadPoolExecutor(1)
        value = got.submit(received, consumer)
        monkeypatch.setattr(served_consumer, "pack_batches", failing)
        with guest.producer("orders") as out:
            out.send(b"x")
        assert value.result(60) == b"x"
        got.shutdown()
    assert not failures


def received(consumer: mqplug.Consumer) -> bytes | None:
    """Return the value of the next message, acked."""
    message = consumer.receive(60)
    assert message
    consumer.ack(message)
    return message.value


@contextmanager
def served(path: Path) -> Iterator[tuple[mqplug.Client, mqplug.Client]]:
    """A client that owns a store with a topic, and a client of this process that uses it as other processes do."""
    with ExitStack() as stack:
        owner = stack.enter_context(mqplug.connect("rocksmq", path=str(path), sync="os"))
        owner.create_topic("orders")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                following_connection, "open_or_connect", lambda path, settings, timeout: RemoteConnection(path, timeout)
            )
            guest = stack.enter_context(mqplug.connect("rocksmq", path=str(path), sync="os"))
        yield owner, guest

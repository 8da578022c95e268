"""Opening what the native client forgets to open."""

from __future__ import annotations

from threading import Event, Thread, Timer

import _pulsar
import pytest
from _pulsar import Result

import mqplug
from mqplug_pulsar._cluster import open_retrying
from mqplug_pulsar._cluster.open_retrying import open_with_retries

pytestmark = pytest.mark.python

DEADLINE = 20


class OpenedConsumers:
    """A native reader that tells when it is closed."""

    def __init__(self):
        self.closed = Event()

    def close(self):
        self.closed.set()


class Client:
    """A native client that forgets the first attempts until it is told to go on."""

    def __init__(self, forgets, *, fails=False):
        self.opened = []
        self._forgets = forgets
        self._fails = fails
        self._forgotten = []

    def open(self, callback):
        opened = OpenedConsumers()
        self.opened.append(opened)
        if len(self.opened) <= self._forgets:
            self._forgotten.append((callback, opened))
        else:
            callback(Result.ConsumerBusy if self._fails else Result.Ok, opened)

    def remember(self):
        for callback, opened in self._forgotten:
            callback(Result.Ok, opened)


@pytest.fixture
def hurry(monkeypatch):
    """No attempt but the last is waited for."""
    monkeypatch.setattr(open_retrying, "ATTEMPT_WAITS_S", (0.2, 0.2, DEADLINE))


def test_answered_at_once():
    """What is opened in time is opened once."""
    client = Client(0)
    assert open_with_retries(client.open, Event()) is client.opened[0]
    assert len(client.opened) == 1


def test_forgotten(hurry):
    """What was forgotten is opened by another attempt; if it comes all the same, it is closed."""
    client = Client(2)
    found = open_with_retries(client.open, Event())
    assert found is client.opened[2]
    client.remember()
    assert all(each.closed.wait(DEADLINE) for each in client.opened[:2])
    assert not found.closed.is_set()


def test_slow_and_in_the_way(hurry):
    """An attempt that fails because an earlier one was only slow does no harm."""
    client = Client(1, fails=True)
    Timer(0.3, client.remember).start()
    assert open_with_retries(client.open, Event()) is client.opened[0]


def test_fails(hurry):
    """An error is told at once, or when the earlier attempts had their time."""
    client = Client(0, fails=True)
    with pytest.raises(_pulsar.ConsumerBusy):
        open_with_retries(client.open, Event())
    assert len(client.opened) == 1
    with pytest.raises(_pulsar.ConsumerBusy):
        open_with_retries(Client(1, fails=True).open, Event())


def test_closed_meanwhile():
    """A client that is closed is waited for no longer."""
    closed = Event()
    Timer(0.1, closed.set).start()
    with pytest.raises(mqplug.Closed):
        open_with_retries(Client(9).open, closed)


def test_opened_while_the_topic_moves(mq, topic, pulsar_server):
    """A reader is opened in time also while the broker closes the topic again and again."""
    with mq.producer(topic) as out:
        out.send(b"x")
    ended = Event()

    def move():
        while not ended.wait(0.1):  # about as long as an opening takes: none would ever end if it were closed each time
            pulsar_server.unload(topic)

    moving = Thread(target=move)
    moving.start()
    try:
        for _ in range(12):
            mq.consumer(topic, start=mqplug.EARLIEST).close()  # in 30 s, when the native client only gives up
    finally:
        ended.set()
        moving.join()
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        assert reader.receive(timeout=DEADLINE).value == b"x"

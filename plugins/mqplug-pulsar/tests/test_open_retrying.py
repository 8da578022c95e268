"""Retries of opens that pulsar-client never answers."""

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
    """A reader of pulsar-client that records its close."""

    def __init__(self):
        self.closed = Event()

    def close(self):
        self.closed.set()


class Client:
    """A pulsar-client that answers its first opens only when ``remember`` is called."""

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
    """Shorten the waits for all attempts except the last."""
    monkeypatch.setattr(open_retrying, "ATTEMPT_WAITS_S", (0.2, 0.2, DEADLINE))


def test_answered_at_once():
    """An open that is answered in time is attempted once."""
    client = Client(0)
    assert open_with_retries(client.open, Event()) is client.opened[0]
    assert len(client.opened) == 1


def test_forgotten(hurry):
    """An open without an answer is attempted again; a consumer that a former attempt opens late is closed."""
    client = Client(2)
    found = open_with_retries(client.open, Event())
    assert found is client.opened[2]
    client.remember()
    assert all(each.closed.wait(DEADLINE) for each in client.opened[:2])
    assert not found.closed.is_set()


def test_slow_and_in_the_way(hurry):
    """When a retry fails because an earlier attempt was only slow, the earlier attempt's consumer is returned."""
    client = Client(1, fails=True)
    Timer(0.3, client.remember).start()
    assert open_with_retries(client.open, Event()) is client.opened[0]


def test_fails(hurry):
    """An error is raised at once, or after the waits for earlier attempts."""
    client = Client(0, fails=True)
    with pytest.raises(_pulsar.ConsumerBusy):
        open_with_retries(client.open, Event())
    assert len(client.opened) == 1
    with pytest.raises(_pulsar.ConsumerBusy):
        open_with_retries(Client(1, fails=True).open, Event())


def test_closed_meanwhile():
    """An open ends with ``Closed`` when its client is closed."""
    closed = Event()
    Timer(0.1, closed.set).start()
    with pytest.raises(mqplug.Closed):
        open_with_retries(Client(9).open, closed)


def test_opened_while_the_topic_moves(mq, topic, pulsar_server):
    """Readers open in time although the broker unloads the topic several times in the midst of each open."""
    with mq.producer(topic) as out:
        out.send(b"x")

    def move(opened):
        pause = 0.02  # growing, so that an open can end on a machine of any speed
        while not opened.wait(pause):
            pulsar_server.unload(topic)
            pause *= 1.5

    for _ in range(12):
        opened = Event()
        moving = Thread(target=move, args=[opened])
        moving.start()
        try:
            mq.consumer(topic, start=mqplug.EARLIEST).close()  # within 30 s, after which pulsar-client gives up
        finally:
            opened.set()
            moving.join()
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        assert reader.receive(timeout=DEADLINE).value == b"x"

"""Clients whose broker is restarted, killed or frozen, or unloads their topics."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from broker_stream import Stream
from pulsar_driver import fill, take

from mqplug import EARLIEST


def restarted(server):
    """Stop the broker in order and start it again."""
    server.restart()


def killed(server):
    """Kill the broker and start it again."""
    server.kill()
    server.start()


def frozen(server):
    """Freeze the broker for five seconds."""
    server.pause()
    time.sleep(5)
    server.unpause()


def unloaded(server):
    """Unload every topic of the namespace three times."""
    for _ in range(3):
        server.unload()
        time.sleep(1)


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "disturb",
    [pytest.param(restarted, marks=pytest.mark.night), killed, pytest.param(frozen, marks=pytest.mark.night), unloaded],
)
def test_all_goes_on(pulsar_server, mq, topic, disturb):
    """After a disturbance all stored messages arrive in order, and no committed message comes again."""
    with Stream(mq, topic, "g") as stream:
        stream.turns(100)
        disturbance = Thread(target=disturb, args=[pulsar_server])
        disturbance.start()
        while disturbance.is_alive():
            stream.turn()
        stream.turns(100)
        stream.settle()
        stream.check(once=False)
    with mq.consumer(topic, group="g") as successor:
        sent = fill(mq, topic, 1)
        assert [message.id for message in take(successor, 1)] == sent


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_an_outage_is_told_once_while_a_reader_waits(pulsar_server, mq, topic, caplog):
    """While the broker is down ``receive`` returns None; the outage is logged once, and once more when it ends."""
    fill(mq, topic, 1)
    with mq.consumer(topic, start=EARLIEST) as reader:
        take(reader, 1)
        pulsar_server.stop()
        try:
            end = time.monotonic() + 60
            while not outages(caplog):
                assert reader.receive(0.5) is None
                assert time.monotonic() < end, "nobody tells that the broker is away"
            assert [reader.receive(1) for _ in range(5)] == [None] * 5
            assert outages(caplog) == 1
        finally:
            pulsar_server.start()
        sent = fill(mq, topic, 1)
        assert [message.id for message in take(reader, 1)] == sent
        assert outages(caplog) == 2


def outages(caplog):
    """Return how many log records are about outages."""
    return [record.name for record in caplog.records].count("mqplug.outage")

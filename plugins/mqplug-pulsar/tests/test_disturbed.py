"""The broker is restarted, killed and frozen under producers, readers, acks and seeks."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from broker_stream import Stream
from pulsar_driver import fill, take

from mqplug import EARLIEST


def restarted(server):
    """Stopped in order, and started again."""
    server.restart()


def killed(server):
    """Killed, and started again."""
    server.kill()
    server.start()


def frozen(server):
    """Silent for a while."""
    server.pause()
    time.sleep(5)
    server.unpause()


def unloaded(server):
    """Every topic of the namespace closed and opened again, three times."""
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
    """What was stored is there in order, each message is taken, none again that was acked for good."""
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
    """A receive beside a dead broker brings nothing, and the core's logger says why, and when messages come again."""
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
    """How many lines tell of an outage."""
    return [record.name for record in caplog.records].count("mqplug.outage")

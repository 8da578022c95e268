"""Producers, readers, acks and seeks while the broker is restarted, killed or frozen."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from broker_stream import Stream
from kafka_driver import fill, new_name, take

import mqplug


def restarted(server):
    """Stop the broker cleanly and start it again."""
    server.restart()


def killed(server):
    """Kill the broker and start it again."""
    server.kill()
    server.start()


def frozen(server):
    """Freeze the broker for longer than a session."""
    server.pause()
    time.sleep(5)
    server.unpause()


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("disturb", [pytest.param(restarted, marks=pytest.mark.night), killed, frozen])
def test_all_goes_on(kafka_server, telling, disturb):
    """Each message is stored once and in order, each is received, and none is delivered again after a committed ack."""
    name, group = new_name(), new_name()
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], session_timeout=3.0, librdkafka=telling) as mq:
        mq.create_topic(name)
        with Stream(mq, name, group) as stream:
            stream.turns(200)
            disturbance = Thread(target=disturb, args=[kafka_server])
            disturbance.start()
            while disturbance.is_alive():
                stream.turn()
            stream.turns(200)
            stream.settle()
            stream.check(once=True)
        assert mq.lag(name, group=group) == {0: 0}
        with mq.consumer(name, group=group) as successor:
            sent = fill(mq, name, 1, prefix="after")
            assert [message.id for message in take(successor, 1)] == sent

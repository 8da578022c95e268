"""The broker is restarted, killed and frozen under producers, readers, acks and seeks."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from broker_stream import Stream
from kafka_driver import fill, new_name, take

import mqplug


def restarted(server):
    """Stopped in order, and started again."""
    server.restart()


def killed(server):
    """Killed, and started again."""
    server.kill()
    server.start()


def frozen(server):
    """Silent for longer than a session."""
    server.pause()
    time.sleep(5)
    server.unpause()


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("disturb", [pytest.param(restarted, marks=pytest.mark.night), killed, frozen])
def test_all_goes_on(kafka_server, telling, disturb):
    """What was stored is there once and in order, each message is taken, none again that was acked for good."""
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

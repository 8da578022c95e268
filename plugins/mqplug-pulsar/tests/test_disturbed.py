"""The broker is restarted, killed and frozen under producers, readers, acks and seeks."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from pulsar_steps import fill, take
from stream import Stream


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("disturb", [restarted, killed, frozen])
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

"""Commits are durable and end soon while their topic is unloaded. test_outlives_a_kill.py covers kills."""

from __future__ import annotations

import time
from threading import Thread

import pulsar
import pytest
from pulsar_driver import check_exactly, fill, take

pytestmark = pytest.mark.timeout(300)

COMMITS = 10
COMMIT_S = 8  # after the unload; a commit takes a second or two


def test_a_commit_while_the_topic_is_unloaded(mq, topic, pulsar_server):
    """A commit during an unload of its topic succeeds within 8 seconds after the unload, and its acks last."""
    for _ in range(4 * COMMITS):
        fill(mq, topic, 1)
    unloaded = []

    def unload():
        pulsar_server.unload(topic)
        unloaded.append(time.monotonic())

    with mq.consumer(topic, group="g") as member:
        for at, message in enumerate(take(member, 4 * COMMITS)):
            member.ack(message)
            if at % 4 == 3:
                unloading = Thread(target=unload)
                unloading.start()
                member.commit(timeout=30)
                committed = time.monotonic()
                unloading.join()
                assert committed < unloaded[-1] + COMMIT_S
    check_exactly(mq, topic, [])


def test_a_batch_that_came_in_several_polls_is_acked_as_a_whole(mq, topic, monkeypatch):
    """A commit acks a batch with one call of the client, although its messages came in several polls."""
    acked = []
    acknowledge = pulsar.Consumer.acknowledge

    def count(consumer, message):
        acked.append(message)
        acknowledge(consumer, message)

    monkeypatch.setattr(pulsar.Consumer, "acknowledge", count)
    sent = fill(mq, topic, 350)
    with mq.consumer(topic, group="g") as member:
        taken = []
        while len(taken) < len(sent):
            taken += member.receive_many(100, timeout=20)
        member.ack_through(taken[-1])
        member.commit(timeout=30)
        batches = {message.id.coordinates[:2] for message in taken}
        assert len(acked) == len(batches) < len(taken)
    check_exactly(mq, topic, [])

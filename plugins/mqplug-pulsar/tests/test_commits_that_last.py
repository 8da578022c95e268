"""What a commit stored is there after the broker was killed when it returned, however close commits come together."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from pulsar_driver import check_exactly, fill, killed, take, take_all

pytestmark = pytest.mark.timeout(300)

COMMITS = 10
COMMIT_S = 8  # after the topic was unloaded; it takes a second or two


def commit_each(member, rounds):
    """Ack and commit these groups of messages, one directly after the other."""
    for messages in rounds:
        for message in messages:
            member.ack(message)
        member.commit()


def single_messages(taken):
    """Each commit stores one message, in order."""
    return [[message] for message in taken[:COMMITS]], taken[COMMITS:]


def out_of_order(taken):
    """Each commit stores every second message of the next four."""
    return [taken[at + 1 : at + 4 : 2] for at in range(0, 4 * COMMITS, 4)], taken[::2]


@pytest.mark.parametrize("choose", [single_messages, out_of_order])
def test_single_messages(mq, topic, pulsar_server, choose):
    """Messages that were sent one by one, and acked in order or with gaps, do not come again."""
    with mq.producer(topic) as out:
        for number in range(4 * COMMITS):
            out.send(b"%d" % number)
    member = mq.consumer(topic, group="g")
    rounds, rest = choose(take_all(member, 4 * COMMITS))
    commit_each(member, rounds)
    killed(pulsar_server)
    member.close()
    check_exactly(mq, topic, [message.id for message in rest])


def test_whole_batches(mq, topic, pulsar_server):
    """Batches that were acked whole do not come again."""
    for _ in range(COMMITS + 1):
        fill(mq, topic, 10)
    member = mq.consumer(topic, group="g")
    taken = take_all(member, 10 * (COMMITS + 1))
    commit_each(member, [taken[at : at + 10] for at in range(0, 10 * COMMITS, 10)])
    killed(pulsar_server)
    member.close()
    check_exactly(mq, topic, [message.id for message in taken[-10:]])


def test_holes_in_batches(mq, topic, pulsar_server):
    """Of batches that were acked whole and in part, only the gaps come again."""
    for _ in range(COMMITS):
        fill(mq, topic, 10)
    member = mq.consumer(topic, group="g")
    taken = take_all(member, 10 * COMMITS)
    rounds = [taken[at : at + 13] for at in range(0, 10 * COMMITS, 15)]
    commit_each(member, rounds)
    acked = {message.id for messages in rounds for message in messages}
    killed(pulsar_server)
    member.close()
    check_exactly(mq, topic, [message.id for message in taken if message.id not in acked])


def test_a_close_right_after_a_commit(mq, topic, pulsar_server):
    """What a close stores directly after a commit lasts as well."""
    ids = [fill(mq, topic, 1)[0] for _ in range(COMMITS + 2)]
    with mq.consumer(topic, group="g") as member:
        taken = take(member, COMMITS)
        commit_each(member, [[message] for message in taken[:-1]])
        member.ack(taken[-1])
    killed(pulsar_server)
    check_exactly(mq, topic, ids[COMMITS:])


def test_a_commit_while_the_topic_is_unloaded(mq, topic, pulsar_server):
    """A commit during which the topic is unloaded succeeds as soon as its member is connected again."""
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

"""What a commit stored is there after the broker was killed when it returned, however close commits come together."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import pytest
from pulsar_driver import LIMIT_S, check_exactly, fill, killed, take, take_all

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


def whole_batches(taken):
    """Each commit stores a batch of ten messages."""
    return [taken[at : at + 10] for at in range(0, 10 * COMMITS, 10)], taken[10 * COMMITS :]


def holes_in_batches(taken):
    """Each commit stores a batch and a part of another one, or two parts."""
    rounds = [taken[at : at + 13] for at in range(0, 10 * COMMITS, 15)]
    acked = {message.id for messages in rounds for message in messages}
    return rounds, [message for message in taken if message.id not in acked]


SENT = {
    single_messages: (40, 1),
    out_of_order: (40, 1),
    whole_batches: (COMMITS + 1, 10),
    holes_in_batches: (COMMITS, 10),
}
"""How many batches are sent for each way to commit, and of how many messages."""


def test_commits_outlive_a_kill(mq, name, pulsar_server):
    """What was committed does not come again, and what was not does, whatever the commits stored."""
    together = Barrier(len(SENT))

    def commit(choose):
        topic = f"{name}-{choose.__name__}"
        mq.create_topic(topic)
        batches, size = SENT[choose]
        for _ in range(batches):
            fill(mq, topic, size)
        member = mq.consumer(topic, group="g")
        rounds, rest = choose(take_all(member, batches * size))
        commit_each(member, rounds[:-2])
        together.wait(LIMIT_S)
        commit_each(member, rounds[-2:])
        return member, topic, [message.id for message in rest]

    with ThreadPoolExecutor(len(SENT)) as threads:  # they end together, so that the kill comes right after each
        committed = list(threads.map(commit, SENT))
    killed(pulsar_server)
    for member, _, _ in committed:
        member.close()
    for _, topic, rest in committed:
        check_exactly(mq, topic, rest)


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

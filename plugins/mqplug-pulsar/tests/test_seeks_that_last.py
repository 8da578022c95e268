"""A group that was moved is there after the broker was killed when the move returned: nothing behind it is skipped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pulsar_driver import fill, killed, take

import mqplug

pytestmark = pytest.mark.timeout(300)


def acked_with_gaps(mq, topic, group):
    """The ids of four batches, of which the group acked the first whole, and others with gaps. It is at their start."""
    ids = [each for _ in range(4) for each in fill(mq, topic, 10)]
    with mq.consumer(topic, group=group) as member:
        taken = take(member, len(ids))
        for message in [*taken[:10], *taken[12:16], *taken[20:30]]:
            member.ack(message)
        member.commit()
    return ids


def seek(mq, topic, mode, ids):
    """Seek to the beginning as a member in this mode. Return the member."""
    member = mq.consumer(topic, group="g", mode=mode)
    member.seek(mqplug.before(ids[0]))
    return member


def reset(mq, topic, mode, ids):
    """Reset the group to the beginning."""
    mq.reset_group("g", topic, mqplug.before(ids[0]))


MOVES = ((seek, "ordered"), (reset, "ordered"), (seek, "shared"), (seek, "key_shared"))


def test_moves_outlive_a_kill(mq, name, pulsar_server):
    """After a seek or ``reset_group`` backward and a kill, messages that were acked before the move come again."""
    topics = [f"{name}-{number}-{move.__name__}-{mode}" for number, (move, mode) in enumerate(MOVES)]
    for topic in topics:
        mq.create_topic(topic)
    ids = [acked_with_gaps(mq, topic, "g") for topic in topics]
    with ThreadPoolExecutor(len(MOVES)) as threads:  # together, so that the kill comes right after each of them
        started = [
            threads.submit(move, mq, topic, mode, sent)
            for (move, mode), topic, sent in zip(MOVES, topics, ids, strict=True)
        ]
        members = [each.result() for each in started]
    killed(pulsar_server)
    for member in filter(None, members):
        member.close()
    for (_, mode), topic, sent in zip(MOVES, topics, ids, strict=True):
        with mq.consumer(topic, group="g", mode=mode) as member:
            found = [message.id for message in take(member, len(sent))]
            assert (found if mode == "ordered" else sorted(found)) == sent, topic

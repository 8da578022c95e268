"""A group that was moved is there after the broker was killed when the move returned: nothing behind it is skipped."""

from __future__ import annotations

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


def check_nothing_skipped(mq, topic, group, ids):
    """The next member gets all these messages, in order."""
    with mq.consumer(topic, group=group) as member:
        assert [message.id for message in take(member, len(ids))] == ids


def test_a_seek(mq, topic, pulsar_server):
    """After a seek backward and a kill, messages that were acked before the seek come again."""
    ids = acked_with_gaps(mq, topic, "g")
    member = mq.consumer(topic, group="g")
    member.seek(mqplug.before(ids[0]))
    killed(pulsar_server)
    member.close()
    check_nothing_skipped(mq, topic, "g", ids)


def test_a_reset(mq, topic, pulsar_server):
    """After ``reset_group`` and a kill, messages that were acked before come again."""
    ids = acked_with_gaps(mq, topic, "g")
    mq.reset_group("g", topic, mqplug.before(ids[0]))
    killed(pulsar_server)
    check_nothing_skipped(mq, topic, "g", ids)


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
def test_a_seek_of_members_that_share(mq, topic, pulsar_server, mode):
    """After a seek backward in a shared mode and a kill, messages that were acked before the seek come again."""
    ids = acked_with_gaps(mq, topic, "g")
    member = mq.consumer(topic, group="g", mode=mode)
    member.seek(mqplug.before(ids[0]))
    killed(pulsar_server)
    member.close()
    with mq.consumer(topic, group="g", mode=mode) as member:
        assert sorted(message.id for message in take(member, len(ids))) == ids

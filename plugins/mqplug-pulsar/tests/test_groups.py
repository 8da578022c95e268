"""Ordered groups: Failover subscriptions, and the pitfalls of acks."""

from __future__ import annotations

import pytest
from pulsar_driver import fill, take

import mqplug
from mqplug import EARLIEST, LATEST, after, last

pytestmark = pytest.mark.python


def test_middle_of_a_batch(mq, topic):
    """After acks inside a batch the committed position is inside it, and the next member gets exactly the rest."""
    ids = fill(mq, topic, 5)
    assert mq.capabilities.ack_granularity == "message"
    with mq.consumer(topic, group="g") as member:
        for message in take(member, 3):
            member.ack(message)
        member.commit()
        assert member.committed()[0].coordinates == ids[3].coordinates
    with mq.consumer(topic, group="g") as member:
        assert [message.id for message in take(member, 2)] == ids[3:]


def test_holes(mq, topic):
    """After single acks inside a batch exactly the unacked messages come again."""
    ids = fill(mq, topic, 6)
    with mq.consumer(topic, group="g") as member:
        taken = take(member, 6)
        for index in (1, 2, 5):
            member.ack(taken[index])
    with mq.consumer(topic, group="g") as member:
        assert [message.id for message in take(member, 3)] == [ids[0], ids[3], ids[4]]
        fresh = fill(mq, topic, 1)
        assert take(member, 1)[0].id == fresh[0]


def test_acks_before_acks_of_others(mq, topic):
    """A message that one member acked in a batch stays acked when another member acks an earlier one."""
    ids = fill(mq, topic, 4)
    with mq.consumer(topic, group="g") as member:
        member.ack(take(member, 3)[2])
    with mq.consumer(topic, group="g") as member:
        taken = take(member, 3)
        assert [message.id for message in taken] == [ids[0], ids[1], ids[3]]
        member.ack(taken[0])
    with mq.consumer(topic, group="g") as member:
        assert mq.positions(topic, group="g")[0].position.precedes(ids[1])
        assert [message.id for message in take(member, 2)] == [ids[1], ids[3]]
        fresh = fill(mq, topic, 1)
        assert take(member, 1)[0].id == fresh[0]


def test_place_in_the_first_batch_of_a_ledger(mq, topic, pulsar_server):
    """A group's position inside the first batch after a closed ledger is reported, and is where a member begins."""
    fill(mq, topic, 2)
    pulsar_server.unload(topic)
    ids = fill(mq, topic, 3)
    mq.reset_group("g", topic, after(ids[0]))
    assert mq.positions(topic, group="g")[0].position.coordinates == ids[1].coordinates
    with mq.consumer(topic, group="g") as member:
        assert [message.id for message in take(member, 2)] == ids[1:]


def test_acked_entry_is_a_range(mq, topic):
    """A single message that was acked after unacked ones does not come again, but still counts in the lag."""
    single = [fill(mq, topic, 1)[0] for _ in range(4)]
    with mq.consumer(topic, group="g") as member:
        taken = take(member, 4)
        member.ack(taken[2])
        member.commit()
    assert mq.lag(topic, group="g")[0] == 4
    with mq.consumer(topic, group="g") as member:
        assert [message.id for message in take(member, 3)] == [single[0], single[1], single[3]]


def test_seek_moves_the_group_into_a_batch(mq, topic):
    """After a seek into a batch a new member begins exactly at that position, although nothing was acked since."""
    ids = fill(mq, topic, 5)
    with mq.consumer(topic, group="g") as member:
        for message in take(member, 5):
            member.ack(message)
        member.commit()
        member.seek(ids[2])
        assert member.committed()[0].coordinates == ids[2].coordinates
    with mq.consumer(topic, group="g") as member:
        assert take(member, 1)[0].id == ids[2]
        member.seek(ids[0])
        assert take(member, 1)[0].id == ids[0]


@pytest.mark.parametrize(("start", "first"), [(EARLIEST, 0), (last(2), 3), (last(4), 1)])
def test_start_of_a_new_group(mq, topic, start, first):
    """A new group's start is stored when its consumer opens, even inside a batch; a later start has no effect."""
    ids = fill(mq, topic, 5)
    mq.consumer(topic, group="g", start=start).close()
    with mq.consumer(topic, group="g", start=LATEST) as member:
        assert take(member, 1)[0].id == ids[first]


def test_start_at_a_position(mq, topic):
    """A group can begin right after a given message, and after the last one."""
    ids = fill(mq, topic, 5)
    with mq.consumer(topic, group="a", start=mqplug.after(ids[1])) as member:
        assert take(member, 1)[0].id == ids[2]
    with mq.consumer(topic, group="b", start=mqplug.after(ids[4])) as member:
        fresh = fill(mq, topic, 1)
        assert take(member, 1)[0].id == fresh[0]


def test_must_exist(mq, topic):
    """With ``must_exist=True`` an unknown group raises ``GroupNotFound`` and is not created."""
    with pytest.raises(mqplug.GroupNotFound):
        mq.consumer(topic, group="g", must_exist=True)
    with pytest.raises(mqplug.GroupNotFound):
        mq.consumer(topic, group="g", must_exist=True)
    mq.consumer(topic, group="g").close()
    mq.consumer(topic, group="g", must_exist=True).close()


def test_no_trace_without_a_group(mq, topic, rest):
    """Reading without a group, and asking for bounds, leaves no subscription except those of open readers."""
    fill(mq, topic, 3)
    list(mq.read(topic))
    mq.bounds(topic)
    assert not [name for name in rest.cursors(topic) if not name.startswith("reader-")]


def test_busy(mq, topic, pulsar_server):
    """A subscription that another program holds exclusively raises ``ConsumerBusy``."""
    import pulsar

    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    native = pulsar.Client(pulsar_server.service_url, logger=logger)
    native.subscribe(f"{topic}-partition-0", "g")
    try:
        with pytest.raises(mqplug.ConsumerBusy):
            mq.consumer(topic, group="g")
    finally:
        native.close()


def test_standby_takes_over(mq, topic, pulsar_server):
    """The standby member gets nothing while the active one is open, and all unacked messages afterwards."""
    ids = fill(mq, topic, 4)
    with mqplug.connect(pulsar_server.url) as other:
        first = mq.consumer(topic, group="g")
        member = other.consumer(topic, group="g")
        holders = {0: first, 1: member}
        got = None
        while got is None:
            for holder, consumer in holders.items():
                if got is None and (message := consumer.receive(0.2)) is not None:
                    got = holder, consumer, message
        holder, active, message = got
        active.ack(message)
        active.commit()
        active.close()
        left = [take(holders[1 - holder], 1)[0].id for _ in range(3)]
        assert left == ids[1:]
        holders[1 - holder].close()


def test_dead_letters_for_the_same_topic_by_its_full_name(mq, topic):
    """The consumer's own topic is refused as dead-letter topic, also by its full name, and no group is created."""
    own = f"persistent://public/default/{topic}"
    with pytest.raises(ValueError, match="is a topic that this consumer reads"):
        mq.consumer(topic, group="g", retry=mqplug.Retry(1), dead_letter=own)
    assert mq.groups(topic) == []

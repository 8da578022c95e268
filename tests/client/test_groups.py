"""Administration of groups: listing, inspecting, moving and deleting them."""

from __future__ import annotations

import pytest

import mqplug
from mqplug import EARLIEST, LATEST, GroupInfo, GroupPosition, Position, after, before, last


@pytest.fixture
def mq():
    """A client with the topic "orders" of two partitions, and four messages in each."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders", partitions=2)
        yield client


@pytest.fixture
def ids(mq):
    """The ids of the messages, by partition."""
    with mq.producer("orders") as out:
        records = {number: [mqplug.Record(b"x", partition=number)] * 4 for number in (0, 1)}
        return {number: list(out.send_many(each)) for number, each in records.items()}


def standing(mq, group="billing"):
    """Return the coordinates of a group's positions."""
    return {number: at.position.coordinates[0] for number, at in mq.positions("orders", group=group).items()}


def use(mq, group="billing", **options):
    """Ack the first message of each partition as a member of a group, and leave."""
    with mq.consumer("orders", group=group, **options) as consumer:
        firsts = {message.partition: message for message in reversed([consumer.receive(5) for _ in range(8)])}
        for message in firsts.values():
            consumer.ack(message)


# listing ---------------------------------------------------------------------------------------------------


def test_groups_are_listed_with_their_members(mq):
    """Every group with a position is listed, by name, with its current number of members."""
    mq.create_topic("audit")
    mq.reset_group("idle", "audit", EARLIEST)
    with mq.consumer("orders", group="billing"), mq.consumer("orders", group="billing"):
        assert mq.groups() == [GroupInfo("billing", 2), GroupInfo("idle", 0)]
        assert mq.groups("audit") == [GroupInfo("idle", 0)]


def test_groups_of_a_missing_topic(mq):
    """A missing topic raises an error instead of returning no groups."""
    with pytest.raises(mqplug.TopicNotFound):
        mq.groups("never-made")


def test_positions_tell_gaps(mq, ids):
    """A group's state is a position, and the ranges that were acked past it."""
    with mq.consumer("orders", group="billing", start=EARLIEST) as consumer:
        while (message := consumer.receive(5)) and message.id != ids[0][2]:
            pass
        consumer.ack(message)
        consumer.commit()
    stands = mq.positions("orders", group="billing")[0]
    assert stands.position == Position(ids[0][0].log, ids[0][0].coordinates)
    assert stands.acked == ((ids[0][2].coordinates, ids[0][2].coordinates),)


def test_positions_of_an_unknown_group(mq):
    """A group without a position on the topic raises GroupNotFound."""
    with pytest.raises(mqplug.GroupNotFound):
        mq.positions("orders", group="nobody")


# moving ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "wanted"),
    [(EARLIEST, {0: 0, 1: 0}), (LATEST, {0: 4, 1: 4}), (last(1), {0: 3, 1: 3}), (mqplug.at_time(0), {0: 0, 1: 0})],
)
def test_a_start_moves_all_partitions(mq, ids, to, wanted):
    """EARLIEST, LATEST, a time and last(n) move every partition of a group."""
    use(mq)
    mq.reset_group("billing", "orders", to)
    assert standing(mq) == wanted


@pytest.mark.parametrize(("how", "wanted"), [(lambda each: each, 2), (before, 2), (after, 3)])
def test_an_id_moves_its_partition(mq, ids, how, wanted):
    """An id moves its own partition, and the others stay."""
    use(mq)
    mq.reset_group("billing", "orders", how(ids[1][2]))
    assert standing(mq) == {0: 1, 1: wanted}


def test_a_mapping_moves_what_it_names(mq, ids):
    """A mapping of partition to position moves these partitions; a GroupPosition brings its acks."""
    use(mq)
    log = ids[1][0].log
    mq.reset_group("billing", "orders", {1: GroupPosition(Position(log, (2,)), (((3,), (3,)),))})
    assert standing(mq) == {0: 1, 1: 2}
    with mq.consumer("orders", group="billing") as consumer:
        left = {message.id for _ in range(4) if (message := consumer.receive(5))}
    assert left == {*ids[0][1:], ids[1][2]}


def test_a_position_is_where_the_group_goes_on(mq, ids):
    """After a reset a member begins to read at the given position."""
    use(mq)
    mq.reset_group("billing", "orders", {0: mq.watermarks("orders")[0].low, 1: mq.watermarks("orders")[1].high})
    with mq.consumer("orders", group="billing") as consumer:
        assert [consumer.receive(5).id for _ in range(4)] == ids[0]


def test_a_reset_makes_a_group(mq, ids):
    """A group can be created before its first consumer; partitions that were not named are at EARLIEST."""
    mq.reset_group("new", "orders", after(ids[0][1]))
    assert standing(mq, "new") == {0: 2, 1: 0}
    with mq.consumer("orders", group="new", start=LATEST, must_exist=True) as consumer:
        assert len({consumer.receive(5).id for _ in range(6)}) == 6


def test_a_reset_may_insist_on_a_group(mq):
    """With must_exist a missing group raises GroupNotFound, and is not created."""
    with pytest.raises(mqplug.GroupNotFound):
        mq.reset_group("new", "orders", EARLIEST, must_exist=True)
    assert mq.groups() == []


def test_a_group_with_members_is_not_moved(mq, ids):
    """A reset is refused while the group has live members, and changes nothing."""
    with mq.consumer("orders", group="billing"):
        with pytest.raises(mqplug.ConsumerBusy):
            mq.reset_group("billing", "orders", LATEST)
        assert standing(mq) == {0: 0, 1: 0}


def test_one_group_does_not_move_another(mq, ids):
    """A reset moves only its own group."""
    use(mq, "mailer")
    use(mq)
    mq.reset_group("billing", "orders", LATEST)
    assert standing(mq, "mailer") == {0: 1, 1: 1}


def test_a_lost_position_moves_nothing(mq, ids):
    """A position that retention removed raises PositionLost, and the group stays."""
    use(mq)
    mq.trim("orders", {0: Position(ids[0][3].log, ids[0][3].coordinates)})
    with pytest.raises(mqplug.PositionLost) as caught:
        mq.reset_group("billing", "orders", ids[0][1])
    assert caught.value.low == mq.watermarks("orders")[0].low
    assert standing(mq) == {0: 1, 1: 1}


def test_the_first_that_is_left_may_do(mq, ids):
    """With missing="next" a lost position becomes the first remaining message; later acks are kept."""
    use(mq)
    mq.trim("orders", {0: Position(ids[0][2].log, ids[0][2].coordinates)})
    log = ids[0][0].log
    wanted = GroupPosition(Position(log, (0,)), (((1,), (1,)), ((3,), (3,))))
    mq.reset_group("billing", "orders", {0: wanted}, missing="next")
    assert mq.positions("orders", group="billing")[0] == GroupPosition(Position(log, (2,)), (((3,), (3,)),))


def test_an_id_of_another_topic_moves_nothing(mq, ids):
    """An id of another topic is refused before anything moves."""
    mq.create_topic("audit")
    use(mq)
    with mq.producer("audit") as out:
        strange = out.send(b"x")
    with pytest.raises(mqplug.InvalidMessageId):
        mq.reset_group("billing", "orders", strange)
    assert standing(mq) == {0: 1, 1: 1}


def test_an_id_of_a_deleted_topic_moves_nothing(mq, ids):
    """An id of a topic that was deleted and created again is refused."""
    mq.delete_topic("orders")
    mq.create_topic("orders", partitions=2)
    with pytest.raises(mqplug.InvalidMessageId):
        mq.reset_group("billing", "orders", ids[0][0])


# deleting --------------------------------------------------------------------------------------------------


def test_a_deleted_group_begins_anew(mq, ids):
    """GRP-17: after delete_group the next consumer begins at its start=."""
    use(mq)
    mq.delete_group("billing")
    assert mq.groups() == []
    with mq.consumer("orders", group="billing", start=LATEST) as consumer, mq.producer("orders") as out:
        new = out.send(b"new", partition=0)
        assert consumer.receive(5).id == new


def test_a_group_with_members_is_not_deleted(mq):
    """delete_group is refused while members are live, and forgets nothing."""
    with mq.consumer("orders", group="billing"):
        with pytest.raises(mqplug.ConsumerBusy):
            mq.delete_group("billing")
        assert standing(mq) == {0: 0, 1: 0}


def test_an_unknown_group_cannot_be_deleted(mq):
    """delete_group of a missing group raises GroupNotFound."""
    with pytest.raises(mqplug.GroupNotFound):
        mq.delete_group("nobody")

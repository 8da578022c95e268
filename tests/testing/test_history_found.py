"""Defects that the history check found, once each, so that they are found at once if they come back."""

from __future__ import annotations

import pytest

import mqplug
from mqplug import LATEST, GroupPosition, Position, Timeout
from mqplug.memory import Store
from mqplug_testing.faults import Faults, Rule


def test_an_ack_through_what_is_settled_acks_nothing_else():
    """A second ack_through of a message that is acked and stored leaves later messages alone."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, mq.consumer("orders", group="billing") as orders:
            out.send_many([b"1", b"2"])
            first = list(orders.receive_many(2, 5))
            orders.ack_through(first[1])
            orders.commit()
            out.send_many([b"3", b"4"])
            later = orders.receive_many(2, 5)
            orders.ack_through(first[0])
        with mq.consumer("orders", group="billing") as orders:
            assert orders.receive(5) == later[0]


def test_after_a_seek_that_timed_out_no_older_ack_is_stored():
    """Earlier acks do not undo a seek of a group whose answer was lost."""
    trouble = Faults([Rule("seek", "lose_ack")])
    with mqplug.connect("memory", extensions=[trouble]) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, mq.consumer("orders", group="billing") as orders:
            out.send_many([b"1", b"2", b"3"])
            orders.ack(orders.receive(5))
            with pytest.raises(Timeout):
                orders.seek(LATEST)
            orders.commit()
            high = mq.watermarks("orders")[0].high
            assert mq.positions("orders", group="billing")[0].position == high


def test_the_acks_of_one_member_do_not_take_back_those_of_another():
    """As on Pulsar, the acks of a member that joined late are stored, though another has moved the group further."""
    with mqplug.connect("memory", like="pulsar") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = [out.send(b"%d" % number) for number in range(4)]
        store = mq.unwrap(Store)
        mq.reset_group("billing", "orders", mqplug.before(ids[2]))
        late = GroupPosition(Position(ids[0].log, ids[0].coordinates), ((ids[3].coordinates, ids[3].coordinates),))
        with store.changed:
            store.store_positions("billing", {ids[0].log: late})
        with mq.consumer("orders", group="billing") as orders:
            assert orders.receive(5).id == ids[2]
            assert orders.receive(0.1) is None
            with mq.producer("orders") as out:
                assert out.send(b"4") == orders.receive(5).id

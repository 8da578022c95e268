"""Transactions whose outcome is unknown or whose begin fails, over memory, and what extensions see of them."""

from __future__ import annotations

import pytest

import mqplug
from mqplug import EARLIEST
from mqplug_testing.faults import Faults, Rule
from mqplug_testing.recording import Recorder


@pytest.fixture
def opened():
    """Open a client with an extension, with three messages in the topic "orders" and an empty topic "invoices"."""
    clients = []

    def open_with(extension, **settings):
        mq = mqplug.connect("memory", extensions=[extension], **settings)
        clients.append(mq)
        for topic in ("orders", "invoices"):
            mq.create_topic(topic)
        with mq.producer("orders") as out:
            out.send_many([b"1", b"2", b"3"])
        return mq

    yield open_with
    for mq in clients:
        mq.close()


def bill(mq, orders, most=2):
    """Send an invoice for each of the next orders, and ack them, in one transaction."""
    with mq.transaction("biller", "invoices", consumer=orders) as step:
        batch = orders.receive_many(most, timeout=10)
        for message in batch:
            step.send(message.value)
            orders.ack(message)
    return [message.value for message in batch]


def billed(mq):
    """Return the invoices."""
    return [message.value for message in mq.read("invoices", start=EARLIEST)]


def test_a_commit_of_unknown_outcome_that_was_one(opened):
    """After a commit that succeeded without an answer, the consumer continues after the committed messages."""
    mq = opened(Faults([Rule("commit_transaction", "lose_ack", nth=1)]))
    with mq.consumer("orders", group="g") as orders:
        with pytest.raises(mqplug.OutcomeUnknown, match="may or may not be committed"):
            bill(mq, orders)
        assert bill(mq, orders) == [b"3"]
        assert mq.positions("orders", group="g")[0].position.coordinates == (3,)
    assert billed(mq) == [b"1", b"2", b"3"]


def test_the_consumer_goes_on_by_itself(opened):
    """A receive after a commit of unknown outcome finds out what is stored without another transaction."""
    mq = opened(Faults([Rule("commit_transaction", "lose_ack", nth=1)]))
    with mq.consumer("orders", group="g") as orders:
        with pytest.raises(mqplug.OutcomeUnknown):
            bill(mq, orders)
        assert orders.receive(10).value == b"3"


def test_nothing_is_received_before_the_outcome_is_known(opened):
    """While the outcome of a commit cannot be determined, receive raises the reason, and delivers nothing."""
    faults = Faults([Rule("commit_transaction", "lose_ack", nth=1), Rule("begin_transaction", "lose_ack")])
    faults.active = False
    mq = opened(faults)
    with mq.consumer("orders", group="g") as orders:
        step = mq.transaction("biller", "invoices", consumer=orders)
        step.send(orders.receive(10).value)
        orders.ack(orders.receive(10))
        faults.active = True
        with pytest.raises(mqplug.OutcomeUnknown):
            step.commit()
        for _ in range(2):
            with pytest.raises(mqplug.Timeout):
                orders.receive(1)
        faults.active = False
        assert orders.receive(10).value == b"1"  # only the second one was acked


def test_a_commit_that_proves_its_abort(opened):
    """A commit that provably failed stores nothing, and the messages come again to the same consumer."""
    mq = opened(Faults([Rule("commit_transaction", "fail", nth=1)]))
    with mq.consumer("orders", group="g") as orders:
        with pytest.raises(mqplug.ConnectError):
            bill(mq, orders)
        assert bill(mq, orders) + bill(mq, orders) == [b"1", b"2", b"3"]
    assert billed(mq) == [b"1", b"2", b"3"]


def test_a_step_that_does_not_begin(opened):
    """If a transaction cannot begin, the consumer belongs to none, and the name is free for the next one."""
    mq = opened(Faults([Rule("begin_transaction", "fail", nth=1)]))
    with mq.consumer("orders", group="g") as orders:
        with pytest.raises(mqplug.ConnectError):
            mq.transaction("biller", consumer=orders)
        assert bill(mq, orders) == [b"1", b"2"]


def test_a_message_that_is_in_doubt(opened):
    """If it is unknown whether a message was stored, the commit aborts, and stores nothing of the transaction."""
    mq = opened(Faults([Rule("send", "drop", topic="orders", nth=4)]))
    step = mq.transaction("biller", "orders")
    step.send(b"4", topic="invoices")
    step.send(b"5")
    with pytest.raises(mqplug.SendFailed):
        step.commit()
    assert billed(mq) == []


def test_a_nack_in_a_step_is_not_part_of_it(opened):
    """A nacked message comes again after its delay in the same step, and is acked with it."""
    mq = opened(Faults())
    with mq.consumer("orders", group="g") as orders:
        with mq.transaction("biller", "invoices", consumer=orders) as step:
            orders.nack(orders.receive(10), delay=0)
            again = orders.receive(10)
            assert (again.value, again.attempt) == (b"1", 2)
            orders.ack(again)
            orders.ack(orders.receive(10))
            step.send(b"both")
        assert mq.positions("orders", group="g")[0].position.coordinates == (2,)
        step = mq.transaction("biller", "invoices", consumer=orders)
        orders.nack(orders.receive(10), delay=0)
        orders.ack(orders.receive(10))
        step.abort()
        last = orders.receive(10)
        assert (last.value, last.attempt) == (b"3", 3)


def test_a_recording_has_the_steps(opened):
    """A recorder keeps begin, commit with the positions, and abort of each transaction."""
    recorder = Recorder()
    mq = opened(recorder)
    with mq.consumer("orders", group="g") as orders:
        bill(mq, orders)
    mq.transaction("biller").abort()
    steps = [call for call in recorder.calls() if "transaction" in call.operation]
    assert [call.operation for call in steps] == [
        "open_transactions", "begin_transaction", "commit_transaction", "begin_transaction", "abort_transaction",
    ]  # fmt: skip
    assert [position.position.coordinates for position in steps[2].positions] == [(2,)]


def test_after_an_abort_the_position_is_that_of_the_first_message_given_back(mq):
    """After an abort, ``position`` names the first message that comes again, and a seek to it loses nothing."""
    mq.create_topic("work")
    with mq.producer("work") as out:
        ids = out.send_many([b"0", b"1", b"2"])
    with mq.consumer("work", group="g", until=mqplug.LATEST) as worker:
        first = worker.receive(5)
        worker.ack(first)
        worker.commit()
        with mq.transaction("worker", "work", consumer=worker) as step:
            for message in worker.receive_many(2, 5):
                worker.ack(message)
            step.abort()
        [position] = worker.position().values()
        assert position.precedes(ids[1])
        assert not position.precedes(ids[0])
        worker.seek(position)
        assert [message.id for message in worker] == ids[1:]

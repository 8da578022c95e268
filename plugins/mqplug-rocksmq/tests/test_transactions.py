"""Transactions at the driver interface, in the process that owns the store and in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksmq_stores import Member, eventually, native, nightly, serving
from transaction_drivers import Sent, at, hold, read, step, to

import mqplug
from mqplug import Closed, Fenced, MessageTooLarge, NotAssigned, NotCommitted, TopicNotFound
from mqplug.spi import GroupMove, TransactionMark

TOPICS = {"orders": 2, "audit": 1}


@pytest.fixture(params=["always", "served", *nightly("interval", "os")])
def mq(request: pytest.FixtureRequest, path: Path) -> Iterator[mqplug.Client]:
    """A client of a store that this process owns, in each durability mode, or that another process owns."""
    if request.param == "served":
        with serving(path), mqplug.connect("rocksmq", path=str(path)) as client:
            create(client)
            yield client
    else:
        with mqplug.connect("rocksmq", path=str(path), sync=request.param) as client:
            create(client)
            yield client


def create(client: mqplug.Client) -> None:
    """Create the topics."""
    for topic, partitions in TOPICS.items():
        client.create_topic(topic, partitions=partitions)


def held(mq: mqplug.Client, topic: str = "orders", group: str = "billing") -> Member:
    """A member that holds all logs of a topic."""
    member = Member(mq, topic, group)

    def holds_all() -> bool:
        member.poll()
        return len(member.held) == TOPICS[topic]

    eventually(holds_all)
    return member


def test_a_commit_stores_all_and_readers_see_nothing_before(mq: mqplug.Client) -> None:
    """Records of several topics and partitions are stored together under their reported ids, and come in order."""
    with mq.producer("orders") as out:
        out.send(b"before", partition=0)
    driver = hold(mq)
    driver.begin(None, 10)
    records = [Sent(b"%d" % each, partition=each % 2) for each in range(2500)] + [Sent(b"entry", "audit")]
    driver.send(records[:1])
    driver.send(records[1:])
    driver.flush(1)
    assert (read(mq), read(mq, "audit")) == ([b"before"], [])
    assert not any(record.outcomes for record in records)
    driver.commit((), 10)
    assert [record.outcome for record in records[:6]] == [1, 0, 2, 1, 3, 2]
    assert [record.outcome for record in records[-2:]] == [1249, 0]
    assert read(mq) == [b"before", *(b"%d" % n for n in range(0, 2500, 2)), *(b"%d" % n for n in range(1, 2500, 2))]
    assert read(mq, "audit") == [b"entry"]
    driver.close(10)


def test_an_abort_stores_nothing(mq: mqplug.Client) -> None:
    """After an abort the records are certainly not stored, and the next transaction has none of them."""
    driver, record, late, other = hold(mq), Sent(b"a"), Sent(b"late"), Sent(b"b")
    driver.begin(None, 10)
    driver.send([record])
    driver.abort(10)
    driver.abort(10)
    driver.send([late])
    assert isinstance(late.outcome, Closed)
    step(driver, other)
    assert (type(record.outcome), other.outcome, read(mq)) == (NotCommitted, 0, [b"b"])


def test_positions_are_stored_with_the_messages(mq: mqplug.Client) -> None:
    """A member's positions, with acked ranges, are stored by the commit, and not by an abort."""
    with mq.producer("orders") as out:
        out.send_many([mqplug.Record(b"%d" % each, partition=0) for each in range(10)])
    member, log = held(mq), mq.partitions("orders")[0]
    driver = hold(mq)
    driver.begin(None, 10)
    driver.abort(10)
    assert at(mq) == [0, 0]
    step(driver, Sent(b"x", "audit"), moves=(GroupMove("billing", to(log, 3, (5, 6)), member.driver.membership()),))
    assert at(mq) == [3, 0]
    assert mq.positions("orders", group="billing")[0].acked == (((5,), (6,)),)
    step(driver, moves=(GroupMove("billing", to(log, 9), member.driver.membership()),))
    assert (at(mq), read(mq, "audit")) == ([9, 0], [b"x"])
    member.driver.close(10)


def test_a_member_that_lost_a_partition_commits_nothing(mq: mqplug.Client) -> None:
    """If a partition has gone to another member, the whole commit is refused."""
    one, logs = held(mq), mq.partitions("orders")
    membership, driver, record = one.driver.membership(), hold(mq), Sent(b"x", "audit")
    other = Member(mq, "orders", "billing")

    def shared() -> bool:
        one.poll()
        other.poll()
        return (len(one.held), len(other.held)) == (1, 1)

    eventually(shared)
    (lost,) = other.held
    with pytest.raises(NotAssigned, match="billing"):
        step(driver, record, moves=(GroupMove("billing", {**to(logs[0], 0), **to(logs[1], 0)}, membership),))
    assert isinstance(record.outcome, NotAssigned)
    other.driver.close(10)
    eventually(lambda: one.poll() == 0 and len(one.held) == 2)
    with pytest.raises(NotAssigned):  # a partition that it got back is not the one it had
        step(driver, moves=(GroupMove("billing", to(lost, 0), membership),))
    step(driver, moves=(GroupMove("billing", to(lost, 0), one.driver.membership()),))
    stale = one.driver.membership()
    one.driver.close(10)
    with pytest.raises(NotAssigned):
        step(driver, Sent(b"y", "audit"), moves=(GroupMove("billing", to(lost, 0), stale),))
    assert read(mq, "audit") == []


def test_a_newer_holder_fences_the_older_one(mq: mqplug.Client, path: Path) -> None:
    """The last client to take over a name holds it. The earlier holder can neither begin nor commit; others can."""
    older, bystander = hold(mq), hold(mq, "other")
    older.begin(None, 10)
    lost = Sent(b"lost")
    older.send([lost])
    newer = hold(mq)
    with pytest.raises(Fenced, match="'biller'"):
        older.commit((), 10)
    assert isinstance(lost.outcome, Fenced)
    with pytest.raises(Fenced, match="'biller'"):
        older.begin(None, 10)
    step(newer, Sent(b"kept"))
    step(bystander, Sent(b"too"))
    assert read(mq) == [b"kept", b"too"]


def test_a_number_is_committed_once(mq: mqplug.Client) -> None:
    """A number that is not higher than the last one of its name and topic is repeated, for the next holder as well."""
    driver = hold(mq)
    assert not step(driver, Sent(b"a"), mark=("orders", 7))
    for number, repeated in ((7, True), (0, True), (8, False)):
        driver = hold(mq)
        assert step(driver, mark=("orders", number)) == repeated
    assert not step(hold(mq, "other"), mark=("orders", 1))
    assert not step(driver, mark=("audit", 1))
    driver.begin(TransactionMark("orders", 9), 10)
    driver.abort(10)
    assert not step(driver, mark=("orders", 9))  # an abort leaves no mark
    with pytest.raises(TopicNotFound):
        driver.begin(TransactionMark("nowhere", 1), 10)


def test_a_mark_goes_with_its_topic(mq: mqplug.Client) -> None:
    """A topic that was deleted and created again has no marks."""
    driver = hold(mq)
    assert not step(driver, mark=("orders", 7))
    mq.delete_topic("orders")
    mq.create_topic("orders")
    assert not step(driver, mark=("orders", 1))


def test_a_repeated_step_leaves_the_mark_and_stores_positions(mq: mqplug.Client) -> None:
    """A repeated step stores the acks that it has, and its mark stays the higher one."""
    member, driver = held(mq), hold(mq)
    step(driver, mark=("orders", 7))
    move = GroupMove("billing", to(mq.partitions("orders")[1], 0, (2, 3)), member.driver.membership())
    assert step(driver, mark=("orders", 3), moves=(move,))
    assert mq.positions("orders", group="billing")[1].acked
    assert step(driver, mark=("orders", 7))
    member.driver.close(10)


def test_a_topic_that_was_deleted_refuses_everything(mq: mqplug.Client) -> None:
    """If one of the topics is gone, nothing is stored in the others."""
    driver, records = hold(mq), [Sent(b"a"), Sent(b"b", "audit")]
    driver.begin(None, 10)
    driver.send(records)
    mq.delete_topic("audit")
    with pytest.raises(TopicNotFound):
        driver.commit((), 10)
    assert [type(record.outcome) for record in records] == [TopicNotFound, TopicNotFound]
    assert read(mq) == []


def largest() -> list[Sent]:
    """Return as many records of 900 KB as a transaction may have: 64 MB in all."""
    size = 900_000
    return [Sent(bytes(size)) for _ in range((64 << 20) // (size + 100))]


def test_a_transaction_is_bounded(mq: mqplug.Client) -> None:
    """Records beyond 64 MB are refused at once, with a way to store more; the commit then stores no records."""
    driver, most, more = hold(mq), largest(), Sent(bytes(900_000))
    driver.begin(None, 10)
    driver.send([*most, more])
    assert isinstance(more.outcome, MessageTooLarge)
    assert "client.stage" in str(more.outcome)
    with pytest.raises(MessageTooLarge):
        driver.commit((), 10)
    assert {type(record.outcome) for record in most} == {NotCommitted}
    step(driver, Sent(b"small"))
    assert read(mq) == [b"small"]


def test_the_largest_transaction_fits_into_a_frame(mq: mqplug.Client) -> None:
    """A transaction of the maximum size is committed, whichever process owns the store."""
    driver, records = hold(mq), largest()
    step(driver, *records)
    assert [record.outcome for record in records] == list(range(len(records)))
    assert mq.watermarks("orders")[0].count == len(records)


def test_readers_that_wait_wake_up_at_the_commit(mq: mqplug.Client) -> None:
    """A commit wakes the readers of all its logs."""
    driver = hold(mq)
    with mq.consumer("audit", start=mqplug.LATEST) as reader:
        assert reader.receive(timeout=0) is None
        step(driver, Sent(b"a"), Sent(b"b", "audit"))
        message = reader.receive(timeout=20)
        assert message is not None
        assert message.value == b"b"


def test_an_empty_step_writes_nothing(path: Path) -> None:
    """A step without records, positions and number costs no write."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        create(mq)
        driver = hold(mq)
        before = native(mq).engine.durability.changes
        step(driver)
        assert native(mq).engine.durability.changes == before


def test_records_that_are_sent_one_by_one_share_pages(path: Path) -> None:
    """The messages of a step are stored in as few pages as a batch would be, and in order."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        create(mq)
        with mq.transaction("biller", "orders") as step:
            step.send(b"0", partition=0)
            step.send_many([mqplug.Record(b"%d" % each, partition=0) for each in (1, 2)])
            handles = [step.send(b"%d" % each, partition=0) for each in range(3, 500)]
        assert [handle.result(10).coordinates for handle in handles[:2]] == [(3,), (4,)]
        assert read(mq) == [b"%d" % each for each in range(500)]
        log = mq.partitions("orders")[0]
        assert len(native(mq).engine.pages.read(int(log.incarnation), 0, lambda *_: True)) <= 2

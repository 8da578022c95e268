"""The memory backend: stores and their names, topics, groups, retention, and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from memory_drivers import Seam

import mqplug
from mqplug import EARLIEST, LATEST, Client, ConsumerBusy, GroupNotFound, PositionLost, Record
from mqplug.memory import Clock


@pytest.fixture
def mq() -> Iterator[Client]:
    """A client of a store of its own, in real time."""
    with mqplug.connect("memory", debug=True) as client:
        yield client


def values(mq: Client, topic: str = "orders") -> list[bytes | None]:
    """All that a topic retains."""
    return [message.value for message in mq.read(topic)]


def fill(mq: Client, count: int, topic: str = "orders", begin: int = 0, partition: int = 0) -> None:
    """Send the numbers from ``begin`` on."""
    with mq.producer(topic) as out:
        out.send_many([Record(b"%d" % number, partition=partition) for number in range(begin, begin + count)])


def advance(mq: Client, seconds: float) -> None:
    """Move the time of a store on."""
    clock = mq.unwrap(Clock)
    assert clock is not None
    clock.advance(seconds)


# names -----------------------------------------------------------------------------------------------------


def test_a_named_store_is_shared_while_it_is_open() -> None:
    """Clients of one name see the same; when the last one is closed, all is gone."""
    one, other = mqplug.connect("memory://shared"), mqplug.connect("memory://shared")
    one.create_topic("orders")
    one.close()
    assert other.topics() == ["orders"]
    other.close()
    with mqplug.connect("memory://shared") as fresh:
        assert fresh.topics() == []


def test_clients_of_one_store_agree_what_it_is_like() -> None:
    """A second client that says otherwise is refused, and told what the store is like."""
    with (
        mqplug.connect("memory://agreed?like=kafka"),
        pytest.raises(mqplug.ConfigError, match="like='kafka', not 'pulsar'"),
    ):
        mqplug.connect("memory://agreed?like=pulsar")


# topics ----------------------------------------------------------------------------------------------------


def test_a_live_member_reads_added_partitions_from_their_beginning(mq: Client) -> None:
    """A consumer of a group is given new partitions of its topic, and what was sent to them before it looked."""
    mq.create_topic("orders")
    with mq.consumer("orders", group="billing", start=LATEST) as orders:
        mq.add_partitions("orders", 2)
        fill(mq, 2, partition=1)
        assert [orders.receive(timeout=5).value for _ in range(2)] == [b"0", b"1"]  # type: ignore[union-attr]
        assert len(orders.assignment()) == 2


def test_a_group_that_is_away_reads_added_partitions_from_their_beginning(mq: Client) -> None:
    """The start of a consumer does not apply to partitions that were added after its group began."""
    mq.create_topic("orders")
    mq.consumer("orders", group="billing").close()
    mq.add_partitions("orders", 2)
    fill(mq, 1, partition=1)
    with mq.consumer("orders", group="billing", start=LATEST) as orders:
        assert orders.receive(timeout=5) is not None


def test_partitions_are_never_taken_away(mq: Client) -> None:
    """To ask for as many as there are, or fewer, is an error."""
    mq.create_topic("orders", partitions=2)
    with pytest.raises(ValueError, match="2 partitions"):
        mq.add_partitions("orders", 2)


# groups ----------------------------------------------------------------------------------------------------


def test_groups_are_listed_with_their_members(mq: Client) -> None:
    """Each group that has a position is listed, of one topic or of all."""
    mq.create_topic("orders")
    mq.create_topic("audit")
    mq.consumer("audit", group="auditor").close()
    with mq.consumer("orders", group="billing"), mq.consumer("orders", group="billing"):
        assert [(each.name, each.members) for each in mq.groups()] == [("auditor", 0), ("billing", 2)]
        assert [each.name for each in mq.groups("audit")] == ["auditor"]


def test_a_group_is_deleted_when_it_has_no_members(mq: Client) -> None:
    """While it has some, that is ConsumerBusy; afterwards the group begins anew."""
    mq.create_topic("orders")
    fill(mq, 1)
    with mq.consumer("orders", group="billing", start=LATEST), pytest.raises(ConsumerBusy):
        mq.delete_group("billing")
    mq.delete_group("billing")
    with pytest.raises(GroupNotFound):
        mq.delete_group("billing")
    with mq.consumer("orders", group="billing") as orders:
        assert orders.receive(timeout=5) is not None


@pytest.mark.parametrize("first", ["ordered", "exclusive", "shared", "key_shared"])
@pytest.mark.parametrize("second", ["ordered", "exclusive", "shared", "key_shared"])
def test_who_may_join_whom(mq: Client, first: str, second: str) -> None:
    """Members of a group are in one mode, and an exclusive one is alone; who is refused leaves no trace."""
    mq.create_topic("orders")
    with mq.consumer("orders", group="billing", mode=first):  # type: ignore[call-overload]
        if first == second != "exclusive":
            mq.consumer("orders", group="billing", mode=second).close()  # type: ignore[call-overload]
        else:
            with pytest.raises(ConsumerBusy):
                mq.consumer("orders", group="billing", mode=second)  # type: ignore[call-overload]
        assert [each.members for each in mq.groups()] == [1]
    mq.consumer("orders", group="billing", mode=second).close()  # type: ignore[call-overload]


def test_a_member_that_is_refused_is_no_member(mq: Client) -> None:
    """A consumer that could not be opened holds nobody up."""
    mq.create_topic("orders")
    with pytest.raises(GroupNotFound):
        mq.consumer("orders", group="billing", mode="exclusive", must_exist=True)
    mq.consumer("orders", group="billing", mode="exclusive").close()


# retention and time ----------------------------------------------------------------------------------------


def test_messages_are_kept_for_seven_days(mq: Client) -> None:
    """What is older than that is gone, unless the topic says otherwise."""
    mq.create_topic("orders")
    mq.create_topic("kept", retention=30 * 86400)
    fill(mq, 3)
    fill(mq, 3, "kept")
    advance(mq, 7 * 86400 - 10)
    assert len(values(mq)) == 3
    advance(mq, 20)
    assert (len(values(mq)), len(values(mq, "kept"))) == (0, 3)
    assert mq.watermarks("orders")[0].low == mq.watermarks("orders")[0].high


def test_age_counts_from_when_a_message_was_stored(mq: Client) -> None:
    """A message with an old timestamp is not old."""
    mq.create_topic("orders", retention=60)
    with mq.producer("orders") as out:
        out.send(b"restored", timestamp=1)
    assert values(mq) == [b"restored"]


def test_a_topic_keeps_so_many_bytes(mq: Client) -> None:
    """The oldest messages of a partition go when there is too much, and the newest always stays."""
    mq.create_topic("orders", retention_bytes=10)
    with mq.producer("orders") as out:
        for size in (4, 4, 4):
            out.send(bytes(size))
        assert [len(value or b"") for value in values(mq)] == [4, 4]
        out.send(bytes(100))
    assert [len(value or b"") for value in values(mq)] == [100]


def test_a_reader_that_retention_overtakes_is_told(mq: Client) -> None:
    """What it would have read next is lost, and it hears of it."""
    mq.create_topic("orders", retention=60)
    fill(mq, 3)
    with mq.consumer("orders", start=mq.watermarks("orders")[0].low) as orders:
        advance(mq, 70)
        fill(mq, 1, begin=3)
        with pytest.raises(PositionLost):
            orders.receive(timeout=5)


def test_a_loss_takes_nothing_of_other_partitions_with_it() -> None:
    """When one partition is lost in the same poll, the others are returned, and the next poll says so."""
    seam = Seam(partitions=2)
    seam.send(b"x", partition=0)
    seam.send(b"x", partition=1)
    reader = seam.reader()
    seam.trim((1,), partition=1)
    assert [batch.log for batch in reader.poll(10, 0)] == [seam.logs[0]]
    with pytest.raises(PositionLost) as caught:
        reader.poll(10, 0)
    assert caught.value.log is seam.logs[1]


def test_time_goes_on_when_it_is_told_to(mq: Client) -> None:
    """What is sent later has a later timestamp, and a time is never in the past."""
    mq.create_topic("orders")
    fill(mq, 1)
    advance(mq, 3600)
    fill(mq, 1, begin=1)
    first, second = mq.read("orders")
    assert 3600 <= (second.timestamp - first.timestamp).total_seconds() < 3660
    with pytest.raises(ValueError, match="at least 0"):
        advance(mq, -1)


def test_a_wait_ends_when_its_time_has_come(mq: Client) -> None:
    """Whoever waits for a message that is put off gets it when the clock is moved on."""
    mq.create_topic("orders")
    fill(mq, 1)
    with mq.consumer("orders", group="billing", mode="shared") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        jobs.nack(message, delay=1000)
        jobs.commit()
        began = time.monotonic()
        threading.Timer(0.2, advance, (mq, 1000)).start()
        again = jobs.receive(timeout=60)
        assert again is not None
        assert again.attempt == 2
        assert time.monotonic() - began < 30


def test_little_is_fetched_where_little_is_asked_for() -> None:
    """A consumer with a small prefetch gets no more bytes from the store than that at once."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = out.send_many([Record(bytes(1000), partition=0) for _ in range(100)])
        with mq.consumer("orders", start=EARLIEST, prefetch_bytes=2500) as orders:
            assert orders.receive(timeout=5) is not None
            mq.trim("orders", {0: mqplug.Position(ids[50].log, ids[50].coordinates)})
            with pytest.raises(PositionLost):
                list(iter(lambda: orders.receive(timeout=5), None))

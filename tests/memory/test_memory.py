"""The memory backend: stores and their names, topics, groups, retention, and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from memory_drivers import Seam

import mqplug
from mqplug import EARLIEST, LATEST, Client, ConsumerBusy, GroupNotFound, PositionLost, Record, TopicNotFound
from mqplug.memory import Clock
from mqplug.spi import Mode


@pytest.fixture
def mq() -> Iterator[Client]:
    """A client of a store of its own, in real time."""
    with mqplug.connect("memory", debug=True) as client:
        yield client


def values(mq: Client, topic: str = "orders") -> list[bytes | None]:
    """Return all retained messages of a topic."""
    return [message.value for message in mq.read(topic)]


def fill(mq: Client, count: int, topic: str = "orders", begin: int = 0, partition: int = 0) -> None:
    """Send the numbers from ``begin`` on."""
    with mq.producer(topic) as out:
        out.send_many([Record(b"%d" % number, partition=partition) for number in range(begin, begin + count)])


def advance(mq: Client, seconds: float) -> None:
    """Advance the time of a store."""
    clock = mq.unwrap(Clock)
    assert clock is not None
    clock.advance(seconds)


# names -----------------------------------------------------------------------------------------------------


def test_a_named_store_is_shared_while_it_is_open() -> None:
    """Clients with one name share a store; when the last one is closed, its content is gone."""
    one, other = mqplug.connect("memory://shared"), mqplug.connect("memory://shared")
    one.create_topic("orders")
    one.close()
    assert other.topics() == ["orders"]
    other.close()
    with mqplug.connect("memory://shared") as fresh:
        assert fresh.topics() == []


def test_clients_of_one_store_agree_what_it_is_like() -> None:
    """A second client with another setting is refused, and the error names the store's."""
    with (
        mqplug.connect("memory://agreed?like=kafka"),
        pytest.raises(mqplug.ConfigError, match="like='kafka', not 'pulsar'"),
    ):
        mqplug.connect("memory://agreed?like=pulsar")


# topics ----------------------------------------------------------------------------------------------------


def test_a_live_member_reads_added_partitions_from_their_beginning(mq: Client) -> None:
    """A consumer of a group gets new partitions of its topic, including messages sent to them earlier."""
    mq.create_topic("orders")
    with mq.consumer("orders", group="billing", start=LATEST) as orders:
        mq.add_partitions("orders", 2)
        fill(mq, 2, partition=1)
        assert [orders.receive(timeout=5).value for _ in range(2)] == [b"0", b"1"]  # type: ignore[union-attr]
        assert len(orders.assignment()) == 2


def test_a_group_that_is_away_reads_added_partitions_from_their_beginning(mq: Client) -> None:
    """A consumer's start does not apply to partitions that were added after its group began."""
    mq.create_topic("orders")
    mq.consumer("orders", group="billing").close()
    mq.add_partitions("orders", 2)
    fill(mq, 1, partition=1)
    with mq.consumer("orders", group="billing", start=LATEST) as orders:
        assert orders.receive(timeout=5) is not None


def test_partitions_are_never_taken_away(mq: Client) -> None:
    """A partition count that is not higher than the current one is an error."""
    mq.create_topic("orders", partitions=2)
    with pytest.raises(ValueError, match="2 partitions"):
        mq.add_partitions("orders", 2)


# groups ----------------------------------------------------------------------------------------------------


def test_groups_are_listed_with_their_members(mq: Client) -> None:
    """Each group with a position is listed, of one topic or of all."""
    mq.create_topic("orders")
    mq.create_topic("audit")
    mq.consumer("audit", group="auditor").close()
    with mq.consumer("orders", group="billing"), mq.consumer("orders", group="billing"):
        assert [(each.name, each.members) for each in mq.groups()] == [("auditor", 0), ("billing", 2)]
        assert [each.name for each in mq.groups("audit")] == ["auditor"]


def test_a_group_is_deleted_when_it_has_no_members(mq: Client) -> None:
    """Deleting a group with members raises ConsumerBusy; afterwards a deleted group begins anew."""
    mq.create_topic("orders")
    fill(mq, 1)
    with mq.consumer("orders", group="billing", start=LATEST), pytest.raises(ConsumerBusy):
        mq.delete_group("billing")
    mq.delete_group("billing")
    with pytest.raises(GroupNotFound):
        mq.delete_group("billing")
    with mq.consumer("orders", group="billing") as orders:
        assert orders.receive(timeout=5) is not None


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_a_topic_deleted_before_the_first_receive(mq: Client, mode: Mode) -> None:
    """A member of two topics, one of which was deleted before it took them, gets the error at each receive."""
    mq.create_topic("orders")
    mq.create_topic("gone")
    with mq.consumer(["orders", "gone"], group="billing", mode=mode) as member:
        mq.delete_topic("gone")
        for _ in range(2):
            with pytest.raises(TopicNotFound, match="gone"):
                member.receive(timeout=5)


@pytest.mark.parametrize("first", ["ordered", "exclusive", "shared", "key_shared"])
@pytest.mark.parametrize("second", ["ordered", "exclusive", "shared", "key_shared"])
def test_who_may_join_whom(mq: Client, first: str, second: str) -> None:
    """Members of a group are in one mode, and an exclusive one is by itself; a refused member leaves no trace."""
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
    """A consumer that could not be opened delays no other member."""
    mq.create_topic("orders")
    with pytest.raises(GroupNotFound):
        mq.consumer("orders", group="billing", mode="exclusive", must_exist=True)
    mq.consumer("orders", group="billing", mode="exclusive").close()


# retention and time ----------------------------------------------------------------------------------------


def test_messages_are_kept_for_seven_days(mq: Client) -> None:
    """Messages older than seven days are removed, unless the topic says otherwise."""
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
    """A message with an old timestamp is not old if it was stored recently."""
    mq.create_topic("orders", retention=60)
    with mq.producer("orders") as out:
        out.send(b"restored", timestamp=1)
    assert values(mq) == [b"restored"]


def test_a_topic_keeps_so_many_bytes(mq: Client) -> None:
    """The oldest messages of a partition are removed beyond the limit, and the newest always stays."""
    mq.create_topic("orders", retention_bytes=10)
    with mq.producer("orders") as out:
        for size in (4, 4, 4):
            out.send(bytes(size))
        assert [len(value or b"") for value in values(mq)] == [4, 4]
        out.send(bytes(100))
    assert [len(value or b"") for value in values(mq)] == [100]


def test_a_reader_that_retention_overtakes_is_told(mq: Client) -> None:
    """If retention removes a reader's next message, the reader gets an error."""
    mq.create_topic("orders", retention=60)
    fill(mq, 3)
    with mq.consumer("orders", start=mq.watermarks("orders")[0].low) as orders:
        advance(mq, 70)
        fill(mq, 1, begin=3)
        with pytest.raises(PositionLost):
            orders.receive(timeout=5)


def test_a_loss_takes_nothing_of_other_partitions_with_it() -> None:
    """If one partition is lost in a poll, the others are returned, and the next poll reports the loss."""
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
    """Later messages have later timestamps, and the clock never goes back."""
    mq.create_topic("orders")
    fill(mq, 1)
    advance(mq, 3600)
    fill(mq, 1, begin=1)
    first, second = mq.read("orders")
    assert 3600 <= (second.timestamp - first.timestamp).total_seconds() < 3660
    with pytest.raises(ValueError, match="at least 0"):
        advance(mq, -1)


def test_a_wait_ends_when_its_time_has_come(mq: Client) -> None:
    """A receive that waits for a delayed message gets it when the clock is advanced."""
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
    """A consumer with a small prefetch gets no more bytes than that at once."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = out.send_many([Record(bytes(1000), partition=0) for _ in range(100)])
        with mq.consumer("orders", start=EARLIEST, prefetch_bytes=2500) as orders:
            assert orders.receive(timeout=5) is not None
            mq.trim("orders", {0: mqplug.Position(ids[50].log, ids[50].coordinates)})
            with pytest.raises(PositionLost):
                list(iter(lambda: orders.receive(timeout=5), None))


def test_a_time_is_not_that_of_a_removed_message(mq: Client) -> None:
    """After a late message is trimmed, its time leads to the end, and not to an earlier message that follows it."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        late, _ = out.send(b"late", timestamp=2000), out.send(b"early", timestamp=1000)
    mq.trim("orders", mq.resolve("orders", mqplug.after(late)))
    assert mq.resolve("orders", mqplug.at_time(2000)) == mq.resolve("orders", LATEST)


def test_a_producer_outlives_a_smaller_topic_of_its_name() -> None:
    """A send to a partition that the recreated topic does not have raises ``TopicNotFound``."""
    with mqplug.connect("memory://recreated") as mq, mqplug.connect("memory://recreated") as other:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out:
            other.delete_topic("orders")
            other.create_topic("orders")
            with pytest.raises(TopicNotFound):
                out.send(b"1", partition=1)

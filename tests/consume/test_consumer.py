"""The consumer's states: assigned, at a position, lost or unpositioned, revoked; its background thread; its end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from waiting import wait_until

import mqplug
from mqplug import EARLIEST, LATEST
from mqplug.spi import Deadline, hookimpl
from mqplug.spi.proxies import ConsumerProxy
from mqplug_testing.faults import Faults, Rule


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``orders`` of four partitions."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders", partitions=4)
        yield client


def fill(mq: mqplug.Client, count: int, partitions: int = 4) -> list[mqplug.MessageId]:
    """Send this many messages, to each partition in turn."""
    with mq.producer("orders") as out:
        return out.send_many([mqplug.Record(b"%d" % n, partition=n % partitions) for n in range(count)])


def test_acks_are_stored_within_seconds_without_a_commit(mq: mqplug.Client) -> None:
    """The background thread stores acks without a commit."""
    fill(mq, 8)
    with mq.consumer("orders", group="g") as orders:
        for message in iter(lambda: orders.receive(timeout=1), None):
            orders.ack(message)
        wait_until(lambda: set(mq.lag("orders", group="g").values()) == {0})


def test_a_driver_decides_how_many_messages_are_polled_at_least() -> None:
    """A consumer polls for as many messages as its driver wants, or as its caller wants if these are more."""
    polled: list[int] = []

    class Tens(ConsumerProxy):
        """A driver that wants to be polled for ten messages."""

        def __init__(self, inner: Any) -> None:
            super().__init__(inner)
            self.poll_messages = 10

        def poll(self, most: int, timeout: float) -> Any:
            polled.append(most)
            return super().poll(most, timeout)

    class InTens:
        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self) -> Any:
            return Tens((yield))

    with mqplug.connect("memory", extensions=[InTens()]) as mq:
        mq.create_topic("orders")
        fill(mq, 100, partitions=1)
        orders = mq.consumer("orders", start=EARLIEST)
        assert orders.receive(timeout=5) is not None
        assert set(polled) == {10}
        assert len(orders.receive_many(50, timeout=5)) == 9
        polled.clear()
        assert len(orders.receive_many(50, timeout=5)) == 50
        assert set(polled) == {50}


def test_a_slow_handler_does_not_hold_up_a_hand_over(mq: mqplug.Client) -> None:
    """While one member is busy with a message, the background thread hands partitions over to a new one."""
    fill(mq, 4)
    with mq.consumer("orders", group="g") as busy:
        assert busy.receive(timeout=5) is not None
        assert len(busy.assignment()) == 4
        with mq.consumer("orders", group="g") as fresh:
            wait_until(lambda: fresh.receive(timeout=0.1) is not None)
            wait_until(lambda: (len(busy.assignment()), len(fresh.assignment())) == (2, 2))


def test_partitions_are_told_of_as_they_come_and_go(mq: mqplug.Client) -> None:
    """Revoked is called before assigned elsewhere, and every partition is held by exactly one member."""
    told: list[tuple[str, str, int]] = []

    def tell(member: str, what: str) -> Callable[[object], None]:
        return lambda logs: told.extend((member, what, log.partition) for log in logs)  # type: ignore[attr-defined]

    def member(name: str) -> mqplug.Consumer:
        return mq.consumer("orders", group="g", on_assigned=tell(name, "+"), on_revoked=tell(name, "-"))

    with member("a") as a:
        a.receive(timeout=0)
        with member("b") as b:
            wait_until(lambda: bool(a.receive(timeout=0) or b.receive(timeout=0) or len(b.assignment()) == 2))
    for partition in {number for who, _, number in told if who == "b"}:
        story = [(who, what) for who, what, number in told if number == partition]
        assert story[:3] == [("a", "+"), ("a", "-"), ("b", "+")]


def test_an_ack_after_a_hand_over_is_counted_and_changes_nothing(mq: mqplug.Client) -> None:
    """An ack of a message whose partition went to another member changes nothing and is counted."""
    fill(mq, 8)
    with mq.consumer("orders", group="g") as a:
        received = [a.receive(timeout=5) for _ in range(8)]
        with mq.consumer("orders", group="g") as b:
            wait_until(lambda: b.receive(timeout=0.1) is not None)
            kept = {log.partition for log in a.assignment()}
            for message in received:
                assert message is not None
                a.ack(message)
            assert a.late_acks == sum(message.partition not in kept for message in received if message)
            assert a.late_acks == 4


def test_two_threads_in_one_receive_are_refused(mq: mqplug.Client) -> None:
    """The second thread that calls receive gets ConcurrentUse, and the first continues."""
    with mq.consumer("orders", start=LATEST) as orders, ThreadPoolExecutor(1) as pool:
        first = pool.submit(orders.receive, 20)
        wait_until(lambda: orders._session.driver_session.lock.busy)
        with pytest.raises(mqplug.ConcurrentUse, match="another thread"):
            orders.receive(timeout=1)
        placed = fill(mq, 1)
        assert first.result(timeout=10).id == placed[0]  # type: ignore[union-attr]


def test_retention_that_overtakes_a_reader_is_told_until_it_seeks(mq: mqplug.Client) -> None:
    """If retention overtakes a reader, every receive raises PositionLost with the new low, until a seek."""
    ids = fill(mq, 10, partitions=1)
    with mq.consumer("orders", start=mqplug.before(ids[0]), partitions=[0]) as orders:
        low = mqplug.Position(ids[6].log, ids[6].coordinates)
        mq.trim("orders", {0: low})
        for _ in range(3):
            with pytest.raises(mqplug.PositionLost) as caught:
                orders.receive(timeout=5)
            assert caught.value.low == low
        orders.seek(EARLIEST)
        assert orders.receive(timeout=5).id == ids[6]  # type: ignore[union-attr]


def test_a_timed_out_seek_leaves_the_partition_unpositioned() -> None:
    """After a seek of unknown outcome every receive raises, until a seek succeeds."""
    timing_out = Faults([Rule("seek", "fail", error=mqplug.Timeout, count=1)])
    with mqplug.connect("memory", extensions=[timing_out]) as mq:
        mq.create_topic("orders")
        ids = fill(mq, 3, partitions=1)
        orders = mq.consumer("orders", start=EARLIEST)
        assert orders.receive(timeout=5).id == ids[0]  # type: ignore[union-attr]
        with pytest.raises(mqplug.Timeout):
            orders.seek(ids[0])
        with pytest.raises(mqplug.Timeout):
            orders.receive(timeout=1)
        orders.seek(ids[1])
        assert orders.receive(timeout=5).id == ids[1]  # type: ignore[union-attr]


def test_stop_in_the_loop_ends_it_after_the_message_in_hand(mq: mqplug.Client) -> None:
    """After stop the iteration ends, acks still count, and undelivered messages come again."""
    fill(mq, 12, partitions=1)
    with mq.consumer("orders", group="g") as orders:
        seen = []
        for message in orders:
            seen.append(message.value)
            if len(seen) == 3:
                orders.stop()
            orders.ack(message)
        assert seen == [b"0", b"1", b"2"]
    with mq.consumer("orders", group="g") as orders:
        assert orders.receive(timeout=5).value == b"3"  # type: ignore[union-attr]


def test_a_seek_inside_an_iteration_takes_effect_at_once(mq: mqplug.Client) -> None:
    """A loop that seeks gets the sought message next instead of the rest of its batch."""
    ids = fill(mq, 10, partitions=1)
    with mq.consumer("orders", start=EARLIEST, partitions=[0]) as orders:
        seen = []
        for message in orders:
            seen.append(ids.index(message.id))
            if len(seen) == 3:
                orders.seek(ids[8])
            if len(seen) == 5:
                break
        assert seen == [0, 1, 2, 8, 9]


def test_receive_many_takes_what_an_iteration_left(mq: mqplug.Client) -> None:
    """Iterating, receive and receive_many can be mixed without losing or repeating a message."""
    ids = fill(mq, 20, partitions=1)
    with mq.consumer("orders", start=EARLIEST, partitions=[0]) as orders:
        got = [next(iter(orders)).id, next(iter(orders)).id]
        got += orders.receive_many(5, timeout=5).ids
        got.append(orders.receive(timeout=5).id)  # type: ignore[union-attr]
        assert orders.position()[0].coordinates == ids[8].coordinates
        while len(got) < 20:
            got += orders.receive_many(7, timeout=5).ids
        assert got == ids


def test_batches_end_at_until(mq: mqplug.Client) -> None:
    """Iteration by batches ends at until=, and returns every message once."""
    ids = fill(mq, 4000)
    with mq.consumer("orders", start=EARLIEST, until=LATEST) as orders:
        fill(mq, 4)
        got = [message_id for batch in orders.batches(300) for message_id in batch.ids]
    assert len(got) == 4000
    assert set(got) == set(ids)


def test_a_read_that_cannot_reach_its_end_raises_timeout(mq: mqplug.Client) -> None:
    """A read that gets no message for its timeout before its end raises Timeout, which says how far it came."""
    mq.create_topic("single")
    with mq.producer("single") as out:
        ids = out.send_many([b"0", b"1", b"2"])
        end = mqplug.Position(ids[0].log, (4,))
        read = mq.read("single", until=end, timeout=0.2)
        assert [next(read).id for _ in ids] == ids
        with pytest.raises(mqplug.Timeout, match=r"Position\(.* 3\) is before Position\(.* 4\)"):
            next(read)
        out.send_many([b"3", b"4"])
    assert len(list(mq.read("single", until=end, timeout=0.2))) == 4


def child_uses(mq: mqplug.Client, answers: multiprocessing.Queue[str]) -> None:
    """Use an inherited client in a forked child."""
    try:
        mq.topics()
    except mqplug.Error as error:
        answers.put(type(error).__name__)
    else:
        answers.put("worked")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_does_not_cross_a_fork(mq: mqplug.Client) -> None:
    """A client that is used in a forked child raises ForkedClient, and the parent's still works."""
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=child_uses, args=(mq, answers))
    child.start()
    assert answers.get(timeout=20) == "ForkedClient"
    child.join(20)
    assert mq.topics() == ["orders"]


WAITS = """
import mqplug, sys, time
mq = mqplug.connect("memory")
mq.create_topic("orders")
orders = mq.consumer("orders", start=mqplug.LATEST)
try:
    print("waiting", flush=True)
    orders.receive()
except KeyboardInterrupt:
    print("interrupted", flush=True)
mq.close()
"""


def test_ctrl_c_ends_a_waiting_receive() -> None:
    """SIGINT reaches a receive without a timeout as KeyboardInterrupt, and close works after it."""
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    os.kill(child.pid, signal.SIGINT)
    assert child.communicate(timeout=20)[0] == "interrupted\n"
    assert child.returncode == 0


def test_what_was_not_closed_warns(mq: mqplug.Client) -> None:
    """A client that is dropped without close gives a ResourceWarning."""
    forgotten = mqplug.connect("memory")
    with pytest.warns(ResourceWarning, match="<Client memory> was not closed"):
        del forgotten


def test_reprs_name_backend_and_topic(mq: mqplug.Client) -> None:
    """The repr of client, producer, consumer, message and ids names their backend and topic."""
    placed = fill(mq, 1)[0]
    with mq.consumer("orders", group="g") as orders:
        message = orders.receive(timeout=5)
    assert repr(mq) == "<Client memory>"
    assert repr(orders) == "<Consumer memory orders, group 'g', closed>"
    assert repr(mq.producer("orders")) == "<Producer memory orders>"
    assert repr(message) == "Message(memory orders[0] 0, 1 bytes)"
    assert repr(placed) == "MessageId(memory orders[0] 0)"


def test_a_driver_that_breaks_in_the_background_stops_nobody_else(
    mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver's stray exception in the background is logged, and the acks of the other consumers are stored."""
    fill(mq, 4)
    with mq.consumer("orders", group="broken") as broken, mq.consumer("orders", group="sound") as sound:
        assert broken.receive(timeout=5) is not None

        def breaking(timeout: float) -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(broken._session.driver_session.open(Deadline(1)), "tend", breaking)
        wait_until(lambda: "a defect" in caplog.text)
        for _ in range(4):
            message = sound.receive(timeout=5)
            assert message is not None
            sound.ack(message)
        wait_until(lambda: set(mq.lag("orders", group="sound").values()) == {0})


def test_closing_the_client_waits_for_a_child_that_is_being_closed(
    mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection closes after the last driver, even if another thread closes that driver."""
    closing, go_on, told = threading.Event(), threading.Event(), list[str]()
    other = mqplug.connect("memory")
    other.create_topic("orders")
    orders = other.consumer("orders", start=EARLIEST)
    close_driver = orders._session.driver_session.open(Deadline(1)).close

    def slowly(timeout: float) -> None:
        closing.set()
        go_on.wait(10)
        close_driver(timeout)
        told.append("consumer")

    monkeypatch.setattr(orders._session.driver_session.open(Deadline(1)), "close", slowly)
    monkeypatch.setattr(other._connection, "close", lambda timeout: told.append("connection"))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(orders.close)
        assert closing.wait(10)
        second = pool.submit(other.close)
        wait_until(lambda: other._session.closed)
        go_on.set()
        first.result(10)
        second.result(10)
    assert told == ["consumer", "connection"]


def test_a_batch_that_is_taken_back_is_not_returned_too(mq: mqplug.Client) -> None:
    """A batch that a pause takes back just as receive_many has it is delivered once, after resume."""
    ids = fill(mq, 5, partitions=1)
    with mq.consumer("orders", group="g", partitions=None) as orders:
        orders.receive(timeout=5)
        orders.seek(EARLIEST)
        held = orders._session.assignment.get(ids[0].log)
        assert held is not None
        real = orders._fetcher._fetch
        taken_back: list[object] = []

        def taking_back(deadline: Deadline, most: int) -> object:
            delivery = real(deadline, most)
            if delivery is not None and not taken_back:
                orders._fetcher.hold_back(held)
                taken_back.append(delivery)
            return delivery

        orders._fetcher._fetch = taking_back  # type: ignore[method-assign, assignment]
        got = list(orders.receive_many(100, timeout=5).ids)
        assert taken_back
        assert got == ids
        assert orders.receive_many(100, timeout=0.1).ids == []
        assert orders.statistics().received == 6


def test_what_was_read_is_freed_at_once(mq: mqplug.Client) -> None:
    """A delivered and settled batch is freed without the garbage collector."""
    fill(mq, 8, partitions=1)
    gc.collect()
    gc.disable()
    try:
        with mq.consumer("orders", start=EARLIEST) as reader, mq.consumer("orders", group="g") as member:
            read, received = weakref.ref(reader.receive_many(4, timeout=5)), member.receive_many(4, timeout=5)
            for message in received:
                member.ack(message)
            settled = weakref.ref(received)
            del received, message
            member.commit()
            assert len(reader.receive_many(4, timeout=5)) == len(member.receive_many(4, timeout=5)) == 4
            assert (read(), settled()) == (None, None)
    finally:
        gc.enable()


def test_what_was_read_is_freed_before_more_is_fetched(mq: mqplug.Client) -> None:
    """An acked batch is freed before the commit, and one read without a group before the next is delivered."""
    ids = fill(mq, 8, partitions=1)
    gc.collect()
    gc.disable()
    try:
        with mq.consumer("orders", start=EARLIEST) as reader, mq.consumer("orders", group="g") as member:
            read, received = weakref.ref(reader.receive_many(8, timeout=5)), member.receive_many(8, timeout=5)
            for message in received:
                member.ack(message)
            settled = weakref.ref(received)
            del received, message
            wait_until(lambda: (list(reader.receive_many(1, timeout=0)), read()) == ([], None))
            wait_until(lambda: (list(member.receive_many(1, timeout=0)), settled()) == ([], None))
            assert reader.statistics().received == member.statistics().received == 8
            member.ack(ids[-1])
            assert member.late_acks == 1
            member.commit()
            assert mq.lag("orders", group="g")[0] == 0
    finally:
        gc.enable()


def test_an_ack_of_what_is_long_settled_is_counted(mq: mqplug.Client) -> None:
    """A second ack, nack or ack_through of a message whose whole batch was acked and stored is counted."""
    fill(mq, 2, partitions=1)
    with mq.consumer("orders", group="g") as orders:
        batch = orders.receive_many(2, timeout=5)
        for message in batch:
            orders.ack(message)
        orders.commit()
        orders.ack(batch[0])
        orders.nack(batch[1])
        orders.ack_through(batch[1])
        assert orders.late_acks == 3
        assert orders.receive(timeout=0) is None


def test_ack_through_a_nacked_message_is_late(mq: mqplug.Client) -> None:
    """After a nack of a message, ack_through of it is counted and acks nothing, however often it was nacked."""
    fill(mq, 2, partitions=1)
    with mq.consumer("orders", group="g") as orders:
        orders.receive(timeout=5)
        for attempt in (1, 2, 3):
            message = orders.receive(timeout=5)
            assert message is not None
            assert message.attempt == attempt
            orders.nack(message, delay=0)
            orders.ack_through(message)
            orders.ack_through(message.id)
            assert orders.late_acks == 2 * attempt
        orders.commit()
        assert mq.lag("orders", group="g")[0] == 2


def test_a_member_may_seek_in_a_partition_that_was_added(mq: mqplug.Client) -> None:
    """A member that holds an added partition seeks in it by id, and learns what its group has stored there."""
    with mq.consumer("orders", group="billing") as member:
        member.receive(0)
        mq.add_partitions("orders", 5)
        with mq.producer("orders") as out:
            first, second = (out.send(value, partition=4) for value in (b"1", b"2"))
        assert member.receive(5).id == first
        member.seek(second)
        assert member.receive(5).id == second
        assert member.committed()[4] == mq.resolve("orders", mqplug.before(second))[4]

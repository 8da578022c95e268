"""The modes shared and key_shared of the memory backend, at its driver seam and through the core."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from memory_drivers import Heard, Seam, values

import mqplug
from mqplug import Client, Position, PositionLost, Record
from mqplug.spi import AddPartitions, Settlement
from mqplug_testing.debug import Rules


@pytest.fixture
def seam() -> Seam:
    """A topic of one partition."""
    return Seam()


def test_members_share_the_messages_of_one_partition(seam: Seam) -> None:
    """Each message goes to one member, and a member gets at most the requested number."""
    seam.send(b"0", b"1", b"2", b"3")
    one, other = seam.member("shared"), seam.member("shared")
    assert [values(one.poll(2, 0)), values(other.poll(1, 0)), values(one.poll(9, 0))] == [[b"0", b"1"], [b"2"], [b"3"]]


def test_all_members_hear_of_all_logs() -> None:
    """All members are assigned all logs at the first poll, with the group's positions, and never lose them."""
    seam, heard = Seam(partitions=2), [Heard(), Heard()]
    for each in heard:
        seam.member("shared", listener=each).poll(1, 0)
    assert [set(each.held) for each in heard] == [set(seam.logs)] * 2


def test_members_that_share_read_added_partitions(seam: Seam) -> None:
    """All members are assigned a new partition of the topic, and share its messages."""
    heard = Heard()
    member = seam.member("shared", listener=heard)
    member.poll(1, 0)
    seam.do(AddPartitions("orders", 2))
    seam.send(b"x", partition=1)
    assert values(member.poll(1, 0)) == [b"x"]
    assert len(heard.held) == 2


def test_a_message_comes_again_with_its_attempt(seam: Seam) -> None:
    """A returned message is free after its delay, and wakes a waiting poll."""
    [place] = seam.send(b"x")
    one, other = seam.member("shared"), seam.member("shared")
    one.poll(1, 0)
    one.settle({seam.logs[0]: Settlement([], [(place, 0.2)])}, 1)
    assert other.poll(1, 0) == []
    [batch] = _poll_until(other)
    assert list(batch.attempts) == [2]


def test_who_closes_gives_back_what_it_has(seam: Seam) -> None:
    """The messages of a closed member go to another one at once."""
    seam.send(b"x")
    one, other = seam.member("shared"), seam.member("shared")
    one.poll(1, 0)
    one.close(1)
    assert values(other.poll(1, 0)) == [b"x"]


def test_who_takes_too_long_loses_its_message(seam: Seam) -> None:
    """After max_processing a message goes to another member; what the first one says about it later is ignored."""
    [place] = seam.send(b"x")
    one, other = seam.member("shared", max_processing=60.0), seam.member("shared")
    one.poll(1, 0)
    seam.store.clock.advance(61)
    assert values(other.poll(1, 0)) == [b"x"]
    one.settle({seam.logs[0]: Settlement([place])}, 1)
    assert seam.store.positions("billing", seam.logs)[seam.logs[0]].position.coordinates == place


def test_the_position_of_a_group_is_where_its_table_stands(seam: Seam) -> None:
    """The position lies before the first unacked message, with the later acked ranges."""
    places = seam.send(b"0", b"1", b"2")
    member = seam.member("shared")
    member.poll(9, 0)
    member.settle({seam.logs[0]: Settlement([places[0], places[2]])}, 1)
    stands = seam.store.positions("billing", seam.logs)[seam.logs[0]]
    assert (stands.position.coordinates, stands.acked) == (places[1], ((places[2], places[2]),))


def test_an_ordered_member_goes_on_where_shared_ones_left_off(seam: Seam) -> None:
    """A group without members may change its mode; nothing is lost or acked by that."""
    places = seam.send(b"0", b"1", b"2")
    shared = seam.member("shared")
    shared.poll(9, 0)
    shared.settle({seam.logs[0]: Settlement([places[0]])}, 1)
    shared.close(1)
    ordered = seam.member("ordered")
    assert values(ordered.poll(9, 0)) == [b"1", b"2"]
    ordered.close(1)
    assert values(seam.member("key_shared").poll(9, 0)) == [b"1", b"2"]


def test_retention_that_overtakes_members_is_told(seam: Seam) -> None:
    """A message without a lease is lost to retention; a leased one is not."""
    seam.send(b"0", b"1", b"2")
    member = seam.member("shared")
    member.poll(1, 0)
    seam.trim((1,))
    assert values(member.poll(1, 0)) == [b"1"]
    seam.trim((3,))
    with pytest.raises(PositionLost):
        member.poll(1, 0)


def test_a_key_is_with_one_member_at_a_time(seam: Seam) -> None:
    """In key_shared other members wait for a key until it is free."""
    places = seam.send(b"0", b"1", b"2", keys=[b"a", b"a", b"b"])
    one, other = seam.member("key_shared"), seam.member("key_shared")
    assert values(one.poll(1, 0)) == [b"0"]
    assert values(other.poll(9, 0)) == [b"2"]
    one.settle({seam.logs[0]: Settlement([places[0]])}, 1)
    assert values(other.poll(9, 0)) == [b"1"]


def test_an_entry_that_changed_hands_is_acked_in_the_end() -> None:
    """On Pulsar an ack from before its message was lost to another member completes nothing."""
    seam = Seam(like="pulsar")
    log, (first, second) = seam.logs[0], seam.send(b"0", b"1")
    one, other = seam.member("shared", max_processing=60.0), seam.member("shared")
    one.poll(1, 0)
    one.settle({log: Settlement([first])}, 1)
    assert values(other.poll(1, 0)) == [b"1"]
    seam.store.clock.advance(61)
    assert values(other.poll(1, 0)) == [b"0"]
    other.settle({log: Settlement([second])}, 1)
    assert seam.store.positions("billing", [log])[log].position.coordinates == first
    other.settle({log: Settlement([first])}, 1)
    assert seam.store.positions("billing", [log])[log].position.coordinates == (1, 1, -1)


def test_a_group_that_stands_inside_an_entry_acks_the_rest_of_it() -> None:
    """If a group stands inside an entry, the messages of the entry before its position are already acked."""
    seam = Seam(like="pulsar")
    log, places = seam.logs[0], seam.send(b"0", b"1", b"2")
    member = seam.member("shared")
    member.poll(9, 0)
    member.seek({log: Position(log, places[1])}, 1)
    member.poll(9, 0)
    member.settle({log: Settlement(places[1:])}, 1)
    assert seam.store.positions("billing", [log])[log].position.coordinates == (1, 1, -1)


def _poll_until(member) -> list:
    for _ in range(100):
        if batches := member.poll(1, 0.1):
            return batches
    return pytest.fail("it did not come again")


# through the core ------------------------------------------------------------------------------------------


@pytest.fixture(params=["full", "pulsar"])
def mq(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A store with a topic of two partitions, in which the driver rules are enforced."""
    with mqplug.connect("memory", like=request.param, debug=True) as client:
        client.create_topic("jobs", partitions=2)
        rules = client.unwrap(Rules)
        yield client
    assert rules is not None
    assert rules.broken == []


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
def test_workers_do_every_job(mq: Client, mode) -> None:
    """Three consumers on three threads each finish all jobs, of which each tenth fails once; each key has one owner."""
    count, lock, done, busy, twice = 300, threading.Lock(), {}, set(), []
    with mq.producer("jobs") as out:
        out.send_many([Record(b"%d" % number, key=b"%d" % (number % 7)) for number in range(count)])
    finished = threading.Event()

    def work(message: mqplug.Message) -> None:
        with lock:
            first = message.value not in done
            if message.key in busy:
                twice.append(message.key)
            busy.add(message.key)
        failed = first and message.value is not None and message.value.endswith(b"7")
        with lock:
            busy.discard(message.key)
            done[message.value] = not failed
            if len(done) == count and all(done.values()):
                finished.set()
        if failed:
            raise ValueError("not this time")

    retry = mqplug.Retry(None, delay=0.01)
    workers = [mq.consumer("jobs", group="mailer", mode=mode, retry=retry) for _ in range(3)]
    threads = [threading.Thread(target=worker.run, args=(work,), kwargs={"threads": 3}) for worker in workers]
    for thread in threads:
        thread.start()
    assert finished.wait(30)
    for worker in workers:
        worker.stop()
    for thread in threads:
        thread.join(30)
    for worker in workers:
        worker.close()
    assert mode == "shared" or twice == []
    if mq.capabilities.ack_granularity == "message":
        assert set(mq.lag("jobs", group="mailer").values()) == {0}

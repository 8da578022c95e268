"""The modes shared and key_shared: an embedded job queue, at the driver's seam and through mqplug."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from rocksmq_words import Member, administer, eventually, line, python
from sharing_words import GROUP, Sharer, Waiter, jobs, stored

import mqplug
from mqplug import EARLIEST, ConsumerBusy, Corrupt, Position, PositionLost, Retry, Timeout, TopicNotFound
from mqplug.spi import AddPartitions, DeleteTopic, Mode, Settlement, Trim
from mqplug_rocksmq import _shelf, _witness
from mqplug_rocksmq._layout import HANDED


@pytest.fixture
def mq(path: Path) -> Iterator[mqplug.Client]:
    """A client with the topic "jobs" of one partition."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as client:
        client.create_topic("jobs")
        yield client


def test_members_split_one_partition(mq: mqplug.Client) -> None:
    """Each message goes to one member, as its first attempt, and no member gets more than it asked for."""
    jobs(mq, 6)
    one, other = Sharer(mq), Sharer(mq)
    assert [one.take(2), other.take(3), one.take(9)] == [[(0, 1), (1, 1)], [(2, 1), (3, 1), (4, 1)], [(5, 1)]]
    assert other.take(9) == []
    assert one.held.keys() == other.held.keys() == set(mq.partitions("jobs"))


def test_messages_are_whole(mq: mqplug.Client) -> None:
    """A message that comes again, alone, from the middle of a page, has all that it was sent with."""
    jobs(mq, 3, lambda number: b"key %d" % number, headers=[("name", b"value"), ("none", None)], timestamp=1_000)
    first, again = Sharer(mq), Sharer(mq)
    first.take(3)
    first.settle(0, 2, back={1: 0.0})
    [batch] = again.driver.poll(9, 0)
    [message] = batch
    assert (message.value, message.key, message.attempt) == (b"1", b"key 1", 2)
    assert message.headers == (("name", b"value"), ("none", None))
    assert batch.timestamps == batch.log_times == [1_000]
    assert batch.next_position.coordinates == (2,)


def test_pages_that_were_put_away_are_read_again(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of a log is kept in memory, what comes again is what was sent."""
    monkeypatch.setattr(_shelf, "_ROOM", 2_000)
    for _ in range(20):
        jobs(mq, 10)
    member = Sharer(mq)
    taken = [at for at, _ in member.take(200)]
    assert taken == list(range(200))
    member.settle(back=dict.fromkeys(taken[::3], 0.0))
    assert member.values(100) == [b"%d" % (at % 10) for at in taken[::3]]


# what is stored --------------------------------------------------------------------------------------------


def test_acks_are_stored_exactly(mq: mqplug.Client, path: Path) -> None:
    """In whatever order they come; only the rest is delivered when the store was opened again, as second attempts."""
    jobs(mq, 8)
    member = Sharer(mq)
    member.take(8)
    member.settle(5, 1, 0, back={3: 60.0})
    member.settle(6)
    assert stored(mq) == (2, [(5, 6)])
    member.close()
    mq.close()
    with mqplug.connect("rocksmq", path=str(path)) as opened:
        assert Sharer(opened).take(9) == [(at, 2) for at in (2, 4, 7)]  # 3 was put off


def test_giving_back_writes_next_to_nothing(mq: mqplug.Client) -> None:
    """A nack costs no write, and one small one that nobody waits for where something is put off."""
    jobs(mq, 3)
    member = Sharer(mq)
    member.take(3)
    store = member.driver._store
    before = store._engine.durability.changes
    member.settle(back={0: 0.0})
    assert store._engine.durability.changes == before
    member.settle(back={1: 5.0})
    assert store._engine.durability.changes == before + 1
    member.settle(2)
    assert store._engine.durability.changes == before + 2


def test_what_could_not_be_stored_in_time_is_stored_with_the_next(mq: mqplug.Client) -> None:
    """A settlement that timed out took effect in memory; said again, it is stored before it returns."""
    jobs(mq, 3)
    member = Sharer(mq)
    member.take(3)
    with member.driver._sharing._storing, pytest.raises(Timeout):
        member.settle(0, timeout=0.01)
    assert stored(mq) == (0, [])
    member.settle(0)
    assert stored(mq) == (1, [])


def test_many_settle_as_one(mq: mqplug.Client) -> None:
    """What several members settle while the disk is busy is stored by one write."""
    jobs(mq, 8)
    members = [Sharer(mq) for _ in range(8)]
    taken = [member.take(1)[0][0] for member in members]
    sharing, engine = members[0].driver._sharing, members[0].driver._store._engine
    threads = [threading.Thread(target=member.settle, args=(at,)) for member, at in zip(members, taken, strict=True)]
    before = engine.durability.changes
    with sharing._storing:
        for thread in threads:
            thread.start()
        eventually(lambda: sharing._changes == 8)
    for thread in threads:
        thread.join(20)
    assert engine.durability.changes == before + 1
    assert stored(mq) == (8, [])


CRASHES = """
import mqplug
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("jobs")
with mq.producer("jobs") as out:
    out.send_many([b"%d" % number for number in range(20)])
member = mq.consumer("jobs", group="workers", mode=sys.argv[2])
batch = member.receive_many(12, 10)
for message in list(batch)[::3]:
    member.ack(message)
member.nack(batch[1], delay=3600)
member.commit()
member.ack(batch[4])
print(len(batch), flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
def test_a_kill_gives_back_what_was_not_acked(path: Path, mode: Mode) -> None:
    """After kill -9 all that was handed out and not acked comes again, as one attempt more; what was acked does not."""
    with python(CRASHES, path, mode) as process:
        assert line(process) == "12"
        process.kill()
        process.wait(20)
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        came = Sharer(mq, mode).take(100, 1)
    maybe = [at for at, _ in came if at == 4]  # its ack was on its way
    gone = {0, 1, 3, 6, 9, 4}  # acked, but for 1, which is put off still
    assert came == [(at, 2 if at < 12 else 1) for at in range(20) if at not in gone or at in maybe]


POISONED = """
import mqplug
retry = mqplug.Retry(3, delay=0)
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq:
    with mq.consumer("jobs", group="workers", mode="shared", retry=retry, dead_letter="jobs.dead") as jobs:
        while sum(mq.lag("jobs", group="workers").values()):
            job = jobs.receive(timeout=0.1)
            if job is not None and job.value == b"poison":
                print(job.attempt, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if job is not None:
                jobs.ack(job)
                jobs.commit()
print("done", flush=True)
"""


@pytest.mark.parametrize("sync", ["always", "os"])
def test_a_message_that_kills_its_process(path: Path, sync: str) -> None:
    """It counts an attempt each time, and goes to the dead letters when there were enough; the others are done."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("jobs")
        mq.create_topic("jobs.dead")
        with mq.producer("jobs") as out:
            out.send_many([b"before", b"poison", b"after"])
    said = []
    for _ in range(4):
        with python(POISONED, path, sync) as process:
            said.append(line(process))
    assert said == ["1", "2", "3", "done"]
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        [dead] = mq.read("jobs.dead")
        assert (dead.value, dict(dead.headers)["mqplug-dead-attempts"]) == (b"poison", b"3")


def test_a_delay_outlives_the_store(path: Path) -> None:
    """What was put off comes when it is due, in whoever has the store open by then, and as one attempt more."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("jobs")
        jobs(mq, 2)
        member = Sharer(mq)
        member.take(2)
        began = monotonic()
        member.settle(1, back={0: 1.5})
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        member = Sharer(mq)
        assert member.take(9) == []
        with Waiter(member) as waiter:
            pass
        assert waiter.got == [(0, 2)]
        assert 1.4 < monotonic() - began < 10


def test_notes_go_when_all_is_acked(mq: mqplug.Client) -> None:
    """What is acked leaves no note on disk of whom it was handed to; nor does a group that is moved or deleted."""
    jobs(mq, 30)
    member = Sharer(mq)
    pages = member.driver._store._engine.pages
    for _ in range(3):
        member.take(5)
    member.settle(0, back={1: 0.0, 7: 60.0})
    member.take(1)
    assert pages.scan(HANDED)
    member.settle(*range(15))
    member.settle(14)
    assert len(pages.scan(HANDED)) == 1  # of 7, which is put off and not this member's any more
    member.driver.tend(0)
    member.driver.seek({member.log: mqplug.Position(member.log, (3,))}, 10)
    assert pages.scan(HANDED) == []
    member.take(5)
    member.close()
    assert pages.scan(HANDED)
    mq.reset_group(GROUP, "jobs", EARLIEST)
    assert pages.scan(HANDED) == []
    member = Sharer(mq)
    assert member.take(2) == [(0, 1), (1, 1)]
    member.close()
    mq.delete_group(GROUP)
    assert pages.scan(HANDED) == []


# giving back, and being away -------------------------------------------------------------------------------


def test_what_is_given_back_goes_to_anybody(mq: mqplug.Client) -> None:
    """It comes before what is new, as another attempt, and what its last owner says of it then changes nothing."""
    jobs(mq, 3)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    one.settle(back={0: 0.0})
    assert other.take(2) == [(0, 2), (2, 1)]
    one.settle(0)
    assert stored(mq) == (0, [])


def test_a_member_that_leaves_gives_back_what_it_had(mq: mqplug.Client) -> None:
    """A member that waits is told at once."""
    jobs(mq, 2)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    with Waiter(other) as waiter:
        one.settle(0)
        one.close()
    assert waiter.got == [(1, 2)]
    assert waiter.waited < waiter.seconds


def test_a_delay_ends_a_wait(mq: mqplug.Client) -> None:
    """Who waits gets what was put off when its time has come, and not before."""
    jobs(mq, 1)
    one, other = Sharer(mq), Sharer(mq)
    one.take(1)
    with Waiter(other) as waiter:
        one.settle(back={0: 0.3})
    assert waiter.got == [(0, 2)]
    assert 0.29 < waiter.waited < waiter.seconds


def test_who_takes_too_long_loses_its_message(mq: mqplug.Client) -> None:
    """It goes to another after ``max_processing``, and what the first says of it then changes nothing."""
    slow, other = Sharer(mq, max_processing=0.3), Sharer(mq)
    assert other.driver._patience(30.0) == 0.3  # slow may take something while other waits
    jobs(mq, 1)
    slow.take(1)
    with Waiter(other) as waiter:
        pass
    assert waiter.got == [(0, 2)]
    assert waiter.waited < waiter.seconds
    slow.settle(0)
    assert stored(mq) == (0, [])


def test_a_wait_costs_nothing(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member with nothing to do looks twice: before it waits, and when the time is up."""
    looks = Counter[str]()
    jobs(mq, 1)
    one, other = Sharer(mq, max_processing=60.0), Sharer(mq)
    one.take(1)
    one.settle(back={0: 60.0})
    take = other.driver._sharing.take
    monkeypatch.setattr(other.driver._sharing, "take", lambda *given: (looks.update(["take"]), take(*given))[1])
    other.take(1, 0.1)  # what was set before ends this wait
    looks.clear()
    assert other.take(1, 0.5) == []
    assert looks["take"] == 2


def test_dead_letters(mq: mqplug.Client) -> None:
    """What failed too often goes to the dead letters, and is acked."""
    mq.create_topic("jobs.dead")
    jobs(mq, 2)
    with mq.consumer("jobs", group=GROUP, mode="shared", retry=Retry(2, delay=0), dead_letter="jobs.dead") as member:
        for attempt in (1, 2):
            bad = member.receive(5)
            assert bad is not None
            assert (bad.value, bad.attempt) == (b"0", attempt)
            member.nack(bad, reason="no luck")
        good = member.receive(5)
        assert good is not None
        member.ack(good)
        eventually(lambda: mq.watermarks("jobs.dead")[0].count == 1)
        eventually(lambda: (member.receive(0), member.commit(), stored(mq) == (2, []))[-1])
    [letter] = mq.read("jobs.dead")
    assert dict(letter.headers)["mqplug-dead-reason"] == b"no luck"


# keys ------------------------------------------------------------------------------------------------------


def test_a_key_is_with_one_member(mq: mqplug.Client) -> None:
    """Others get nothing of a key that a member has, and are woken when it is free."""
    jobs(mq, 3, lambda number: b"a" if number < 2 else b"b")
    one, other = Sharer(mq, "key_shared"), Sharer(mq, "key_shared")
    assert one.take(1) == [(0, 1)]
    assert other.take(9) == [(2, 1)]
    with Waiter(other) as waiter:
        one.settle(0)
    assert waiter.got == [(1, 1)]


def test_keys_keep_their_order(mq: mqplug.Client) -> None:
    """A thousand keys on four members, with one message in ten given back: each key in order, by one at a time."""
    keys, count, lock = 1000, 6000, threading.Lock()
    jobs(mq, count, lambda number: b"%d" % (number % keys))
    seen: dict[bytes | None, list[int]] = {}
    owners: dict[bytes | None, mqplug.Consumer] = {}
    in_hand: Counter[bytes | None] = Counter()
    failed: set[int] = set()
    done = threading.Event()

    def work() -> None:
        with mq.consumer("jobs", group=GROUP, mode="key_shared") as member:
            while not done.is_set():
                batch = member.receive_many(50, 0.05)
                with lock:
                    for message in batch:
                        assert owners.setdefault(message.key, member) is member
                        in_hand[message.key] += 1
                for message in batch:
                    handle(member, message)
                member.commit()

    def handle(member: mqplug.Consumer, message: mqplug.Message) -> None:
        number = int(message.value or b"")
        again = number % 10 == 3 and number not in failed
        with lock:
            in_hand[message.key] -= 1
            if not in_hand[message.key]:
                del owners[message.key]
            failed.add(number)
            if not again and number not in (mine := seen.setdefault(message.key, [])):
                mine.append(number)
            if sum(map(len, seen.values())) == count:
                done.set()
        if again:
            member.nack(message, delay=0)
        else:
            member.ack(message)

    run(4, work, done)
    assert seen == {b"%d" % key: list(range(key, count, keys)) for key in range(keys)}


def run(threads: int, work: Callable[[], None], done: threading.Event) -> None:
    """Let threads work until it is done; what one of them raises is raised."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            done.set()

    workers = [threading.Thread(target=guarded) for _ in range(threads)]
    for worker in workers:
        worker.start()
    assert done.wait(100)
    for worker in workers:
        worker.join(30)
    if errors:
        raise errors[0]


# many ------------------------------------------------------------------------------------------------------


def test_eight_threads_do_each_job_once(mq: mqplug.Client) -> None:
    """Two members with four threads each, of whose jobs every tenth fails once: all are done, none twice."""
    count, lock = 3000, threading.Lock()
    jobs(mq, count)
    done: Counter[int] = Counter()
    failed: set[int] = set()

    def handle(message: mqplug.Message) -> None:
        number = int(message.value or b"")
        with lock:
            if number % 10 == 7 and number not in failed:
                failed.add(number)
                raise RuntimeError("no luck")
            done[number] += 1

    retry = Retry(None, delay=0)
    members = [mq.consumer("jobs", group=GROUP, mode="shared", retry=retry) for _ in range(2)]
    threads = [threading.Thread(target=member.run, args=(handle,), kwargs={"threads": 4}) for member in members]
    for thread in threads:
        thread.start()
    eventually(lambda: len(done) == count, 90)
    eventually(lambda: stored(mq) == (count, []))
    for member in members:
        member.stop()
    for thread in threads:
        thread.join(30)
    for member in members:
        member.close()
    assert set(done.values()) == {1}


def test_groups_know_nothing_of_each_other(mq: mqplug.Client) -> None:
    """Each group gets every message, in its own mode, and stands where its own acks are."""
    jobs(mq, 3)
    one, other, ordered = Sharer(mq, group="a"), Sharer(mq, "key_shared", "b"), Member(mq, "jobs", "c")
    assert one.take(9) == other.take(9) == [(0, 1), (1, 1), (2, 1)]
    eventually(ordered.poll)
    one.settle(0, 1)
    other.settle(2)
    assert stored(mq, "a") == (2, [])
    assert stored(mq, "b") == (0, [(2, 2)])


MODES: list[Mode] = ["ordered", "exclusive", "shared", "key_shared"]


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_modes_do_not_mix(mq: mqplug.Client, first: Mode, second: Mode) -> None:
    """Who wants another mode than the members have is ``ConsumerBusy``, until they are gone."""
    there = mq.consumer("jobs", group=GROUP, mode=first)
    if first == second != "exclusive":
        mq.consumer("jobs", group=GROUP, mode=second).close()
    else:
        with pytest.raises(ConsumerBusy):
            mq.consumer("jobs", group=GROUP, mode=second)
    there.close()
    mq.consumer("jobs", group=GROUP, mode=second).close()


def test_modes_follow_each_other(mq: mqplug.Client) -> None:
    """A group whose members are gone goes on in any mode, with every single ack."""
    jobs(mq, 6)
    shared = Sharer(mq)
    shared.take(9)
    shared.settle(0, 3)
    shared.close()
    with mq.consumer("jobs", group=GROUP) as ordered:
        got = [ordered.receive(5) for _ in range(4)]
        assert [message and message.value for message in got] == [b"1", b"2", b"4", b"5"]
        ordered.ack(got[2])  # type: ignore[arg-type]
    assert Sharer(mq, "key_shared").take(9) == [(1, 2), (2, 2), (5, 2)]


# what happens to logs --------------------------------------------------------------------------------------


def test_a_seek_frees_all_and_forgets_acks(mq: mqplug.Client) -> None:
    """Whoever had something has it no more; the group stands where one member sought to, and who waits is told."""
    jobs(mq, 4)
    one, other = Sharer(mq), Sharer(mq)
    assert len(one.take(2) + other.take(2)) == 4
    one.settle(0)
    with Waiter(other) as waiter:
        one.driver.seek({one.log: Position(one.log, (1,))}, 10)
    assert waiter.got == [(1, 1), (2, 1), (3, 1)]
    one.settle(1)
    assert stored(mq) == (1, [])


def test_retention_that_overtakes_members_is_told(mq: mqplug.Client) -> None:
    """A message that a member has is acked as ever; one that nobody has is lost, and every poll says so till a seek."""
    jobs(mq, 6)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    one.settle(0)
    administer(mq, Trim({one.log: Position(one.log, (2,))}))
    assert other.take(1) == [(2, 1)]
    one.settle(1)
    assert stored(mq) == (2, [])
    administer(mq, Trim({one.log: Position(one.log, (5,))}))
    for member in (one, other, one):
        with pytest.raises(PositionLost) as caught:
            member.take(1)
        assert caught.value.low == Position(one.log, (5,))
    one.driver.seek({one.log: Position(one.log, (5,))}, 10)
    assert other.take(9) == [(5, 1)]


def test_what_was_read_before_an_error_is_delivered(mq: mqplug.Client) -> None:
    """A log that is at fault takes nothing of another log with it."""
    administer(mq, AddPartitions("jobs", 2))
    zero, one = mq.partitions("jobs")
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"x", partition=partition) for partition in (0, 0, 1)])
    member = Sharer(mq)
    administer(mq, Trim({one: Position(one, (1,))}))
    assert member.take(9) == [(0, 1), (1, 1)]
    for _ in range(2):
        with pytest.raises(PositionLost):
            member.take(9)
    member.driver.seek({one: Position(one, (1,))}, 10)
    member.driver.settle({zero: Settlement([(0,), (1,)])}, 10)
    assert member.take(9) == []


def test_damage_leaves_no_message_behind(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that cannot be read is ``Corrupt`` at every poll; nobody has what was on its way then."""
    jobs(mq, 2)
    member = Sharer(mq)
    member.take(2)
    member.settle(back={0: 0.0, 1: 0.0})
    store, sharing = member.driver._store, member.driver._sharing
    sharing._desks[member.log].shelf = _shelf.Shelf(store, sharing._desks[member.log].number, with_keys=False)
    with monkeypatch.context() as patched:
        patched.setattr(store, "read", _damaged)
        for _ in range(2):
            with pytest.raises(Corrupt):
                member.take(9)
    assert [at for at, _ in member.take(9)] == [0, 1]


def _damaged(*_: object) -> None:
    raise Corrupt("a page does not match its checksum")


def test_a_topic_that_is_deleted_ends_a_wait(mq: mqplug.Client) -> None:
    """Who waits for its messages learns that there will be none, and what is settled of them is refused."""
    jobs(mq, 1)
    member = Sharer(mq)
    member.take(1)
    thread = threading.Timer(0.1, lambda: administer(mq, DeleteTopic("jobs")))
    thread.start()
    with pytest.raises(TopicNotFound):
        member.take(1, 30)
    thread.join(20)
    with pytest.raises(TopicNotFound):
        member.settle(0)
    member.close()


def test_added_partitions_are_shared(mq: mqplug.Client) -> None:
    """Live members hear of them, and share what is in them from its beginning."""
    one, other = Sharer(mq), Sharer(mq)
    assert one.take() == other.take() == []
    administer(mq, AddPartitions("jobs", 2))
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"x", partition=1), mqplug.Record(b"y", partition=1)])
    assert [one.take(1, 10), other.take(1, 10)] == [[(0, 1)], [(1, 1)]]
    assert len(one.held) == len(other.held) == 2


def test_offsets_that_were_given_up_are_stepped_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the host died and left a gap, members go on behind it."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("jobs")
        jobs(mq, 2)
    witness = (path / "witness").read_bytes()
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        during = (path / "witness").read_bytes()
    assert witness != during
    (path / "witness").write_bytes(during)
    monkeypatch.setattr(_witness, "_boot", lambda: b"another boot")
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        jobs(mq, 2)
        member = Sharer(mq)
        taken = [at for at, _ in member.take(9)]
        assert taken[:2] == [0, 1]
        assert taken[2] > 2
        member.settle(*taken)
        assert stored(mq)[0] == taken[3] + 1

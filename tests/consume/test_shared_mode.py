"""The modes in which members share a log, message by message: a job queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import pytest
from waiting import wait_until

import mqplug
from mqplug import EARLIEST, Log, Retry
from mqplug.memory import Clock
from mqplug.spi import Settlement, hookimpl
from mqplug.spi.proxies import ConsumerProxy


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``jobs`` of one partition."""
    with mqplug.connect("memory") as client:
        client.create_topic("jobs")
        yield client


def fill(mq: mqplug.Client, count: int, **fields: object) -> list[mqplug.MessageId]:
    """Send this many messages."""
    with mq.producer("jobs") as out:
        return list(out.send_many([mqplug.Record(b"%d" % number, **fields) for number in range(count)]))  # type: ignore[arg-type]


def take(jobs: mqplug.Consumer) -> mqplug.Message:
    """Return the next message, which must exist."""
    message = jobs.receive(timeout=5)
    assert message is not None
    return message


def test_members_split_the_messages_of_one_partition(mq: mqplug.Client) -> None:
    """Each message goes to one member, whichever asks, and a slow member delays no other."""
    ids = fill(mq, 6)
    with mq.consumer("jobs", group="g", mode="shared") as a, mq.consumer("jobs", group="g", mode="shared") as b:
        got = [take(a), take(b), take(b), take(b), take(a), take(b)]
        assert sorted(message.id for message in got) == ids
        assert a.receive(timeout=0.1) is None
        fill(mq, 1)
        assert take(a).value == b"0"


def test_what_nobody_settled_goes_to_the_dead_letters(mq: mqplug.Client) -> None:
    """A message that members tried often enough and left unsettled becomes a dead letter instead of coming again."""
    mq.create_topic("jobs.dead")
    [left, after] = fill(mq, 2)
    options = {"group": "g", "mode": "shared", "retry": Retry(2, delay=0), "dead_letter": "jobs.dead"}
    with mq.consumer("jobs", **options) as stays:  # type: ignore[arg-type]
        for attempt in (1, 2):
            with mq.consumer("jobs", **options) as leaves:  # type: ignore[arg-type]
                message = take(leaves)
                assert (message.id, message.attempt) == (left, attempt)
        message = take(stays)
        assert message.id == after
        stays.ack(message)
        wait_until(lambda: stays.receive(timeout=0) is None and stays.statistics().dead_lettered == 1)
        stays.commit()
    [dead] = mq.read("jobs.dead")
    headers = dict(dead.headers)
    assert (dead.value, headers["mqplug-dead-attempts"]) == (b"0", b"2")
    assert headers["mqplug-dead-source"] == str(left).encode()
    assert mq.lag("jobs", group="g") == {0: 0}


def test_a_message_given_back_goes_to_anybody_and_counts(mq: mqplug.Client) -> None:
    """While the nacked message waits the others continue, and its next delivery has one more attempt."""
    fill(mq, 3)
    with mq.consumer("jobs", group="g", mode="shared") as a, mq.consumer("jobs", group="g", mode="shared") as b:
        message = take(a)
        a.nack(message, delay=0.2)
        assert [take(b).value, take(b).value] == [b"1", b"2"]
        again = take(b)
        assert (again.id, again.attempt) == (message.id, 2)
        a.ack(message)
        assert a.late_acks == 1


def test_acks_are_stored_and_only_the_rest_comes_back(mq: mqplug.Client) -> None:
    """After a clean close acked messages, in whatever order, stay acked; the rest comes again."""
    ids = fill(mq, 6)
    with mq.consumer("jobs", group="g", mode="shared") as jobs:
        got = [take(jobs) for _ in ids]
        for number in (4, 0, 2):
            jobs.ack(got[number])
    with mq.consumer("jobs", group="g", mode="shared") as jobs:
        assert {take(jobs).id for _ in range(3)} == {ids[1], ids[3], ids[5]}
    assert mq.lag("jobs", group="g")[0] > 0


def test_a_member_that_leaves_frees_what_it_had(mq: mqplug.Client) -> None:
    """The unacked messages of a closed member are free for the others at once."""
    [only] = fill(mq, 1)
    with mq.consumer("jobs", group="g", mode="shared") as stays:
        with mq.consumer("jobs", group="g", mode="shared") as leaves:
            assert take(leaves).id == only
            assert stays.receive(timeout=0) is None
        again = take(stays)
        assert (again.id, again.attempt) == (only, 2)


def test_a_message_that_takes_too_long_goes_to_another(mq: mqplug.Client) -> None:
    """After max_processing another member gets the message, and the late ack changes nothing."""
    [only] = fill(mq, 1)
    clock = mq.unwrap(Clock)
    assert clock is not None
    options = {"group": "g", "mode": "shared", "max_processing": 60}
    with mq.consumer("jobs", **options) as slow, mq.consumer("jobs", **options) as other:  # type: ignore[arg-type]
        late = take(slow)
        clock.advance(61)
        again = take(other)
        assert (again.id, again.attempt) == (only, 2)
        slow.ack(late)
        slow.commit()
        assert mq.lag("jobs", group="g") == {0: 1}
        other.ack(again)
        other.commit()
        assert mq.lag("jobs", group="g") == {0: 0}


def test_max_unacked_bounds_what_a_member_has(mq: mqplug.Client) -> None:
    """A member takes at most max_unacked messages, and leaves the rest to the others."""
    fill(mq, 5)
    with (
        mq.consumer("jobs", group="g", mode="shared", max_unacked=2) as a,
        mq.consumer("jobs", group="g", mode="shared") as b,
    ):
        first, second = take(a), take(a)
        assert a.receive(timeout=0.1) is None
        assert {take(b).value for _ in range(3)} == {b"2", b"3", b"4"}
        a.ack(first)
        a.ack(second)
        fill(mq, 1)
        assert take(a).value == b"0"


def test_a_pool_of_workers_does_each_job_once(mq: mqplug.Client) -> None:
    """run() with eight threads on two members handles every message once, and retries failures."""
    mq.create_topic("jobs.dead")
    ids = fill(mq, 300)
    done: list[mqplug.MessageId] = []
    failed: set[mqplug.MessageId] = set()

    def handle(message: mqplug.Message) -> None:
        number = int(message.value or b"")
        if number % 50 == 7 or (number % 10 == 3 and message.attempt == 1):
            failed.add(message.id)
            raise RuntimeError("no luck")
        done.append(message.id)

    poison = {ids[number] for number in range(300) if number % 50 == 7}
    retry = Retry(3, delay=0)
    members = [mq.consumer("jobs", group="g", mode="shared", retry=retry, dead_letter="jobs.dead") for _ in range(2)]
    threads = [threading.Thread(target=member.run, args=(handle,), kwargs={"threads": 4}) for member in members]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(done) >= 300 - len(poison) and mq.watermarks("jobs.dead")[0].count >= len(poison), 60)
    wait_until(lambda: mq.lag("jobs", group="g") == {0: 0})
    for member in members:
        member.stop()
    for thread in threads:
        thread.join(20)
    for member in members:
        member.close()
    assert sorted(done) == [each for each in ids if each not in poison]
    sources = {dict(message.headers)["mqplug-dead-source"] for message in mq.read("jobs.dead")}
    assert sources == {str(each).encode() for each in poison}


def test_a_key_is_with_one_member_at_a_time(mq: mqplug.Client) -> None:
    """In key_shared the messages of one key come in order, to one member and one thread at a time."""
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"%d" % number, key=b"k%d" % (number % 7)) for number in range(350)])
    lock, busy = threading.Lock(), set[bytes | None]()
    seen: dict[bytes | None, list[int]] = {}

    def handle(message: mqplug.Message) -> None:
        with lock:
            assert message.key not in busy
            busy.add(message.key)
        seen.setdefault(message.key, []).append(int(message.value or b""))
        with lock:
            busy.discard(message.key)

    members = [mq.consumer("jobs", group="g", mode="key_shared") for _ in range(2)]
    threads = [threading.Thread(target=member.run, args=(handle,), kwargs={"threads": 3}) for member in members]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(map(len, seen.values())) >= 350, 60)
    for member in members:
        member.stop()
    for thread in threads:
        thread.join(20)
    for member in members:
        member.close()
    assert seen == {b"k%d" % key: list(range(key, 350, 7)) for key in range(7)}


def test_a_seek_frees_everything_for_all(mq: mqplug.Client) -> None:
    """A seek of one member moves the group: every message in hand comes again, and old acks are late."""
    ids = fill(mq, 4)
    with mq.consumer("jobs", group="g", mode="shared") as a, mq.consumer("jobs", group="g", mode="shared") as b:
        mine, other = take(a), take(b)
        a.seek(EARLIEST)
        a.ack(mine)
        assert a.late_acks == 1
        b.ack(other)
        b.commit()
        assert {take(a).id for _ in ids} == set(ids)


def test_what_needs_an_order_is_unsupported(mq: mqplug.Client) -> None:
    """In shared mode, the position of a member and ack_through are unsupported."""
    fill(mq, 1)
    with mq.consumer("jobs", group="g", mode="shared") as jobs:
        message = take(jobs)
        with pytest.raises(mqplug.Unsupported):
            jobs.position()
        with pytest.raises(mqplug.Unsupported):
            jobs.ack_through(message)
        [state] = jobs.state()
        assert (state.position, state.unacked) == (None, 1)


def test_an_exclusive_group_has_one_member(mq: mqplug.Client) -> None:
    """A second member raises ConsumerBusy, and the name is free as soon as the first is closed."""
    fill(mq, 1)
    with mq.consumer("jobs", group="g", mode="exclusive") as only:
        assert take(only).value == b"0"
        with pytest.raises(mqplug.ConsumerBusy):
            mq.consumer("jobs", group="g", mode="exclusive")
    with mq.consumer("jobs", group="g", mode="exclusive") as following:
        assert take(following).value == b"0"


class Seen(ConsumerProxy):
    """A driver of a member in a shared mode, which an extension can delay and interrupt."""

    extension: Watching

    @property
    def still_holds(self) -> Callable[[], bool]:
        return self.extension.look

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        acked = any(each.acked for each in settled.values())
        if acked:
            self.extension.began.set()
            assert self.extension.go.wait(20)
        self.inner.settle(settled, timeout)
        return self.extension.late if acked else None


class Watching:
    """Reports acks of each settlement as late, and lets a test act just before a message is handed out."""

    def __init__(self) -> None:
        self.late = 0
        self.began, self.go = threading.Event(), threading.Event()
        self.before: list[Callable[[], None]] = []

    def look(self) -> bool:
        """Say that the member still holds its partitions, after the next step of the test."""
        if self.before:
            self.before.pop(0)()
        return True

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self) -> Any:
        driver = Seen((yield))
        driver.extension = self
        return driver


@pytest.fixture
def watching() -> Iterator[Watching]:
    """Delay settlements with acks until the event ``go``; they set the event ``began``."""
    made = Watching()
    yield made
    made.go.set()


@pytest.fixture
def watched(watching: Watching) -> Iterator[mqplug.Client]:
    """A client with that extension, and a topic of one partition."""
    with mqplug.connect("memory", extensions=[watching]) as client:
        client.create_topic("jobs")
        yield client


@pytest.mark.parametrize("handed_out", range(1, 4))
def test_what_was_taken_back_is_not_settled(watched: mqplug.Client, watching: Watching, handed_out: int) -> None:
    """If a pause takes the rest of a batch back, exactly the messages that were delivered and acked are settled."""
    watching.go.set()
    ids = fill(watched, 3)
    with watched.consumer("jobs", group="g", mode="shared") as jobs:
        taken = list(islice(jobs, handed_out))
        jobs.pause()
        for message in taken:
            jobs.ack(message)
        jobs.commit()
        jobs.resume()
        assert [take(jobs).id for _ in ids[handed_out:]] == ids[handed_out:]
    with watched.consumer("jobs", group="g", mode="shared") as heir:
        assert [take(heir).id for _ in ids[handed_out:]] == ids[handed_out:]
        assert heir.receive(timeout=0.05) is None


def do_nothing() -> None:
    """Let a look pass."""


@pytest.mark.parametrize("looks", range(3))
def test_a_pause_just_before_the_first_message_is_taken_settles_nothing(
    watched: mqplug.Client, watching: Watching, looks: int
) -> None:
    """A pause between fetching a message and returning it takes the message back: it is not acked, and comes later."""
    watching.go.set()
    [first, second] = fill(watched, 2)
    with watched.consumer("jobs", group="g", mode="shared") as jobs:
        jobs.ack(take(jobs))
        watching.before = [*[do_nothing] * looks, jobs.pause]
        assert jobs.receive(timeout=0.1) is None
        assert watching.before == []
        jobs.commit()
        jobs.resume()
        assert take(jobs).id == second
    with watched.consumer("jobs", group="g", mode="shared") as heir:
        assert take(heir).id == second != first


def test_a_nack_waits_for_no_commit(watched: mqplug.Client, watching: Watching) -> None:
    """A nack returns while a commit is under way, and its message comes again as soon as the commit ends."""
    ids = fill(watched, 2)
    began, go = watching.began, watching.go
    with watched.consumer("jobs", group="g", mode="shared") as jobs:
        done, failed = take(jobs), take(jobs)
        jobs.ack(done)
        commit = threading.Thread(target=jobs.commit)
        commit.start()
        assert began.wait(20)
        jobs.nack(failed, delay=0)  # without a delay of 0 it would wait forever
        assert commit.is_alive()
        go.set()
        commit.join()
        again = take(jobs)
        assert (again.id, again.attempt) == (ids[1], 2)


def test_the_background_waits_for_no_commit(
    watched: mqplug.Client, watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    """While a caller's commit is slow, the background thread does not wait for it, and logs nothing."""
    fill(watched, 2)
    with watched.consumer("jobs", group="g", mode="shared") as jobs:
        done, later = take(jobs), take(jobs)
        jobs.ack(done)
        commit = threading.Thread(target=jobs.commit)
        commit.start()
        assert watching.began.wait(20)
        jobs.ack(later)
        due = time.monotonic() + 1.2  # the background stores acks each second
        while time.monotonic() < due:
            rounds = time.monotonic()
            jobs._session.work_in_background()
            assert time.monotonic() - rounds < 1
            time.sleep(0.1)
        watching.go.set()
        commit.join()
        wait_until(lambda: watched.lag("jobs", group="g") == {0: 0})
    assert not caplog.records


def test_late_acks_of_the_driver_are_counted(watched: mqplug.Client, watching: Watching) -> None:
    """Acks that a driver reports as late are counted with the others."""
    fill(watched, 3)
    watching.late = 2
    watching.go.set()
    with watched.consumer("jobs", group="g", mode="shared") as jobs:
        for message in [take(jobs) for _ in range(3)]:
            jobs.ack(message)
        jobs.commit()
        assert jobs.late_acks == jobs.statistics().late_acks == 2

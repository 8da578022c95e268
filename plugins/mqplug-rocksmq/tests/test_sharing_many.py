"""Many members that share many keys."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from rocksmq_stores import eventually
from shared_members import GROUP, Sharer, Waiter, jobs, stored

import mqplug
from mqplug import Retry

TOPICS = {"jobs": 1}


def test_a_key_is_with_one_member(mq: mqplug.Client) -> None:
    """While a member has a message of a key, others get none of that key, and they are woken when it is free."""
    jobs(mq, 3, lambda number: b"a" if number < 2 else b"b")
    one, other = Sharer(mq, "key_shared"), Sharer(mq, "key_shared")
    assert one.take(1) == [(0, 1)]
    assert other.take(9) == [(2, 1)]
    with Waiter(other) as waiter:
        one.settle(0)
    assert waiter.got == [(1, 1)]


def test_keys_keep_their_order(mq: mqplug.Client) -> None:
    """A thousand keys on four members, with one message in ten returned: each key in order, by one member at a time."""
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


def test_eight_threads_do_each_job_once(mq: mqplug.Client) -> None:
    """Two members with four threads each, where every tenth job fails once: all jobs are done, none twice."""
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


def run(threads: int, work: Callable[[], None], done: threading.Event) -> None:
    """Let threads work until all is done, and raise their errors."""
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

"""``Consumer.run(order="key")``: keys run concurrently, each in its order, and gaps in the acks are stored."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from waiting import wait_until

import mqplug
import mqplug.aio
from mqplug import LATEST, Retry

KEYS = [b"a", b"b", b"c", b"d"]


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``jobs`` of one partition: 100 messages of four keys in turn."""
    with mqplug.connect("memory://") as client:
        client.create_topic("jobs")
        send(client, [KEYS[number % 4] for number in range(100)])
        yield client


def send(mq: mqplug.Client, keys: Sequence[bytes | None]) -> None:
    """Send a message for each key, with its number as value."""
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"%d" % number, key=key) for number, key in enumerate(keys)])


def number_of(message: mqplug.Message) -> int:
    """Return the number of a message."""
    return int(message.value or b"")


def test_keys_of_one_partition_are_handled_side_by_side(mq: mqplug.Client) -> None:
    """Four threads handle four keys of one partition at the same time, each key in its order."""
    together = threading.Barrier(4, timeout=20)
    seen: dict[bytes | None, list[int]] = defaultdict(list)

    def handle(message: mqplug.Message) -> None:
        if number_of(message) < 4:
            together.wait()
        seen[message.key].append(number_of(message))

    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        jobs.run(handle, threads=4, order="key")
    assert dict(seen) == {key: list(range(first, 100, 4)) for first, key in enumerate(KEYS)}
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_messages_without_a_key_have_no_order(mq: mqplug.Client) -> None:
    """Any two messages without a key may be handled at the same time."""
    send(mq, [None] * 8)
    together = threading.Barrier(8, timeout=20)

    def handle(message: mqplug.Message) -> None:
        if message.key is None:
            together.wait()

    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        jobs.run(handle, threads=8, order="key")
    assert not together.broken


def test_a_failed_message_holds_back_its_own_key_alone(mq: mqplug.Client) -> None:
    """While a failed message waits for its next attempt, its key waits too, and the other keys are finished."""
    others = {number for number in range(100) if number % 4}
    seen: list[tuple[int, int]] = []
    rest_done = threading.Event()

    def handle(message: mqplug.Message) -> None:
        seen.append((number_of(message), message.attempt))
        if others <= {number for number, _ in seen}:
            rest_done.set()
        if number_of(message) == 8 and not rest_done.is_set():
            raise RuntimeError("not yet")

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0.05)) as jobs:
        jobs.run(handle, threads=3, order="key")
    mine = [each for each in seen if each[0] not in others]
    tries = [attempt for number, attempt in mine if number == 8]
    assert len(tries) > 1
    assert tries == list(range(1, len(tries) + 1))
    assert [number for number, _ in mine] == [0, 4] + [8] * len(tries) + list(range(12, 100, 4))
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_what_is_done_behind_a_slow_key_is_stored_and_not_repeated(mq: mqplug.Client) -> None:
    """Messages that are acked after a slow one are stored as ranges: a crash repeats only the others."""
    release = threading.Event()
    done: list[int] = []

    def handle(message: mqplug.Message) -> None:
        if number_of(message) == 1:
            assert release.wait(20)
        done.append(number_of(message))

    jobs = mq.consumer("jobs", group="g")
    running = threading.Thread(target=jobs.run, args=(handle,), kwargs={"threads": 4, "order": "key"})
    running.start()
    wait_until(lambda: len(done) == 75)
    jobs.commit()
    stored = mq.positions("jobs", group="g")[0]
    rest = [number_of(message) for message in mq.read("jobs", start=stored.position)]
    acked = [range(first[0], last[0] + 1) for first, last in stored.acked]
    unacked = [number for number in rest if not any(number in each for each in acked)]
    assert unacked == list(range(1, 100, 4))
    jobs.stop()
    release.set()
    running.join(20)
    jobs.close()


def test_poison_goes_to_the_dead_letters_and_its_key_goes_on(mq: mqplug.Client) -> None:
    """A message that always fails becomes a dead letter, and the later ones of its key follow."""
    mq.create_topic("jobs.dead")
    seen: list[int] = []

    def handle(message: mqplug.Message) -> None:
        if number_of(message) in {4, 9}:
            raise ValueError("poison")
        seen.append(number_of(message))

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(2, delay=0), dead_letter="jobs.dead") as jobs:
        jobs.run(handle, threads=4, order="key")
    assert sorted(number_of(message) for message in mq.read("jobs.dead")) == [4, 9]
    for first in range(4):
        assert [n for n in seen if n % 4 == first] == [n for n in range(first, 100, 4) if n not in {4, 9}]
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_stop_leaves_what_no_handler_had_to_the_next_receive(mq: mqplug.Client) -> None:
    """After stop no handler begins; messages that waited for their key come again as first attempts."""
    done: list[int] = []
    with mq.consumer("jobs", group="g", until=LATEST) as jobs:

        def handle(message: mqplug.Message) -> None:
            done.append(number_of(message))
            if len(done) == 10:
                jobs.stop()

        jobs.run(handle, threads=2, order="key")
        assert 10 <= len(done) <= 12
    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        rest = [(number_of(message), message.attempt) for message in jobs]
    assert sorted(done + [number for number, _ in rest]) == list(range(100))
    assert {attempt for _, attempt in rest} == {1}


def test_a_key_with_more_messages_than_may_be_in_hand_is_finished(mq: mqplug.Client) -> None:
    """A failed message comes again even if later messages of its key fill the limit of a thousand messages in hand."""
    send(mq, [b"hot"] * (1200))
    seen: list[int] = []

    def handle(message: mqplug.Message) -> None:
        if message.key != b"hot":
            return
        if number_of(message) == 0 and message.attempt < 3:
            raise RuntimeError("not yet")
        seen.append(number_of(message))

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0.2)) as jobs:
        jobs.run(handle, threads=4, order="key")
    assert seen == list(range(1200))


def test_max_unacked_bounds_what_is_in_hand(mq: mqplug.Client) -> None:
    """With ``max_unacked=3`` a fourth message of the partition is delivered only after an ack."""
    send(mq, [None] * 20)
    at_work, most = 0, 0
    counting = threading.Lock()
    together = threading.Barrier(3, timeout=20)

    def handle(message: mqplug.Message) -> None:
        nonlocal at_work, most
        with counting:
            at_work += 1
            most = max(most, at_work)
        if 0 <= number_of(message) < 3 and message.key is None:
            together.wait()
        with counting:
            at_work -= 1

    with mq.consumer("jobs", group="g", until=LATEST, max_unacked=3) as jobs:
        jobs.run(handle, threads=16, order="key")
    assert most == 3
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_what_waits_for_its_key_is_not_handled_after_a_hand_over(mq: mqplug.Client) -> None:
    """When the partition goes to another member, messages without a handler are left to that member."""
    mq.create_topic("two", partitions=2)
    with mq.producer("two") as out:
        out.send_many([mqplug.Record(b"%d" % n, key=b"k", partition=n % 2) for n in range(20)])
    release, begun = threading.Event(), threading.Event()
    old: list[int] = []
    new: list[int] = []

    def handle(message: mqplug.Message) -> None:
        begun.set()
        assert release.wait(20)
        old.append(number_of(message))

    first = mq.consumer("two", group="g")
    running = threading.Thread(target=first.run, args=(handle,), kwargs={"threads": 2, "order": "key"})
    running.start()
    assert begun.wait(20)
    with mq.consumer("two", group="g") as second:
        wait_until(lambda: second.receive(0.05) is not None)
        lost = second.assignment()[0].partition
        second.seek(mqplug.EARLIEST)
        release.set()
        while len(new) < 10:
            message = second.receive(10)
            assert message is not None
            new.append(number_of(message))
            second.ack(message)
        wait_until(lambda: len([n for n in old if n % 2 != lost]) == 10)
        first.stop()
        running.join(20)
    first.close()
    assert new == [n for n in range(20) if n % 2 == lost]
    assert len([n for n in old if n % 2 == lost]) <= 1


def test_a_member_joins_while_all_threads_are_busy(mq: mqplug.Client) -> None:
    """Busy handlers in all threads do not delay a hand-over to a new member."""
    mq.create_topic("two", partitions=2)
    with mq.producer("two") as out:
        out.send_many([mqplug.Record(b"%d" % n, partition=n % 2) for n in range(200)])
    joined = threading.Event()
    first = mq.consumer("two", group="g")
    running = threading.Thread(target=first.run, args=(lambda message: joined.wait(0.2),))
    running.start()
    wait_until(lambda: first.statistics().received > 0)
    with mq.consumer("two", group="g") as second:
        message = second.receive(15)
        joined.set()
        assert message is not None
    first.stop()
    running.join(20)
    first.close()


def test_random_failures_keep_the_order_of_each_key(mq: mqplug.Client) -> None:
    """Whatever fails and however often, each key is handled in its order, and each message once."""
    chance = random.Random(7)
    keys = [chance.choice([b"x", b"y", b"z", None]) for _ in range(400)]
    mq.delete_topic("jobs")
    mq.create_topic("jobs", partitions=3)
    send(mq, keys)
    failures = {number: chance.randrange(3) for number in range(400) if chance.random() < 0.2}
    done: list[int] = []

    def handle(message: mqplug.Message) -> None:
        if message.attempt <= failures.get(number_of(message), 0):
            raise RuntimeError("not yet")
        done.append(number_of(message))

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0.01)) as jobs:
        jobs.run(handle, threads=8, order="key")
    assert sorted(done) == list(range(400))
    for key in (b"x", b"y", b"z"):
        mine = [number for number in done if keys[number] == key]
        assert mine == sorted(mine)
    assert set(mq.lag("jobs", group="g").values()) == {0}


@pytest.mark.parametrize(("mode", "order"), [
    ("ordered", "none"), ("key_shared", "partition"), ("shared", "key"), ("shared", "partition"),
])  # fmt: skip
def test_an_order_that_the_mode_lacks_is_refused(mq: mqplug.Client, mode: str, order: str) -> None:
    """An unknown order, and one that the mode cannot keep, raises ValueError before anything is handled."""
    with mq.consumer("jobs", group="g", mode=mode) as jobs, pytest.raises(ValueError, match=f"order.*{order}"):  # type: ignore[arg-type]
        jobs.run(print, order=order)  # type: ignore[arg-type]


def test_async_handlers_go_by_key() -> None:
    """In asyncio, too, keys run concurrently, a failed message delays only its key, and all are done once."""
    seen: list[tuple[int, int]] = []

    async def story() -> dict[int, int]:
        async with mqplug.aio.connect("memory://") as mq:
            await mq.create_topic("jobs")
            async with mq.producer("jobs") as out:
                await out.send_many([mqplug.Record(b"%d" % n, key=KEYS[n % 4]) for n in range(100)])
            together = asyncio.Barrier(4)

            async def handle(message: mqplug.Message) -> None:
                if number_of(message) < 4:
                    await asyncio.wait_for(together.wait(), 20)
                seen.append((number_of(message), message.attempt))
                if number_of(message) == 8 and message.attempt < 3:
                    raise RuntimeError("not yet")

            async with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0.05)) as jobs:
                await jobs.run(handle, concurrency=8, order="key")
            return await mq.lag("jobs", group="g")

    assert set(asyncio.run(story()).values()) == {0}
    for first in range(1, 4):
        assert [n for n, _ in seen if n % 4 == first] == list(range(first, 100, 4))
    assert [each for each in seen if each[0] % 4 == 0][:5] == [(0, 1), (4, 1), (8, 1), (8, 2), (8, 3)]


def test_async_stop_leaves_what_no_handler_had() -> None:
    """In asyncio, stop leaves messages that waited for their key to the next receive, as first attempts."""
    done: list[int] = []

    async def story() -> list[tuple[int, int]]:
        async with mqplug.aio.connect("memory://") as mq:
            await mq.create_topic("jobs")
            async with mq.producer("jobs") as out:
                await out.send_many([mqplug.Record(b"%d" % n, key=b"k") for n in range(50)])
            async with mq.consumer("jobs", group="g", until=LATEST) as jobs:

                async def handle(message: mqplug.Message) -> None:
                    done.append(number_of(message))
                    if len(done) == 5:
                        jobs.stop()

                await jobs.run(handle, concurrency=4, order="key")
            async with mq.consumer("jobs", group="g", until=LATEST) as jobs:
                return [(number_of(message), message.attempt) async for message in jobs]

    rest = asyncio.run(story())
    assert done == list(range(5))
    assert rest == [(number, 1) for number in range(5, 50)]

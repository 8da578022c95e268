"""Nacked messages: they come again, in order, and finally become dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from waiting import wait_until

import mqplug
from mqplug import EARLIEST, LATEST, Retry
from mqplug._consume.assignment import HeldPartition
from mqplug._consume.consumer import session_of


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``jobs`` of two partitions."""
    with mqplug.connect("memory") as client:
        client.create_topic("jobs", partitions=2)
        yield client


def fill(mq: mqplug.Client, count: int, partition: int = 0) -> list[mqplug.MessageId]:
    """Send this many messages to one partition."""
    with mq.producer("jobs") as out:
        return list(out.send_many([mqplug.Record(b"%d" % number, partition=partition) for number in range(count)]))


def test_a_message_that_was_given_back_comes_next_and_counts_its_attempts(mq: mqplug.Client) -> None:
    """In ordered mode, a nacked message comes next in its partition, as one more attempt each time."""
    fill(mq, 4)
    seen = []
    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        for message in jobs:
            seen.append((message.value, message.attempt))
            if message.value == b"1" and message.attempt < 3:
                jobs.nack(message, delay=0)
            else:
                jobs.ack(message)
    assert seen == [(b"0", 1), (b"1", 1), (b"1", 2), (b"1", 3), (b"2", 1), (b"3", 1)]


def test_the_other_partitions_go_on(mq: mqplug.Client) -> None:
    """A message that waits for its next attempt delays only its own partition."""
    first, _ = fill(mq, 2, partition=0)
    others = fill(mq, 3, partition=1)
    with mq.consumer("jobs", group="g") as jobs:
        got = {}
        while first not in got:
            message = jobs.receive(timeout=5)
            assert message is not None
            got[message.id] = message
        jobs.nack(got[first], delay=3600)
        while len(got) < 4:
            message = jobs.receive(timeout=5)
            assert message is not None
            got[message.id] = message
        assert set(got) == {first, *others}
        assert jobs.receive(timeout=0.2) is None
        fill(mq, 1, partition=1)
        assert jobs.receive(timeout=5).partition == 1  # type: ignore[union-attr]


def test_what_comes_after_a_delay_does_not_come_before(mq: mqplug.Client) -> None:
    """The message comes after its delay and no earlier, without a further call."""
    fill(mq, 1)
    with mq.consumer("jobs", group="g") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        begin = time.monotonic()
        jobs.nack(message, delay=0.3)
        assert jobs.receive(timeout=0) is None
        again = jobs.receive(timeout=10)
        assert again is not None
        assert again.attempt == 2
        assert time.monotonic() - begin >= 0.3


def test_two_that_were_given_back_come_in_their_order(mq: mqplug.Client) -> None:
    """The earlier of two nacked messages comes first, whichever was nacked first, and the later one after its ack."""
    fill(mq, 4)
    with mq.consumer("jobs", group="g") as jobs:
        batch = jobs.receive_many(4, timeout=5)
        jobs.nack(batch[2], delay=0)
        jobs.nack(batch[1], delay=0)
        one = jobs.receive(timeout=5)
        assert one is not None
        assert one.value == b"1"
        assert jobs.receive(timeout=0.2) is None
        jobs.ack(one)
        two = jobs.receive(timeout=5)
        assert two is not None
        assert (two.value, two.attempt) == (b"2", 2)


def test_the_first_word_on_a_message_counts(mq: mqplug.Client) -> None:
    """An ack after a nack and a nack after an ack change nothing, and are counted."""
    fill(mq, 2)
    with mq.consumer("jobs", group="g") as jobs:
        batch = jobs.receive_many(2, timeout=5)
        jobs.ack(batch[0])
        jobs.nack(batch[0], delay=0)
        jobs.nack(batch[1], delay=0)
        jobs.ack(batch[1])
        assert jobs.late_acks == 2
        again = jobs.receive(timeout=5)
        assert again is not None
        assert again.value == b"1"


def test_a_nack_is_not_an_ack(mq: mqplug.Client) -> None:
    """A message that was nacked and never acked comes to the next member, with the acks around it kept."""
    fill(mq, 4)
    with mq.consumer("jobs", group="g") as jobs:
        batch = jobs.receive_many(4, timeout=5)
        for number in (0, 2, 3):
            jobs.ack(batch[number])
        jobs.nack(batch[1], delay=3600)
        assert jobs.state()[0].blocked_by == batch[1].id
        assert jobs.position()[0].coordinates == batch[1].id.coordinates
    with mq.consumer("jobs", group="g") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        assert message.value == b"1"
        fill(mq, 1)
        later = jobs.receive(timeout=5)
        assert later is not None
        assert later.value == b"0"


def test_the_ack_of_a_second_attempt_is_stored(mq: mqplug.Client) -> None:
    """Once the nacked message is acked, the group's position moves past it."""
    ids = fill(mq, 3)
    with mq.consumer("jobs", group="g") as jobs:
        batch = jobs.receive_many(3, timeout=5)
        jobs.ack(batch[0])
        jobs.nack(batch[1], delay=0)
        jobs.ack(batch[2])
        again = jobs.receive(timeout=5)
        assert again is not None
        jobs.ack(again.id)
        jobs.commit()
        stored = jobs.committed()[0]
        assert stored is not None
        assert stored > mqplug.Position(ids[2].log, ids[2].coordinates)


def test_a_seek_forgets_what_was_given_back(mq: mqplug.Client) -> None:
    """After a seek no message waits any more, and attempts begin anew."""
    ids = fill(mq, 3)
    with mq.consumer("jobs", group="g") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        jobs.nack(message, delay=3600)
        jobs.seek(ids[1])
        after = jobs.receive(timeout=5)
        assert after is not None
        assert (after.id, after.attempt) == (ids[1], 1)


def test_dead_letters_carry_content_and_reason(mq: mqplug.Client) -> None:
    """After its last attempt a message goes to the dead-letter topic, is acked, and the partition continues."""
    mq.create_topic("jobs.dead")
    with mq.producer("jobs") as out:
        source = out.send(b"poison", key=b"k", headers=[("a", b"b")], partition=0, timestamp=1_700_000_000_000)
        out.send(b"good", partition=0)
    seen = []
    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(3, delay=0), dead_letter="jobs.dead") as jobs:
        for message in jobs:
            seen.append(message.value)
            if message.value == b"poison":
                jobs.nack(message, reason=ValueError("it does not parse"))
            else:
                jobs.ack(message)
        assert jobs.statistics().dead_lettered == 1
    assert seen == [b"poison"] * 3 + [b"good"]
    [letter] = list(mq.read("jobs.dead"))
    assert (letter.value, letter.key, letter.timestamp.timestamp()) == (b"poison", b"k", 1_700_000_000)
    assert dict(letter.headers) == {
        "a": b"b",
        "mqplug-dead-reason": b"ValueError: it does not parse",
        "mqplug-dead-source": str(source).encode(),
        "mqplug-dead-attempts": b"3",
    }
    assert mq.lag("jobs", group="g") == {0: 0, 1: 0}


def test_a_dead_letter_that_cannot_be_stored_stays_a_live_message(mq: mqplug.Client) -> None:
    """If the dead-letter topic is gone, the message comes again instead of being lost."""
    mq.create_topic("jobs.dead")
    fill(mq, 1)
    with mq.consumer("jobs", group="g", retry=Retry(1, delay=0), dead_letter="jobs.dead") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        mq.delete_topic("jobs.dead")
        jobs.nack(message)
        again = jobs.receive(timeout=10)
        assert again is not None
        assert again.id == message.id


def test_close_waits_for_dead_letters(mq: mqplug.Client) -> None:
    """A dead letter that is being sent at close is stored, and its message is acked."""
    mq.create_topic("jobs.dead")
    fill(mq, 1)
    with mq.consumer("jobs", group="g", retry=Retry(1), dead_letter="jobs.dead") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        jobs.nack(message)
    assert len(list(mq.read("jobs.dead"))) == 1
    assert mq.lag("jobs", group="g") == {0: 0, 1: 0}


def test_attempts_without_a_place_to_go_are_refused(mq: mqplug.Client) -> None:
    """A Retry with a last attempt and no dead_letter= is refused before anything is opened."""
    with pytest.raises(ValueError, match="dead_letter="):
        mq.consumer("jobs", group="g", retry=Retry(3))
    with pytest.raises(mqplug.TopicNotFound, match=r"jobs\.dead"):
        mq.consumer("jobs", group="g", retry=Retry(3), dead_letter="jobs.dead")
    with mq.consumer("jobs", group="g", retry=Retry(3), dead_letter="jobs.dead", create=True):
        assert "jobs.dead" in mq.topics()


@pytest.mark.parametrize(("delay", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_a_wrong_delay_is_refused(mq: mqplug.Client, delay: object, error: type[Exception]) -> None:
    """A delay must be a number of seconds from 0 on; a refused nack changes nothing."""
    fill(mq, 1)
    with mq.consumer("jobs", group="g") as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        with pytest.raises(error):
            jobs.nack(message, delay)  # type: ignore[arg-type]
        jobs.ack(message)
        assert jobs.late_acks == 0


def test_without_a_group_nothing_can_be_given_back(mq: mqplug.Client) -> None:
    """A consumer without a group cannot nack: Unsupported names the missing capability."""
    fill(mq, 1)
    with mq.consumer("jobs", start=EARLIEST) as jobs:
        message = jobs.receive(timeout=5)
        assert message is not None
        with pytest.raises(mqplug.Unsupported, match="without a group"):
            jobs.nack(message)


def test_the_delays_of_a_retry_grow_to_their_longest() -> None:
    """Each attempt waits ``backoff`` times as long as the previous one, and at most ``longest``."""
    retry = Retry(attempts=None, delay=1, backoff=2, longest=10)
    assert [retry.delay_after(attempt) for attempt in (1, 2, 3, 4, 5, 5000)] == [1, 2, 4, 8, 10, 10]
    assert not retry.exhausted(10**6)
    assert [Retry(2).exhausted(attempt) for attempt in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"delay": -1}, {"backoff": 0.5}, {"longest": 0}])
def test_a_retry_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    """Attempts below 1, negative delays and shrinking backoffs raise ValueError."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Retry(**wrong)  # type: ignore[arg-type]


def test_handling_acks_at_the_end_and_gives_back_on_an_error(mq: mqplug.Client) -> None:
    """An error in the block reaches the caller, and the message comes again."""
    fill(mq, 2)
    with mq.consumer("jobs", group="g", retry=Retry(None, delay=0)) as jobs:
        for attempt in (1, 2):
            message = jobs.receive(timeout=5)
            assert message is not None
            assert (message.value, message.attempt) == (b"0", attempt)
            if attempt == 1:
                with pytest.raises(KeyError), jobs.handling(message):
                    raise KeyError("broken")
            else:
                with jobs.handling(message) as same:
                    assert same is message
        jobs.commit()
        assert mq.lag("jobs", group="g")[0] == 1


def test_nacks_from_another_thread_lose_nothing(mq: mqplug.Client) -> None:
    """While one thread iterates, another nacks messages: each is acked once in the end, in order."""
    from queue import SimpleQueue
    from threading import Thread

    fill(mq, 2000)
    work: SimpleQueue[mqplug.Message | None] = SimpleQueue()
    acked: list[int] = []

    def settle(jobs: mqplug.Consumer) -> None:
        while (message := work.get()) is not None:
            number = int(message.value or b"")
            if number % 97 == 5 and message.attempt == 1:
                jobs.nack(message, delay=0)
            else:
                jobs.ack(message)
                acked.append(number)

    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        thread = Thread(target=settle, args=(jobs,))
        thread.start()
        try:
            while len(set(acked)) < 2000:
                message = jobs.receive(timeout=0.5)
                if message is not None:
                    work.put(message)
        finally:
            work.put(None)
            thread.join(10)
        assert sorted(acked) == list(range(2000))
        jobs.commit()
    assert mq.lag("jobs", group="g")[0] == 0
    wait_until(lambda: mq.lag("jobs", group="g") == {0: 0, 1: 0})


def test_a_nack_as_a_receive_finds_none_comes_again(mq: mqplug.Client) -> None:
    """A nack by another thread, just after a receive found no nacked message left, comes again."""
    fill(mq, 2)
    waiting: list[mqplug.Message] = []

    class WithNacked(set[HeldPartition]):
        """The partitions with nacked messages. A nack comes just before one is removed."""

        def discard(self, held: HeldPartition) -> None:
            if waiting:
                jobs.nack(waiting.pop(), delay=0)
            super().discard(held)

    with mq.consumer("jobs", group="g") as jobs:
        fetcher = session_of(jobs).fetcher
        fetcher._with_nacked = WithNacked()
        first = jobs.receive(timeout=5)
        assert first is not None
        jobs.nack(first, delay=0)
        again = jobs.receive(timeout=5)
        assert again is not None
        jobs.ack(again)
        second = jobs.receive(timeout=5)
        assert second is not None
        assert fetcher._with_nacked == set()
        fetcher._with_nacked.update(session_of(jobs).assignment.all)
        waiting.append(second)
        found = jobs.receive(timeout=5)
        assert found is not None
        assert (found.id, found.attempt) == (second.id, 2)

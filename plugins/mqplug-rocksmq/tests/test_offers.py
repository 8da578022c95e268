"""Offers: messages of a shared log that a member takes one by one, when its caller receives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import line, python
from shared_members import jobs
from store_faults import after_taking, offer_for

import mqplug

TOPICS = {"jobs": 1}
OPTIONS: dict[str, Any] = {"group": "workers", "mode": "shared"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let offers last, however slow the machine is."""
    offer_for(monkeypatch, 3600.0)


def got(consumer: mqplug.Consumer, count: int) -> list[tuple[bytes | None, int]]:
    """Receive messages one by one, and return their values and attempts."""
    messages = [consumer.receive(5) for _ in range(count)]
    return [(message.value, message.attempt) for message in messages if message is not None]


def test_messages_are_offered_one_by_one(mq: mqplug.Client) -> None:
    """A caller that receives one message at a time polls seldom, and gets each message once, in order."""
    jobs(mq, 250)
    with mq.consumer("jobs", **OPTIONS) as worker:
        assert got(worker, 250) == [(b"%d" % number, 1) for number in range(250)]
        assert worker.receive(0) is None
        assert worker.statistics().received == 250
        assert worker.statistics().polls < 10


def test_an_offer_keeps_nothing_from_other_members(mq: mqplug.Client) -> None:
    """Two members that receive in turn split the messages, although both were offered all of them."""
    jobs(mq, 20)
    with mq.consumer("jobs", **OPTIONS) as one, mq.consumer("jobs", **OPTIONS) as other:
        assert got(one, 3) == [(b"0", 1), (b"1", 1), (b"2", 1)]
        assert got(other, 3) == [(b"3", 1), (b"4", 1), (b"5", 1)]
        assert got(one, 2) == [(b"6", 1), (b"7", 1)]
        assert [message.value for message in other.receive_many(100, 5)] == [b"%d" % number for number in range(8, 20)]
        assert one.receive(0) is None


def test_what_was_only_offered_is_a_first_attempt(mq: mqplug.Client) -> None:
    """When a member closes, the messages it was handed out come as second attempts, and the offered ones as first."""
    jobs(mq, 6)
    with mq.consumer("jobs", **OPTIONS) as other, mq.consumer("jobs", **OPTIONS) as one:
        assert len(got(one, 3)) == 3
        one.close()
        assert sorted(got(other, 6)) == [(b"%d" % number, 2 if number < 3 else 1) for number in range(6)]


def test_a_nacked_message_comes_before_an_offer(mq: mqplug.Client) -> None:
    """A returned message that is due comes next, although later ones were offered."""
    jobs(mq, 5)
    with mq.consumer("jobs", **OPTIONS) as worker:
        got(worker, 1)
        second = worker.receive(5)
        assert second is not None
        worker.nack(second, delay=0)
        assert got(worker, 4) == [(b"1", 2), (b"2", 1), (b"3", 1), (b"4", 1)]


def test_an_offer_ends_after_a_moment(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member with slow jobs polls before each, so that no partition waits for a whole offer of another one."""
    offer_for(monkeypatch, -1.0)
    jobs(mq, 5)
    with mq.consumer("jobs", **OPTIONS) as worker:
        assert got(worker, 5) == [(b"%d" % number, 1) for number in range(5)]
        assert worker.statistics().polls >= 5


def test_max_unacked_limits_an_offer(mq: mqplug.Client) -> None:
    """No more messages are handed out than ``max_unacked`` allows."""
    jobs(mq, 10)
    with mq.consumer("jobs", max_unacked=3, **OPTIONS) as worker:
        messages = [worker.receive(5) for _ in range(3)]
        assert worker.receive(0) is None
        assert messages[0] is not None
        worker.ack(messages[0])
        worker.commit()
        assert got(worker, 1) == [(b"3", 1)]
        assert worker.receive(0) is None


def test_a_pause_and_a_seek_end_an_offer(mq: mqplug.Client) -> None:
    """Offered messages are not handed out of a paused partition, nor after a seek."""
    jobs(mq, 10)
    with mq.consumer("jobs", **OPTIONS) as worker:
        first = worker.receive(5)
        got(worker, 2)
        worker.pause()
        assert worker.receive(0) is None
        worker.resume()
        assert got(worker, 1) == [(b"3", 1)]
        assert first is not None
        worker.seek(first.id)
        assert [value for value, _ in got(worker, 2)] == [b"0", b"1"]


def test_removed_messages_of_an_offer_are_lost(mq: mqplug.Client) -> None:
    """If retention removes an offered message, the next receive raises ``PositionLost``."""
    jobs(mq, 10)
    with mq.consumer("jobs", **OPTIONS) as worker:
        got(worker, 2)
        worker.receive(5)
        mq.trim("jobs", {0: mqplug.Position(mq.partitions("jobs")[0], (5,))})
        with pytest.raises(mqplug.PositionLost):
            worker.receive(5)


@pytest.mark.parametrize("pause", [False, True], ids=["interrupt", "pause"])
def test_a_message_taken_for_a_receive_that_did_not_return_it(
    mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch, *, pause: bool
) -> None:
    """If Ctrl-C or a pause comes just after a message was taken, this member gets it next, as a first attempt."""
    jobs(mq, 5)
    with mq.consumer("jobs", **OPTIONS) as worker:

        def interrupt() -> None:
            if not pause:
                raise KeyboardInterrupt
            worker.pause()

        after_taking(monkeypatch, (3,), interrupt)
        assert got(worker, 3) == [(b"0", 1), (b"1", 1), (b"2", 1)]
        if pause:
            assert worker.receive(0) is None
            worker.resume()
        else:
            with pytest.raises(KeyboardInterrupt):
                worker.receive(5)
        assert got(worker, 2) == [(b"3", 1), (b"4", 1)]
        assert worker.receive(0) is None


KILLED = """
import mqplug
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("jobs")
with mq.producer("jobs") as out:
    out.send_many([b"%d" % number for number in range(20)])
worker = mq.consumer("jobs", group="workers", mode="shared")
for number in range(12):
    job = worker.receive(5)
    if number < 5:
        worker.ack(job)
        worker.commit()
print("ready", flush=True)
threading.Event().wait()
"""


def test_a_kill_counts_what_was_handed_out(path: Path) -> None:
    """After kill -9, messages that were handed out come as second attempts, and those only offered as first ones."""
    with python(KILLED, path) as process:
        assert line(process) == "ready"
        process.kill()
        process.wait(20)
    with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("jobs", **OPTIONS) as worker:
        assert got(worker, 15) == [(b"%d" % number, 2 if number < 12 else 1) for number in range(5, 20)]


def test_the_clock_of_an_offered_message_starts_when_it_is_handed_out(mq: mqplug.Client) -> None:
    """Messages that were offered long ago are handed out with their whole ``max_processing``."""
    jobs(mq, 4)
    with mq.consumer("jobs", max_processing=3600, **OPTIONS) as worker:
        assert len(got(worker, 2)) == 2
        shared = next(iter(_group(worker)._logs.values()))
        before = {at: each.ends for at, each in shared.leases._open.items()}
        assert set(before) == {(0,), (1,)}
        got(worker, 1)
        assert shared.leases._open[2,].ends >= max(before.values())


def _group(worker: mqplug.Consumer) -> Any:
    driver: Any = worker._session.driver_session.driver
    return driver._sharing

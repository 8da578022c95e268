"""Valid topics for dead letters, and messages that have been dead letters before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest
from checked_loops import run

import mqplug
import mqplug.aio
from mqplug import Consumer, Message, Retry

HOPS, SOURCE = "mqplug-dead-hops", "mqplug-dead-source"
OFTEN = Retry(1, delay=0, longest=0.01)


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store with a topic, and one for its dead letters."""
    with mqplug.connect("memory") as client:
        client.create_topic("jobs")
        client.create_topic("jobs.dead")
        yield client


def sent(mq: mqplug.Client, *headers: tuple[str, bytes | None]) -> None:
    """Send one message with the headers of a former dead letter."""
    with mq.producer("jobs") as out:
        out.send(b"poison", headers=headers)


def failing(stop: Callable[[], None]) -> Callable[[Message], None]:
    """Return a handler that always fails, and calls ``stop`` at its third message."""
    seen: list[Message] = []

    def handle(message: Message) -> None:
        seen.append(message)
        if len(seen) == 3:
            stop()
        raise ValueError("poison")

    return handle


def check_kept(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Check that no dead letter was sent, nothing is acked, and the log names the problem."""
    assert list(mq.read("jobs.dead")) == []
    assert mq.lag("jobs", group="g") == {0: 1}
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors
    assert "name each other's topics as dead_letter" in errors[0]
    assert HOPS in errors[0]


def test_run_keeps_what_went_round(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """With run(), a message that was a dead letter too often comes again, and the log reports it to the operator."""
    sent(mq, (HOPS, b"10"))
    with mq.consumer("jobs", group="g", retry=OFTEN, dead_letter="jobs.dead") as jobs:
        jobs.run(failing(jobs.stop))
        assert jobs.statistics().dead_lettered == 0
    check_kept(mq, caplog)


def test_an_asyncio_run_keeps_what_went_round(caplog: pytest.LogCaptureFixture) -> None:
    """The asyncio run keeps such a message as well, and the asyncio consumer refuses the same arguments."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("jobs")
            await mq.create_topic("jobs.dead")
            sent(mq.sync, (HOPS, b"10"))
            for refused in (
                mq.consumer("jobs", group="g", retry=OFTEN, dead_letter="jobs"),
                mq.consumer("jobs", group="g", dead_letter="jobs.dead"),
            ):
                with pytest.raises(ValueError, match="dead_letter="):
                    await refused
            async with mq.consumer("jobs", group="g", retry=OFTEN, dead_letter="jobs.dead") as jobs:
                fails = failing(jobs.stop)

                async def handle(message: Message) -> None:
                    await asyncio.sleep(0)
                    fails(message)

                await jobs.run(handle)
            check_kept(mq.sync, caplog)

    run(story())


@pytest.mark.parametrize(
    ("headers", "hops"),
    [
        ([], None),
        ([(SOURCE, b"m1~...")], b"2"),
        ([(HOPS, b"7")], b"8"),
        ([(HOPS, b"3"), (HOPS, b"5")], b"6"),
        ([(HOPS, b"many")], None),
        ([(HOPS, None)], None),
        ([(HOPS, b"9" * 5000)], None),
        ([(HOPS, b"-3"), (SOURCE, b"")], b"2"),
    ],
)
def test_hops_are_counted(mq: mqplug.Client, headers: list[tuple[str, bytes | None]], hops: bytes | None) -> None:
    """A dead letter has the number of times it was one, from the second time on; an invalid number is ignored."""
    sent(mq, *headers)
    with mq.consumer("jobs", group="g", retry=OFTEN, dead_letter="jobs.dead") as jobs:
        jobs.nack(received(jobs))
    [letter] = mq.read("jobs.dead")
    assert [value for name, value in letter.headers if name == HOPS] == ([hops] if hops else [])


@pytest.mark.parametrize("moment", [0, 1_700_000_000_123])
def test_a_dead_letter_keeps_its_time(mq: mqplug.Client, moment: int) -> None:
    """A dead letter has the timestamp of its message, including the first moment of 1970."""
    with mq.producer("jobs") as out:
        out.send(b"x", timestamp=moment)
    with mq.consumer("jobs", group="g", retry=OFTEN, dead_letter="jobs.dead") as jobs:
        jobs.nack(received(jobs))
    [letter] = mq.read("jobs.dead")
    assert letter.timestamp.timestamp() * 1000 == moment
    assert "mqplug-dead-timestamp" not in dict(letter.headers)


def test_what_is_kept_waits(mq: mqplug.Client) -> None:
    """Nack raises for a message that is kept, which comes again after the longest delay of the Retry."""
    sent(mq, (HOPS, b"10"))
    with mq.consumer("jobs", group="g", retry=Retry(1, delay=0, longest=3600), dead_letter="jobs.dead") as jobs:
        message = received(jobs)
        with pytest.raises(mqplug.ConfigError, match="name each other"):
            jobs.nack(message)
        assert jobs.receive(timeout=0.05) is None
        assert jobs.state()[0].waits_for == "returned"
    with mq.consumer("jobs", group="g") as jobs:
        assert received(jobs).value == b"poison"


def received(jobs: Consumer) -> Message:
    """Return the next message."""
    message = jobs.receive(timeout=5)
    assert message is not None
    return message


@pytest.mark.parametrize("topics", ["jobs", ["jobs.dead", "jobs"]])
def test_the_own_topic_is_refused_before_anything(mq: mqplug.Client, topics: str | list[str]) -> None:
    """A dead-letter topic that the consumer reads is refused, and no group is created."""
    with pytest.raises(ValueError, match=r"would come again forever. Pass another topic, such as .*'jobs\.dead'"):
        mq.consumer(topics, group="g", retry=Retry(2), dead_letter="jobs")
    assert mq.groups() == []


@pytest.mark.parametrize(("topic", "error"), [(5, TypeError), ("", mqplug.InvalidName), (["a"], TypeError)])
def test_a_dead_letter_topic_is_a_topic(mq: mqplug.Client, topic: object, error: type[Exception]) -> None:
    """An invalid name of a dead-letter topic is refused before anything is opened."""
    with pytest.raises(error):
        mq.consumer("jobs", group="g", retry=Retry(2), dead_letter=topic)  # type: ignore[arg-type]
    assert mq.groups() == []

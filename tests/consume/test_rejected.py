"""Handlers that fail: ``Reject``, and the log lines of each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from checked_loops import run

import mqplug
import mqplug.aio
from mqplug import LATEST, Reject, Retry

Handle = Callable[[mqplug.Message], None]
RETRY = Retry(3, delay=0)


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store with two messages in ``jobs``, and ``jobs.dead``."""
    with mqplug.connect("memory://rejected") as client:
        for topic in ("jobs", "jobs.dead"):
            client.create_topic(topic)
        with client.producer("jobs") as out:
            out.send_many([b"bad", b"good"])
        yield client
        for topic in client.topics():
            client.delete_topic(topic)


def work(handle: Handle, mq: mqplug.Client, *, mode: mqplug.Mode = "ordered", retry: Retry = RETRY) -> None:
    """Handle the two jobs in a thread."""
    with mq.consumer("jobs", group="g", mode=mode, retry=retry, dead_letter="jobs.dead") as jobs:

        def until_good(message: mqplug.Message) -> None:
            if message.value == b"good" or message.attempt > 5:
                jobs.stop()
            handle(message)

        jobs.run(until_good)


def work_in_loop(handle: Handle, mq: mqplug.Client, *, mode: mqplug.Mode = "ordered", retry: Retry = RETRY) -> None:
    """Handle the two jobs in an event loop."""

    async def story() -> None:
        async with (
            mqplug.aio.connect("memory://rejected") as other,
            other.consumer("jobs", group="g", mode=mode, retry=retry, dead_letter="jobs.dead") as jobs,
        ):

            async def until_good(message: mqplug.Message) -> None:
                if message.value == b"good" or message.attempt > 5:
                    jobs.stop()
                await asyncio.sleep(0)
                handle(message)

            await jobs.run(until_good)

    run(story())


both = pytest.mark.parametrize("work", [work, work_in_loop])


def dead(mq: mqplug.Client) -> list[tuple[bytes | None, str]]:
    """Return the dead letters, each with its reason."""
    return [
        (letter.value, (dict(letter.headers)["mqplug-dead-reason"] or b"").decode()) for letter in mq.read("jobs.dead")
    ]


@both
@pytest.mark.parametrize("mode", ["ordered", "shared"])
@pytest.mark.parametrize("retry", [RETRY, Retry(None, delay=60)])
def test_a_rejected_message_is_not_retried(
    mq: mqplug.Client, work: Callable[..., None], mode: str, retry: Retry
) -> None:
    """A handler that raises ``Reject`` makes its message a dead letter at once, with the reason."""
    attempts: list[tuple[bytes | None, int]] = []

    def handle(message: mqplug.Message) -> None:
        attempts.append((message.value, message.attempt))
        if message.value == b"bad":
            raise Reject("no such address")

    work(handle, mq, mode=mode, retry=retry)
    assert sorted(attempts) == [(b"bad", 1), (b"good", 1)]
    assert dead(mq) == [(b"bad", "Reject: no such address")]
    assert mq.lag("jobs", group="g") == {0: 0}


def test_a_block_and_a_nack_reject_too(mq: mqplug.Client) -> None:
    """``Reject`` means the same within ``handling`` and as the reason of a nack."""
    with mq.consumer("jobs", group="g", until=LATEST, retry=RETRY, dead_letter="jobs.dead") as jobs:
        with pytest.raises(Reject), jobs.handling(next(iter(jobs))):
            raise Reject("in a block")
        jobs.nack(next(iter(jobs)), reason=Reject("given back"))
    assert dead(mq) == [(b"bad", "Reject: in a block"), (b"good", "Reject: given back")]


def test_without_a_dead_letter_topic_it_comes_again(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Without a dead-letter topic a rejected message comes again instead of being dropped, and a log line says why."""
    seen: list[int] = []

    def handle(message: mqplug.Message) -> None:
        seen.append(message.attempt)
        if message.value == b"bad" and message.attempt < 3:
            raise Reject("no such address")

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0)) as jobs:
        jobs.run(handle)
    assert seen == [1, 2, 3, 1]
    assert "without dead_letter= it will be delivered again: Reject: no such address" in caplog.text


@both
def test_the_last_attempt_logs_the_traceback(
    mq: mqplug.Client, work: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A retried attempt is logged as one line, and the last one with its traceback."""

    def handle(message: mqplug.Message) -> None:
        if message.value == b"bad":
            raise ValueError("in\ntwo lines")

    work(handle, mq)
    records = [record for record in caplog.records if "handler" in record.getMessage()]
    assert [record.exc_info is not None for record in records] == [False, False, True]
    for record, attempt in zip(records, (1, 2, 3), strict=True):
        assert "\n" not in record.getMessage()
        assert f"at attempt {attempt}" in record.getMessage()
        assert "ValueError: in two lines" in record.getMessage()


@both
def test_without_a_last_attempt_the_first_logs_it(
    mq: mqplug.Client, work: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """If retries never end, the first attempt is logged with its traceback, and the others as one line each."""

    def handle(message: mqplug.Message) -> None:
        if message.value == b"bad" and message.attempt < 4:
            raise ValueError("not yet")

    work(handle, mq, retry=Retry(None, delay=0))
    records = [record for record in caplog.records if "handler" in record.getMessage()]
    assert [record.exc_info is not None for record in records] == [True, False, False]


@pytest.mark.parametrize("cause", [None, KeyError("customer")])
def test_a_rejected_message_is_one_line(
    mq: mqplug.Client, caplog: pytest.LogCaptureFixture, cause: Exception | None
) -> None:
    """A rejection is logged without a traceback, unless another error caused it."""

    def handle(message: mqplug.Message) -> None:
        if message.value == b"bad":
            raise Reject("no such address") from cause

    work(handle, mq)
    [record] = [record for record in caplog.records if "handler" in record.getMessage()]
    assert (record.exc_info is not None) is (cause is not None)

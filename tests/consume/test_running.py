"""``Consumer.run``: handlers on threads, and how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from waiting import wait_until

import mqplug
from mqplug import LATEST, Retry


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``jobs`` of four partitions of 100 messages each."""
    with mqplug.connect("memory") as client:
        client.create_topic("jobs", partitions=4)
        with client.producer("jobs") as out:
            out.send_many([mqplug.Record(b"%d" % number, partition=number % 4) for number in range(400)])
        yield client


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_each_partition_is_handled_in_order(mq: mqplug.Client, threads: int) -> None:
    """With any number of threads, each message is handled once, and those of one partition one after the other."""
    seen: dict[int, list[int]] = defaultdict(list)
    busy: set[int] = set()

    def handle(message: mqplug.Message) -> None:
        assert message.partition not in busy
        busy.add(message.partition)
        seen[message.partition].append(int(message.value or b""))
        busy.discard(message.partition)

    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        jobs.run(handle, threads=threads)
    assert dict(seen) == {number: list(range(number, 400, 4)) for number in range(4)}
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_partitions_are_handled_side_by_side(mq: mqplug.Client) -> None:
    """Four threads handle four partitions at the same time."""
    together = threading.Barrier(4, timeout=20)

    def handle(message: mqplug.Message) -> None:
        if int(message.value or b"") < 4:
            together.wait()

    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        jobs.run(handle, threads=4)
    assert not together.broken


def test_a_handler_that_fails_gets_the_message_again(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """A handler's error is logged, and its message comes again before the rest of its partition; all get done."""
    seen: list[tuple[int, int]] = []

    def handle(message: mqplug.Message) -> None:
        seen.append((int(message.value or b""), message.attempt))
        if message.value == b"40" and message.attempt < 3:
            raise RuntimeError("not yet")

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(None, delay=0)) as jobs:
        jobs.run(handle, threads=2)
    assert "not yet" in caplog.text
    mine = [each for each in seen if each[0] % 4 == 0]
    assert mine == [(n, 1) for n in range(0, 40, 4)] + [(40, 1), (40, 2), (40, 3)] + [(n, 1) for n in range(44, 400, 4)]
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_poison_goes_to_the_dead_letters_and_the_rest_goes_on(mq: mqplug.Client) -> None:
    """A message that always fails becomes a dead letter after its attempts."""
    mq.create_topic("jobs.dead")

    def handle(message: mqplug.Message) -> None:
        if message.value in {b"7", b"8"}:
            raise ValueError("poison")

    with mq.consumer("jobs", group="g", until=LATEST, retry=Retry(2, delay=0), dead_letter="jobs.dead") as jobs:
        jobs.run(handle, threads=4)
    assert sorted(message.value or b"" for message in mq.read("jobs.dead")) == [b"7", b"8"]
    assert set(mq.lag("jobs", group="g").values()) == {0}


def test_stop_finishes_what_is_in_hand(mq: mqplug.Client) -> None:
    """After stop no handler begins, running ones finish, their acks are stored, and the rest comes again."""
    handled: list[bytes | None] = []
    with mq.consumer("jobs", group="g") as jobs:

        def handle(message: mqplug.Message) -> None:
            if len(handled) == 10:
                jobs.stop()
            handled.append(message.value)

        jobs.run(handle, threads=2)
        begun = len(handled)
        assert 11 <= begun <= 13
        jobs.commit()
    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        rest = [message.value for message in jobs]
    assert sorted(handled + rest, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(400)]


def test_sigterm_drains(mq: mqplug.Client) -> None:
    """SIGTERM ends run after the messages in hand, and the previous signal handler is restored."""
    before = signal.getsignal(signal.SIGTERM)
    handled: list[bytes | None] = []

    def handle(message: mqplug.Message) -> None:
        handled.append(message.value)
        if len(handled) == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with mq.consumer("jobs", group="g") as jobs:
        jobs.run(handle)
        assert mq.lag("jobs", group="g") is not None
    assert 5 <= len(handled) < 400
    assert sum(mq.lag("jobs", group="g").values()) == 400 - len(handled)
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_in_run_ends_it_and_goes_on_to_the_caller(mq: mqplug.Client) -> None:
    """KeyboardInterrupt in the receiving thread stops the handlers, and is raised when they are done."""
    with mq.consumer("jobs", group="g", start=LATEST) as jobs:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            jobs.run(lambda message: None, threads=2)
        timer.join()


def test_what_is_no_exception_ends_run(mq: mqplug.Client) -> None:
    """A SystemExit in a handler is neither swallowed nor counted as a failed message: run raises it."""

    def handle(message: mqplug.Message) -> None:
        raise SystemExit(3)

    with mq.consumer("jobs", group="g") as jobs, pytest.raises(SystemExit):
        jobs.run(handle)
    with mq.consumer("jobs", group="g", until=LATEST) as jobs:
        assert len(list(jobs)) == 400


def test_close_from_another_thread_ends_run(mq: mqplug.Client) -> None:
    """A close of the consumer in another thread ends run without an error."""
    jobs = mq.consumer("jobs", group="g", start=LATEST)
    running = threading.Thread(target=jobs.run, args=(lambda message: None,))
    running.start()
    wait_until(lambda: jobs._session.driver_session.lock.busy)
    jobs.close()
    running.join(10)
    assert not running.is_alive()


@pytest.mark.parametrize(("handler", "threads", "error"), [
    (None, 1, TypeError), (print, 0, ValueError), (print, 1.5, TypeError), (print, True, TypeError),
])  # fmt: skip
def test_wrong_arguments_are_refused(
    mq: mqplug.Client, handler: object, threads: object, error: type[Exception]
) -> None:
    """The handler must be callable, and the number of threads at least one."""
    with mq.consumer("jobs", group="g") as jobs, pytest.raises(error):
        jobs.run(handler, threads=threads)  # type: ignore[arg-type]


def test_threads_that_swap_their_tasks_keep_the_order_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """In key_shared the messages of a key are handled in order, whichever thread begins first."""
    held: list[tuple[Any, ...]] = []
    submit = ThreadPoolExecutor.submit

    def swapping(*task: Any) -> Any:
        """Begin every second task after the following one."""
        if held:
            return submit(*task)
        held.append(task)
        threading.Timer(0.05, lambda: submit(*held.pop())).start()
        return Future()

    monkeypatch.setattr(ThreadPoolExecutor, "submit", swapping)
    seen: list[bytes | None] = []
    with mqplug.connect("memory") as mq:
        mq.create_topic("jobs")
        with mq.producer("jobs") as out:
            out.send_many([mqplug.Record(b"%d" % number, key=b"k") for number in range(20)])
        with mq.consumer("jobs", group="g", mode="key_shared") as jobs:

            def handle(message: mqplug.Message) -> None:
                seen.append(message.value)
                if len(seen) == 20:
                    jobs.stop()

            jobs.run(handle, threads=4)
    assert seen == [b"%d" % number for number in range(20)]

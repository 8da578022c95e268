"""``produce`` and ``consume`` as processes over RocksMQ: endless pipes, signals, terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from waiting import wait_until

import mqplug

MQPLUG = [sys.executable, "-m", "mqplug_cli"]
PIPE = subprocess.PIPE


@pytest.fixture
def store(tmp_path):
    """The URL and a client of a RocksMQ store with the topic "orders", which processes open through this one."""
    url = f"rocksmq://{tmp_path}/store"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders")
        yield url, mq


@contextmanager
def running(*arguments, **streams):
    """A process of a verb, which is killed if it does not end."""
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE} | streams
    with subprocess.Popen([*MQPLUG, *arguments], **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def values(mq):
    """Return the values in the topic."""
    return [message.value for message in mq.read("orders")]


def test_a_line_is_sent_while_the_pipe_is_open(store):
    """A written line becomes a message at once, although no more follow."""
    url, mq = store
    with running("produce", url, "orders") as process:
        for number in range(2):
            process.stdin.write(b"%d\nhalf" % number)
            process.stdin.flush()
            wait_until(lambda count=number + 1: len(values(mq)) == count)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"stored 3 messages\n")
    assert values(mq) == [b"0", b"half1", b"half"]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_read_before_a_signal_is_stored_and_said(store, sent, code):
    """Ctrl-C and SIGTERM end produce after its input was stored, and it reports how much that was."""
    url, mq = store
    with running("produce", url, "orders") as process:
        process.stdin.write(b"one\ntwo\nhalf")
        process.stdin.flush()
        wait_until(lambda: values(mq) == [b"one", b"two"])
        process.send_signal(sent)
        assert (process.wait(20), process.stderr.read().strip()) == (code, b"stored 2 messages")
    assert values(mq) == [b"one", b"two"]


def test_a_typed_line_is_sent_at_once(store):
    """On a terminal each line is sent as it is typed, and Ctrl-D ends the input."""
    url, mq = store
    ours, theirs = os.openpty()
    with running("produce", url, "orders", stdin=theirs, stderr=PIPE) as process:
        os.close(theirs)
        os.write(ours, b"typed\n")
        wait_until(lambda: values(mq) == [b"typed"])
        os.write(ours, b"\x04")
        _, said = process.communicate(timeout=20)
    os.close(ours)
    assert (process.returncode, said) == (0, b"stored 1 message\n")


def test_follow_writes_what_comes(store):
    """With --follow, from the end on, a message is written as soon as it is stored; Ctrl-C exits with 130."""
    url, mq = store
    with mq.producer("orders") as out, running("consume", url, "orders", "--follow", "--from", "-1") as process:
        out.send(b"before")
        assert process.stdout.readline() == b"before\n"
        out.send(b"after")
        assert process.stdout.readline() == b"after\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read().strip()) == (130, b"")


def test_a_reader_that_ends_ends_consume(store):
    """When its output is closed, consume exits silently with 141, even while no message comes."""
    url, mq = store
    with mq.producer("orders") as out:
        out.send_many([b"x" * 100] * 50_000)
    for more in ([], ["--follow", "--from", "-1"]):
        with running("consume", url, "orders", *more) as process:
            assert process.stdout.readline() == b"x" * 100 + b"\n"
            process.stdout.close()
            assert (process.wait(20), process.stderr.read()) == (141, b"")


def test_a_killed_group_member_loses_nothing(store):
    """After kill -9, the output of the killed process and of the next one together contain every message."""
    url, mq = store
    with mq.producer("orders") as out:
        out.send_many([b"%06d" % number for number in range(60_000)])
    with running("consume", url, "orders", "--group", "billing") as process:
        first = [process.stdout.readline() for _ in range(1000)]
        process.kill()
        first += process.stdout.readlines()
    done = subprocess.run(
        [*MQPLUG, "consume", url, "orders", "--group", "billing"], stdout=PIPE, check=True, timeout=60
    )
    second = done.stdout.splitlines(keepends=True)
    assert len({each for each in first + second if each.endswith(b"\n")}) == 60_000
    assert second == sorted(second)


def test_progress_is_for_terminals(store):
    """A run of more than two seconds shows no progress on a standard error that is no terminal."""
    url, _ = store
    options = ["--count", "6", "--value", "x", "--rate", "2"]
    done = subprocess.run([*MQPLUG, "produce", url, "orders", *options], stderr=PIPE, check=True, timeout=60)
    assert done.stderr == b"stored 6 messages\n"

"""Partitions that are revoked while the broker does not answer, or while requests fail."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

import pytest
from core_waits import set_core_wait
from kafka_driver import new_name, take
from kafka_faults import REVOKE_TIMEOUT_S, change, set_wait

import mqplug

COUNT = 2000


class HandOver:
    """Two members: the first has all partitions, and the broker freezes when it has to give one up."""

    def __init__(self, server, monkeypatch):
        self.server = server
        self.topic, self.group = new_name(), new_name()
        self.frozen = threading.Event()
        self.mq = mqplug.connect("kafka", servers=[server.bootstrap], session_timeout=60)
        self.mq.create_topic(self.topic, partitions=2)
        with self.mq.producer(self.topic) as out:
            self.sent = out.send_many([mqplug.Record(b"%d" % number, partition=number % 2) for number in range(COUNT)])
        self.first = self.mq.consumer(self.topic, group=self.group, on_revoked=lambda logs: self.revoking.set())
        self.revoking = threading.Event()

        def freeze_first(commit, committer, offsets, timeout):
            if self.revoking.is_set() and not self.frozen.is_set():
                server.pause()
                self.frozen.set()
            commit(committer, offsets, timeout)

        change(monkeypatch, "commit of a group", freeze_first)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.unpause()
        self.mq.close()

    def begin(self):
        """Receive all messages, let a second member join, and ack one by one until the broker freezes.

        At any time, some acks are not stored yet. The on_revoked callback has returned by then.
        """
        messages = take(self.first, COUNT)
        self.second = self.mq.consumer(self.topic, group=self.group)
        self.acked, self.unacked = [], messages[::-1]
        end = time.monotonic() + 60
        while not self.frozen.is_set() and time.monotonic() < end:
            for _ in range(2):
                self.first.ack(self.unacked[-1])
                self.acked.append(self.unacked.pop())
            with suppress(mqplug.Timeout):
                self.first.receive(timeout=0.05)
        assert self.frozen.is_set()


@pytest.fixture
def case(kafka_server, monkeypatch):
    """A group whose partitions are about to be revoked."""
    with HandOver(kafka_server, monkeypatch) as made:
        yield made


@pytest.mark.disturbs
def test_a_revoke_ends_while_the_broker_is_silent(case):
    """Revoking ends in time at a silent broker; then unacked messages are delivered again, and acked ones are not."""
    began = time.monotonic()
    case.begin()
    assert time.monotonic() - began < 50  # less than the minute that librdkafka's call waits
    held = case.first.assignment()
    assert len(held) == 1
    late = [message for message in case.unacked if message.id.log not in held]
    for message in late:
        case.first.ack(message)
    assert case.first.statistics().late_acks == len(late) > 0
    case.server.unpause()
    again = []
    end = time.monotonic() + 60
    while len(again) < len(case.unacked) and time.monotonic() < end:
        if case.second.assignment():
            case.first.close()
        else:
            with suppress(mqplug.Timeout):
                assert case.first.receive(timeout=0.05) is None
        again += case.second.receive_many(1000, timeout=0.1).ids
    assert sorted(map(str, again)) == sorted(str(message.id) for message in case.unacked)


@pytest.mark.disturbs
def test_ctrl_c_ends_a_revoke(case, monkeypatch):
    """Ctrl-C interrupts a caller whose member waits for a silent broker to store the acks of revoked partitions."""
    set_wait(monkeypatch, "revoke", 1000.0)

    def interrupt():
        assert case.frozen.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        case.begin()
    thread.join()


@pytest.mark.disturbs
@pytest.mark.filterwarnings("ignore:closing a consumer:ResourceWarning")  # librdkafka waits for the broker
def test_close_ends_a_member_that_revokes(case):
    """Closing a member ends in time while it waits for a silent broker to store the acks of revoked partitions."""

    def close():
        assert case.frozen.wait(60)
        with suppress(mqplug.CloseIncomplete):  # the acks of the partition that stays
            case.first.close(timeout=8)

    thread = threading.Thread(target=close)
    thread.start()
    with suppress(mqplug.Closed):
        case.begin()
    thread.join(50)
    assert not thread.is_alive()


def test_a_member_that_failed_to_take_a_new_topic_tries_again(mq, monkeypatch):
    """If looking up a new partition's position fails, the next poll tries again and stores its start."""
    old, new, group = new_name(), new_name(), new_name()
    mq.create_topic(old)
    mq.create_topic(new)
    failures = []

    def fail_once(ask, connection, name, logs, timeout):
        if not failures and any(log.topic == new for log in logs):
            failures.append(mqplug.Timeout("the coordinator was away"))
            raise failures[0]
        return ask(connection, name, logs, timeout)

    change(monkeypatch, "positions of a member", fail_once)
    with mq.consumer(old, group=group) as first:
        first.receive(timeout=0.5)
        with mq.consumer(new, group=group) as second:
            end = time.monotonic() + 30
            while not second.assignment() and time.monotonic() < end:
                first.receive(timeout=0.05)
                with suppress(mqplug.Timeout):
                    second.receive(timeout=0.05)
            assert [log.topic for log in second.assignment()] == [new]
    assert len(failures) == 1
    assert mq.lag(new, group=group) == {0: 0}


def test_a_close_tells_that_a_hand_over_stored_nothing(mq, monkeypatch):
    """If acks of a revoked partition could not be stored and no receive followed, close raises CloseIncomplete."""
    topic, group = new_name(), new_name()
    mq.create_topic(topic, partitions=2)
    with mq.producer(topic) as out:
        out.send_many([mqplug.Record(b"x", partition=number % 2) for number in range(10)])
    refused = threading.Event()

    def refuse_once(commit, member, positions, timeout):
        if timeout == REVOKE_TIMEOUT_S and not refused.is_set():
            refused.set()
            raise mqplug.Timeout("no broker answers")
        commit(member, positions, timeout)

    first = mq.consumer(topic, group=group)
    messages = take(first, 10)
    # Only revoking stores these acks.
    set_core_wait(monkeypatch, "commit in the background", 1000.0)
    for message in messages:
        first.ack(message)
    change(monkeypatch, "commit of a member", refuse_once)
    with mq.consumer(topic, group=group) as second:
        end = time.monotonic() + 60
        while not refused.is_set() and time.monotonic() < end:
            second.receive(0.05)
        assert refused.is_set()
        with pytest.raises(mqplug.CloseIncomplete, match="handed over"):
            first.close()

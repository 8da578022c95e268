"""Queries about groups: what they cost, what they survive, and which calls they must avoid."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka_driver import administer, fill, new_name, take

import mqplug
import mqplug_kafka
from mqplug import spi

RESTARTS = int(os.environ.get("MQPLUG_RESTARTS", "1"))
MOVES = int(os.environ.get("MQPLUG_COORDINATOR_MOVES", "1"))
GROUP_CLIENT_PROGRAM = Path(__file__).with_name("group_client_program.py")
PATIENCE = 120.0  # seconds for one round after a restart, even on a busy machine


class Questioner:
    """A process that repeats its role, and threads that count its rounds and errors."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.rounds = 0
        self.process = subprocess.Popen(
            [sys.executable, str(GROUP_CLIENT_PROGRAM), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._errors = []
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._count, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def _count(self):
        for _ in self.process.stdout:
            self.rounds += 1

    def _read_errors(self):
        self._errors += self.process.stderr

    @property
    def said(self):
        """The end of its error output."""
        return "".join(self._errors)[-2000:]

    def check(self):
        """Assert that it is alive; a negative code is the signal that killed it."""
        code = self.process.poll()
        assert code is None, f"{self.arguments[0]} ended with {code}: {self.said}"

    def go_on(self):
        """Wait until it has completed one more whole round."""
        wanted, end = self.rounds + 2, time.monotonic() + PATIENCE
        while self.rounds < wanted:
            self.check()
            assert time.monotonic() < end, f"{self.arguments[0]} does not go on: {self.said}"
            time.sleep(0.02)

    def give_up(self):
        """Wait until it has run out of time twice."""
        wanted, end = len(self._errors) + 2, time.monotonic() + PATIENCE
        while len(self._errors) < wanted:
            self.check()
            assert time.monotonic() < end, f"{self.arguments[0]} does not give up: {self.said}"
            time.sleep(0.02)

    def end(self):
        """Close its input and assert that it ends without an error."""
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.said


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(120 + 60 * RESTARTS)
def test_restarts_of_the_broker_kill_nobody(kafka_server, mq):
    """Processes that join, query or move groups survive each restart of the broker and continue."""
    topic, group = new_name(), new_name()
    mq.create_topic(topic, partitions=4)
    fill(mq, topic, 1000)
    mq.reset_group(group, topic, mqplug.EARLIEST)
    with ExitStack() as stack:
        roles = ["member", "member", "lag", "groups", "description", "mover"]
        all_of_them = [stack.enter_context(Questioner(role, kafka_server.url, topic, group)) for role in roles]
        for number in range(RESTARTS + 1):
            for each in all_of_them:
                each.go_on()
            if number < RESTARTS:
                kafka_server.restart()
        for each in all_of_them:
            each.end()


@pytest.mark.night
@pytest.mark.timeout(180 + 60 * MOVES)
def test_moves_of_the_coordinator_kill_nobody(kafka_cluster):
    """A group's member and a process that queries it continue while its coordinator moves from node to node."""
    topic, group = new_name(), new_name()
    with mqplug.connect(kafka_cluster.url) as mq:
        mq.create_topic(topic, partitions=4)
        fill(mq, topic, 1000)
        mq.reset_group(group, topic, mqplug.EARLIEST)
    with ExitStack() as stack:
        roles = ["questions", "member"]
        all_of_them = [stack.enter_context(Questioner(role, kafka_cluster.url, topic, group)) for role in roles]
        for number in range(MOVES):
            for each in all_of_them:
                each.go_on()
            before = kafka_cluster.coordinator(group)
            # A clean stop hands the group over while it answers; a kill leaves queries unanswered.
            leave = kafka_cluster.stop if number % 2 == 0 else kafka_cluster.kill
            leave(before)
            assert kafka_cluster.coordinator(group) != before
            for each in all_of_them:
                each.go_on()
            kafka_cluster.start(before)
        for each in all_of_them:
            each.go_on()
            each.end()


@pytest.mark.disturbs
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.night)])
def test_what_got_no_answer_kills_nobody(kafka_server, mq, topic, times):
    """A process that gave up moving, deleting or describing a group at a paused broker continues afterwards."""
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    with ExitStack() as stack:
        roles = ["impatient", "hasty"]
        both = [stack.enter_context(Questioner(role, kafka_server.url, topic, group)) for role in roles]
        for _ in range(times):
            for each in both:
                each.go_on()
            kafka_server.pause()
            try:
                for each in both:
                    each.give_up()
            finally:
                kafka_server.unpause()
        for each in both:
            each.go_on()
            each.end()


def test_calls_that_crash_are_not_used():
    """No module asks the admin client for stored offsets (librdkafka issue 5040). Only one describes groups with it.

    That one never lets such a request time out (issue 4605). None calls ``describe_cluster``: it ends the process if a
    starting broker knows of no broker.
    """
    sources = list(Path(mqplug_kafka.__file__).parent.rglob("*.py"))
    assert sources
    for source in sources:
        names = {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(ast.parse(source.read_text()))}
        assert not {"list_consumer_group_offsets", "describe_cluster"} & names, source.name
        assert "describe_consumer_groups" not in names or source.name == "coordinators.py", source.name


def test_few_connections_are_kept_for_many_groups(mq, topic):
    """Queries about many groups keep at most eight idle consumers, and closing the client closes them all."""
    names = [new_name() for _ in range(12)]
    for name in names:
        mq.reset_group(name, topic, mqplug.LATEST)
    listed = {each.name for each in mq.groups(topic)}
    assert listed == set(names)
    kept = mq._connection.group_offsets._idle
    assert 0 < len(kept) <= 8
    mq.close()
    assert not mq._connection.group_offsets._idle


def test_a_question_leaves_no_trace(mq, topic):
    """Querying a group neither joins it nor creates it."""
    group = new_name()
    log = mq.partitions(topic)[0]
    assert administer(mq, spi.DescribeGroup(group, (log,))) == {}
    assert group not in {each.name for each in mq.groups()}
    mq.reset_group(group, topic, mqplug.EARLIEST)
    assert [each.members for each in mq.groups(topic) if each.name == group] == [0]


@pytest.mark.disturbs
def test_questions_go_on_after_an_outage(kafka_server, mq, topic):
    """A query is answered after a restart, although the idle consumer kept for it has lost its connection."""
    fill(mq, topic, 3)
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    assert mq.lag(topic, group=group) == {0: 3}
    kafka_server.restart()
    assert mq.lag(topic, group=group, timeout=60) == {0: 3}
    assert group in {each.name for each in mq.groups(topic, timeout=60)}


@pytest.mark.disturbs
def test_a_question_is_bounded(kafka_server, mq, topic):
    """While the broker is silent a query ends near its timeout, and Ctrl-C ends it earlier."""
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    log = mq.partitions(topic)[0]
    kafka_server.pause()
    try:
        began = time.monotonic()
        with pytest.raises((mqplug.Timeout, mqplug.ConnectError)):
            mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroup(group, (log,)), 1.0)
        assert time.monotonic() - began < 20  # less than the minute of a librdkafka request
        began = time.monotonic()
        _interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroup(group, (log,)), 60.0)
        assert time.monotonic() - began < 20
    finally:
        kafka_server.unpause()
    assert administer(mq, spi.DescribeGroup(group, (log,)))[log].position.coordinates == (0,)


def _interrupt_soon():
    import _thread

    threading.Timer(0.3, _thread.interrupt_main).start()


def test_acks_of_single_messages_come_back_with_the_position(mq, topic):
    """Messages acked out of order are reported with the group's position, and are not delivered again."""
    sent = fill(mq, topic, 6)
    group = new_name()
    with mq.consumer(topic, group=group) as consumer:
        taken = take(consumer, 6)
        for index in (0, 2, 4):
            consumer.ack(taken[index])
    stored = mq.positions(topic, group=group)[0]
    assert stored.position.coordinates == (1,)
    assert list(stored.acked) == [((2,), (2,)), ((4,), (4,))]
    with mq.consumer(topic, group=group) as consumer:
        assert [m.id for m in take(consumer, 3)] == [sent[1], sent[3], sent[5]]

"""Asking where groups stand: what it costs, what it survives, and what must not be called for it."""

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
from mqplug_kafka._cluster import coordinators

RESTARTS = int(os.environ.get("MQPLUG_RESTARTS", "1"))
MOVES = int(os.environ.get("MQPLUG_COORDINATOR_MOVES", "1"))
GROUP_CLIENT_PROGRAM = Path(__file__).with_name("group_client_program.py")
PATIENCE = 120.0  # seconds that a process has for one round after a restart, on however busy a machine


class Questioner:
    """A process that goes round and round, and a thread that counts its rounds."""

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
        """The end of what it wrote about errors."""
        return "".join(self._errors)[-2000:]

    def check(self):
        """It is alive; a negative code is the signal that killed it."""
        code = self.process.poll()
        assert code is None, f"{self.arguments[0]} ended with {code}: {self.said}"

    def go_on(self):
        """See it through one more whole round."""
        wanted, end = self.rounds + 2, time.monotonic() + PATIENCE
        while self.rounds < wanted:
            self.check()
            assert time.monotonic() < end, f"{self.arguments[0]} does not go on: {self.said}"
            time.sleep(0.02)

    def give_up(self):
        """See it run out of time twice."""
        wanted, end = len(self._errors) + 2, time.monotonic() + PATIENCE
        while len(self._errors) < wanted:
            self.check()
            assert time.monotonic() < end, f"{self.arguments[0]} does not give up: {self.said}"
            time.sleep(0.02)

    def end(self):
        """It ends well when it is told to."""
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.said


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(120 + 60 * RESTARTS)
def test_restarts_of_the_broker_kill_nobody(kafka_server, mq):
    """Members, questions about groups and who moves groups, in processes of their own, go on after each restart."""
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
    """While a group's coordinator moves from node to node, who asks about the group, or is in it, goes on."""
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
            # A clean stop hands the group over while it answers; a killed one leaves questions open.
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
    """Who gave up moving, forgetting or describing a group, while the broker was away, lives on when it is back."""
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
    """No module asks the admin client for stored offsets (librdkafka issue 5040). One alone describes groups by it.

    It never lets such a request time out (issue 4605). ``describe_cluster`` is not used: it ends the process if a
    broker that is starting knows of no broker.
    """
    sources = list(Path(mqplug_kafka.__file__).parent.rglob("*.py"))
    assert sources
    for source in sources:
        names = {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(ast.parse(source.read_text()))}
        assert not {"list_consumer_group_offsets", "describe_cluster"} & names, source.name
        assert "describe_consumer_groups" not in names or source.name == "coordinators.py", source.name


def test_few_connections_are_kept_for_many_groups(mq, topic):
    """However many groups are asked about, few consumers wait for the next question, and a close ends them all."""
    names = [new_name() for _ in range(coordinators.MAX_IDLE_CONSUMERS + 4)]
    for name in names:
        mq.reset_group(name, topic, mqplug.LATEST)
    listed = {each.name for each in mq.groups(topic)}
    assert listed == set(names)
    kept = mq._connection.group_offsets._idle
    assert 0 < len(kept) <= coordinators.MAX_IDLE_CONSUMERS
    mq.close()
    assert not mq._connection.group_offsets._idle


def test_a_question_leaves_no_trace(mq, topic):
    """Whoever asks about a group is no member of it, and asking makes no group."""
    group = new_name()
    log = mq.partitions(topic)[0]
    assert administer(mq, spi.DescribeGroup(group, (log,))) == {}
    assert group not in {each.name for each in mq.groups()}
    mq.reset_group(group, topic, mqplug.EARLIEST)
    assert [each.members for each in mq.groups(topic) if each.name == group] == [0]


@pytest.mark.disturbs
def test_questions_go_on_after_an_outage(kafka_server, mq, topic):
    """A consumer that is kept for the next question, and missed the broker's restart, does not keep the answer away."""
    fill(mq, topic, 3)
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    assert mq.lag(topic, group=group) == {0: 3}
    kafka_server.restart()
    assert mq.lag(topic, group=group, timeout=60) == {0: 3}
    assert group in {each.name for each in mq.groups(topic, timeout=60)}


@pytest.mark.disturbs
def test_a_question_is_bounded(kafka_server, mq, topic):
    """While the broker is silent a question ends in its own time, and Ctrl-C need not wait for it."""
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    log = mq.partitions(topic)[0]
    kafka_server.pause()
    try:
        began = time.monotonic()
        with pytest.raises((mqplug.Timeout, mqplug.ConnectError)):
            mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroup(group, (log,)), 1.0)
        assert time.monotonic() - began < 20  # and not the minute of a native request
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
    """What a member acked out of order is told, and is not delivered again."""
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

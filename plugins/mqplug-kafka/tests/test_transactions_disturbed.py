"""Transactions while brokers and programs are killed, frozen and interrupted: atomic and bounded in time."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from kafka_driver import fill, new_name
from kafka_faults import change, set_wait, unsettled_positions
from transaction_seam import Holder, values
from transforming_program import step as transform

import mqplug
import mqplug_kafka
from mqplug import spi

TRANSFORMING_PROGRAM = Path(__file__).with_name("transforming_program.py")
RETRIED = (
    mqplug.NotCommitted, mqplug.OutcomeUnknown, mqplug.SendFailed, mqplug.Timeout, mqplug.ConnectError,
    mqplug.NotAssigned,
)  # fmt: skip


def transformed(mq, topic, target, group, name, meanwhile=None):
    """Run steps until the group has no messages left. Start the given thread after the first step."""
    with mq.consumer(topic, group=group) as consumer:
        while not transform(mq, consumer, target, name):
            pass
        if meanwhile is None:
            transform_rest(mq, consumer, topic, target, group, name)
            return
        meanwhile.start()
        try:
            transform_rest(mq, consumer, topic, target, group, name)
        finally:
            meanwhile.join()


def transform_rest(mq, consumer, topic, target, group, name, seconds=120):
    """Run steps, and repeat failed ones, until the group has no messages left."""
    end = time.monotonic() + seconds
    failures = []
    while time.monotonic() < end:
        try:
            if not transform(mq, consumer, target, name) and mq.lag(topic, group=group, timeout=10) == {0: 0}:
                return
        except RETRIED as error:
            failures.append(str(error))
    check_ends_are_known(mq, topic, group, name)
    raise AssertionError(f"the group has messages left; steps failed with {failures}")


def check_ends_are_known(mq, topic, group, name):
    """Mark the test xfail if the broker lost the end of a transaction, which then blocks the group's positions forever.

    Kafka 4 fails to write it to a partition whose only replica is down at the moment of the commit (KAFKA-20734). No
    transaction of the name is open by then, because another client claims the name first.
    """
    (log,) = mq.partitions(topic)
    with mqplug.connect("kafka", servers=mq._connection.settings.servers) as other, Holder(other, name):
        unsettled_positions(other, group, [log])
        try:
            mqplug_kafka.mqplug_administer(other._connection, spi.DescribeGroup(group, (log,)), 10)
        except mqplug.Timeout as error:
            pytest.xfail(f"the broker lost the end of a transaction: {error}")


def restart(server):
    """Stop the broker cleanly and start it again."""
    server.restart()


def kill(server):
    """Kill the broker and start it again."""
    server.kill()
    server.start()


def freeze(server):
    """Freeze the broker for four seconds."""
    server.pause()
    time.sleep(4)
    server.unpause()


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.night)])
@pytest.mark.parametrize(
    "disturb", [kill, *(pytest.param(each, marks=pytest.mark.night) for each in (restart, freeze))]
)
def test_a_broker_that_goes_away_splits_no_step(kafka_server, telling, disturb, times):
    """Each message is transformed exactly once while the broker fails in the middle of steps."""
    topic, target, group, name = (new_name() for _ in range(4))

    def disturbances():
        for _ in range(times):
            time.sleep(0.1)
            disturb(kafka_server)

    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], session_timeout=3.0, librdkafka=telling) as mq:
        for each in (topic, target):
            mq.create_topic(each)
        fill(mq, topic, 100)
        transformed(mq, topic, target, group, name, threading.Thread(target=disturbances))
        fill(mq, topic, 10, prefix="later")
        transformed(mq, topic, target, group, name)
        assert values(mq, target) == values(mq, topic)


@pytest.mark.disturbs
def test_positions_are_stored_after_all_brokers_were_away(kafka_server, mq, topic):
    """After all brokers were down a step commits, although librdkafka first waits for the old group coordinator."""
    with Holder(mq, new_name()) as holder:
        holder.begin(topic, 1)
        holder.commit()
        assert holder.begin(topic, 1) is True  # the broker has finished the commit: an earlier kill may lose its end
        holder.driver.abort(30)
        kill(kafka_server)
        holder.begin(topic, 2)
        holder.commit()
        assert holder.begin(topic, 2) is True
        holder.driver.abort(30)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "point", ["stored", *(pytest.param(each, marks=pytest.mark.night) for each in ("delivered", "ended"))]
)
def test_a_program_that_is_killed_in_its_commit_splits_no_step(kafka_server, mq, point):
    """A program killed at any point of its commit leaves a whole step or nothing; its successor does the rest."""
    topic, target, group, name = (new_name() for _ in range(4))
    for each in (topic, target):
        mq.create_topic(each)
    fill(mq, topic, 20)
    arguments = [sys.executable, str(TRANSFORMING_PROGRAM), point, f"{kafka_server.url}?session_timeout=3"]
    with subprocess.Popen([*arguments, topic, target, group, name], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline().strip() == point
        program.kill()
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], session_timeout=3.0) as later:
        transformed(later, topic, target, group, name)
    assert values(mq, target) == values(mq, topic)


@pytest.mark.disturbs
def test_an_unknown_commit_is_found_out_by_the_next_begin(kafka_server, mq, topic, monkeypatch):
    """A commit without an answer raises OutcomeUnknown in time; the next ``begin`` waits until its outcome is known."""

    def commit_in_silence(commit, client):
        kafka_server.pause()
        return commit(client)

    with Holder(mq, new_name()) as holder:
        holder.begin(topic, 1)
        sent = holder.send(topic, b"a")
        change(monkeypatch, "commit of a transaction", commit_in_silence)
        try:
            with pytest.raises(mqplug.OutcomeUnknown):
                holder.commit(timeout=1)
            assert isinstance(sent[0].outcome, mqplug.OutcomeUnknown)
            with pytest.raises(mqplug.Timeout):
                holder.begin(topic, 1, timeout=0.5)
        finally:
            monkeypatch.undo()
            kafka_server.unpause()
        assert holder.begin(topic, 1) is True
        holder.driver.abort(30)
    assert values(mq, topic) == [b"a"]


@pytest.mark.disturbs
def test_records_that_get_no_answer_are_not_committed(kafka_server, mq, topic):
    """A commit whose records are not confirmed in time raises NotCommitted, and the next one succeeds."""
    with Holder(mq, new_name()) as holder:
        holder.begin()
        holder.send(topic, b"first")
        holder.commit()
        holder.begin()
        kafka_server.pause()
        try:
            sent = holder.send(topic, b"late")
            with pytest.raises(mqplug.NotCommitted, match="not confirmed"):
                holder.commit(timeout=1)
            assert isinstance(sent[0].outcome, mqplug.NotCommitted)
        finally:
            kafka_server.unpause()
        holder.begin()
        holder.send(topic, b"next")
        holder.commit()
    assert values(mq, topic) == [b"first", b"next"]


@pytest.mark.disturbs
@pytest.mark.parametrize("what", ["claim", "begin", "commit", "abort"])
def test_an_interrupt_ends_each_wait(kafka_server, mq, topic, what):
    """Ctrl-C ends each wait for a silent broker; nothing is stored, and the name can be used again."""
    with Holder(mq, name := new_name()) as holder:
        holder.begin()
        holder.send(topic, b"lost")
        holder.deliver()
        calls = {
            "claim": lambda: Holder(mq, new_name()),
            "begin": holder.begin,  # which first aborts the open transaction
            "commit": lambda: (holder.send(topic, b"lost too"), holder.commit()),
            "abort": lambda: holder.driver.abort(30),
        }
        kafka_server.pause()
        try:
            began = interrupted(calls[what])
            assert time.monotonic() - began < 20  # less than the timeout of 30 seconds
        finally:
            kafka_server.unpause()
    with Holder(mq, name) as holder:
        holder.begin()
        holder.send(topic, b"kept")
        holder.commit()
    assert values(mq, topic) == [b"kept"]


def interrupted(call):
    """Interrupt a call, and return the time of the interrupt."""
    moment = []

    def interrupt():
        moment.append(time.monotonic())
        _thread.interrupt_main()

    threading.Timer(0.5, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call()
    return moment[0]


@pytest.mark.disturbs
def test_a_close_is_bounded_while_the_broker_is_silent(kafka_server, mq, topic):
    """Closing during a transaction ends in time at a silent broker, and the transaction's records are not stored."""
    name = new_name()
    holder = Holder(mq, name)
    holder.begin()
    holder.send(topic, b"lost")
    holder.deliver()
    kafka_server.pause()
    try:
        began = time.monotonic()
        with suppress(mqplug.Timeout):
            holder.driver.close(2)
        assert time.monotonic() - began < 20  # less than the default of 30 seconds
    finally:
        kafka_server.unpause()
    with Holder(mq, name) as again:
        again.begin()
        again.send(topic, b"kept")
        again.commit()
    assert values(mq, topic) == [b"kept"]


def test_an_abandoned_transaction_ends_by_itself(kafka_server, mq, topic):
    """After transaction_timeout readers continue, and a client that abandoned a transaction gets Fenced."""
    hasty = mqplug.connect("kafka", servers=[kafka_server.bootstrap], transaction_timeout=1)
    with hasty, Holder(hasty, new_name()) as holder:
        holder.begin()
        holder.send(topic, b"abandoned")
        holder.deliver()
        fill(mq, topic, 1, prefix="behind")
        assert [message.value for message in mq.read(topic, timeout=60)] == [b"behind0"]
        with pytest.raises(mqplug.Fenced, match="transaction_timeout"):
            holder.commit()


@pytest.mark.parametrize("fenced_before", [True, False])
def test_a_late_answer_that_fences_proves_nothing(kafka_server, mq, topic, monkeypatch, fenced_before):
    """If a commit's answer is lost and its repetition is fenced, the records show whether it succeeded."""
    set_wait(monkeypatch, "first answer", 0.0)

    def lose_the_answer(wait, client, what, future, deadline):
        wait(client, what, future, deadline)
        if what == "commit":
            raise mqplug.Fenced("the repetition of the request")

    with mqplug.connect(kafka_server.url) as other, Holder(mq, name := new_name()) as holder:
        holder.begin()
        sent = holder.send(topic, b"a")
        holder.deliver()
        if fenced_before:
            with Holder(other, name), pytest.raises(mqplug.Fenced):
                holder.commit()
            assert isinstance(sent[0].outcome, mqplug.Fenced)
        else:
            with monkeypatch.context() as losing:
                change(losing, "answer in a transaction", lose_the_answer)
                holder.commit()
            assert sent[0].outcome == (0, 0)
    assert values(mq, topic) == ([] if fenced_before else [b"a"])

"""Concurrent calls of pulsar-client with a deadline, without a broker."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Timer
from types import SimpleNamespace

import _pulsar
import pytest
from _pulsar import Result

import mqplug
from mqplug.spi import Capabilities
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._admin.topics import describe_all
from mqplug_pulsar._cluster.client_calls import CALL_THREADS, ClientCalls
from mqplug_pulsar._cluster.connection import ClusterFacts, PulsarConnection
from mqplug_pulsar._format.topic_names import NamespaceTopics

pytestmark = pytest.mark.python


@pytest.fixture
def calls():
    """A pool of threads."""
    made = ClientCalls()
    yield made
    made.close()


def fails():
    """Fail at once."""
    raise mqplug.TopicNotFound("it is gone")


def test_all_have_ended_when_one_fails(calls):
    """When one of several calls fails, the error is raised only after all of them have ended."""
    may_end, ended = Event(), Event()

    def slow():
        may_end.wait()
        ended.set()

    Timer(0.2, may_end.set).start()
    with pytest.raises(mqplug.TopicNotFound):
        calls.complete([fails, slow], 30)
    assert ended.is_set()


def test_it_waits_no_longer_than_its_time(calls):
    """Calls that do not end in time raise ``Timeout``."""
    may_end = Event()
    try:
        with pytest.raises(mqplug.Timeout):
            calls.complete([may_end.wait], 0.05)
    finally:
        may_end.set()


def test_as_many_at_a_time_as_there_are_threads(calls):
    """More calls than threads wait for a free thread, and none is lost."""
    may_end = Event()
    first = [calls.start(lambda: may_end.wait(30)) for _ in range(CALL_THREADS)]
    after = [calls.start(lambda number=number: number) for number in range(40)]
    assert not any(each.done() for each in after)
    may_end.set()
    assert [each.result(30) for each in after] == list(range(40))
    assert all(each.result(30) for each in first)


def test_what_was_begun_before_a_close_ends(calls):
    """After a close the started calls still end, and new calls raise ``Closed``."""
    begun = [calls.start(lambda: 7) for _ in range(2 * CALL_THREADS)]
    calls.close()
    assert {each.result(30) for each in begun} == {7}
    with pytest.raises(mqplug.Closed):
        calls.start(lambda: 7)


def test_answers(calls):
    """An asynchronous call of pulsar-client returns its answer or raises its error."""
    assert calls.answer(lambda callback: callback(Result.Ok, 7), 1) == 7
    assert calls.answer(lambda callback: callback(Result.Ok), 1) is None
    with pytest.raises(_pulsar.ConsumerBusy):
        calls.answer(lambda callback: callback(Result.ConsumerBusy), 1)


def test_many_topics_are_described_together():
    """More topics than the pool has threads can be described together, without a deadlock."""

    class Native:
        def get_topic_partitions_async(self, full, callback):
            callback(Result.Ok, [f"{full}-partition-0"])

    client = SimpleNamespace(_client=Native(), _consumers=[], get_topic_partitions=lambda full: [f"{full}-partition-0"])
    names, facts = NamespaceTopics("public", "default"), ClusterFacts("c", Capabilities())
    connection = PulsarConnection(PulsarSettings(), names, client, None, facts, lambda _: None)
    topics = [f"t{number}" for number in range(4 * CALL_THREADS)]
    assert [info.name for info in describe_all(connection, topics, 10)] == topics
    connection.calls.close()


def test_an_answer_that_never_comes(calls):
    """A call without an answer raises ``Timeout``, or ``Closed`` once the connection is closed."""
    with pytest.raises(mqplug.Timeout):
        calls.answer(lambda _: None, 0.01)
    Timer(0.05, calls.close).start()
    with pytest.raises(mqplug.Closed):
        calls.answer(lambda _: None, 30)


STUCK = """
from threading import Event
from mqplug_pulsar._cluster import client_calls
from mqplug_pulsar._cluster.client_calls import ClientCalls
class Client:
    def close(self):
        calls.start(lambda: print("ended"))
    def shutdown(self):
        pass
client, calls = Client(), ClientCalls()
calls.start(Event().wait)
client_calls.EXIT_TIMEOUT_S = client_calls.RETURN_TIMEOUT_S = 0.2
client_calls.close_at_exit(client)
"""


def test_a_call_that_never_returns_keeps_no_process():
    """A process ends although a call of pulsar-client is stuck, after the calls that can end."""
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")

"""Calls of pulsar-client: their threads and timeouts, and what ends them at the exit of the process."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer
from types import SimpleNamespace

import _pulsar
import pytest
from _pulsar import Result

import mqplug
from mqplug.spi import Capabilities
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._admin.topics import describe_all
from mqplug_pulsar._cluster.client_calls import CALL_THREADS, ClientCalls, ExitCloser
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


ENDS_AT_ONCE = """
import sys, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
producer, reader = client.producer(topic), client.consumer(topic, start=mqplug.EARLIEST)
producer.submit(b"x")
print(reader.receive(30).id)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("processes", [3, pytest.param(24, marks=pytest.mark.night)])
def test_a_process_that_closes_nothing_ends_well(pulsar_server, mq, topic, processes):
    """A process that closes nothing never aborts at its end, even with the outcome of a send still on its way."""
    (sent,) = mq.producer(topic).send_many([b"first"])
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", ENDS_AT_ONCE, pulsar_server.url, topic]

    def ends(_):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.strip(), done.stderr

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(ends, range(processes))) == {(0, str(sent), "")}


class Deaf:
    """A client whose broker is gone: its close ends only after a shutdown."""

    def __init__(self, until):
        self._until = until

    def close(self):
        self._until.wait()

    def shutdown(self):
        self._until.set()


class Unmoved(Deaf):
    """A client whose close does not end even after a shutdown."""

    def shutdown(self):
        pass


@pytest.mark.parametrize("kind", [Deaf, Unmoved])
def test_a_client_that_cannot_be_closed_does_not_keep_the_process(monkeypatch, kind):
    """A process waits at its end only for a limited time for a client that cannot be closed."""
    monkeypatch.setattr("mqplug_pulsar._cluster.client_calls.EXIT_TIMEOUT_S", 0.05)
    monkeypatch.setattr("mqplug_pulsar._cluster.client_calls.RETURN_TIMEOUT_S", 0.05)
    until, exit_closer = Event(), ExitCloser()
    client = kind(until)
    exit_closer.add(client)
    assert not exit_closer.close_all()
    until.set()


def test_calls_under_way_end_before_clients_are_closed():
    """Calls under way end before their client is closed: a client that is closed during a call never answers it."""
    ended, closed_after, exit_closer, calls = Event(), [], ExitCloser(), ClientCalls()

    class Client:
        def close(self):
            closed_after.append(ended.is_set())

    client = Client()
    exit_closer.add(client)
    calls.start(lambda: (time.sleep(0.2), ended.set()))
    assert exit_closer.close_all()
    assert closed_after == [True]


def test_all_are_closed_when_the_process_ends():
    """Each open client is closed once at the end of the process; without clients the closer does nothing."""
    assert ExitCloser().close_all()
    closed, exit_closer = [], ExitCloser()

    class Client:
        def close(self):
            closed.append(self)

    clients = [Client(), Client()]
    for client in clients:
        exit_closer.add(client)
    assert exit_closer.close_all()
    assert sorted(closed, key=id) == sorted(clients, key=id)

"""Processes that end without closing their clients."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from mqplug_pulsar._cluster.client_calls import ClientCalls, ExitCloser

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

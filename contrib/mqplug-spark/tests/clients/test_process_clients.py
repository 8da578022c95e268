"""The clients of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest

import mqplug
from mqplug import Closed, ConnectError, Unsupported
from mqplug_spark._clients import ProcessClients, ask, drop_client, process_client
from mqplug_spark._options.backend_settings import BackendSettings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[BackendSettings]:
    """The settings of a store with one topic."""
    url = f"rocksmq://{tmp_path / 'store'}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders")
    made = BackendSettings(url=url)
    yield made
    drop_client(made)


def test_a_process_has_one_client_for_its_settings(settings: BackendSettings) -> None:
    """The same settings get the same client until it is dropped."""
    client = process_client(settings)
    assert process_client(BackendSettings(url=settings.url)) is client
    drop_client(settings, client)
    with pytest.raises(Closed):
        client.topics()
    assert process_client(settings).topics() == ["orders"]


def test_a_client_that_was_replaced_is_not_dropped_again(settings: BackendSettings) -> None:
    """A thread that lost its connection does not close the new client that another thread opened."""
    lost = process_client(settings)
    drop_client(settings, lost)
    fresh = process_client(settings)
    drop_client(settings, lost)
    assert process_client(settings) is fresh


def test_threads_share_a_client(settings: BackendSettings) -> None:
    """Threads that ask at the same time get one client, and any surplus client is closed."""
    start, found = Barrier(4), set()

    def get() -> None:
        start.wait(10)
        found.add(process_client(settings))

    threads = [Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 1


def test_clients_are_bounded(tmp_path: Path) -> None:
    """Above the limit, the least recently used client is closed."""
    made = [BackendSettings(url=f"rocksmq://{tmp_path / name}") for name in "abc"]
    for each in made:
        mqplug.connect(each.url).close()
    clients = ProcessClients(most=2)
    first, second = clients.get(made[0]), clients.get(made[1])
    assert clients.get(made[0]) is first
    clients.get(made[2])
    with pytest.raises(Closed):
        second.topics()
    assert first.topics() == []
    clients.close()


def test_a_lost_connection_is_asked_again_once(settings: BackendSettings) -> None:
    """A request that loses its connection is sent to a new client, and fails if that connection is lost too."""
    asked: list[mqplug.Client] = []

    def question(client: mqplug.Client) -> str:
        asked.append(client)
        if len(asked) == 1:
            raise ConnectError("lost")
        return "answer"

    assert ask(settings, question) == "answer"
    assert len(set(asked)) == 2
    with pytest.raises(ConnectError, match="gone"):
        ask(settings, _raise_gone)


def _raise_gone(client: mqplug.Client) -> None:
    raise ConnectError("gone")


def test_a_store_in_one_process_is_refused() -> None:
    """The memory backend cannot be read by other processes, and the error says so."""
    with pytest.raises(Unsupported, match="keeps its messages in one process; Spark's tasks run in others"):
        process_client(BackendSettings(url="memory://shared"))


def test_a_forked_child_connects_anew(settings: BackendSettings) -> None:
    """A child opens its own client for the parent's store, and does not touch the parent's client."""
    program = f"""
import os, sys
from mqplug_spark._clients import process_client
from mqplug_spark._options.backend_settings import BackendSettings
settings = BackendSettings(url={settings.url!r})
mine = process_client(settings)
child = os.fork()
if child == 0:
    other = process_client(settings)
    os._exit(0 if other is not mine and other.topics() == ["orders"] else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert process_client(settings) is mine and mine.topics() == ["orders"]
"""
    environment = {**os.environ, "PYTHONWARNINGS": "error,ignore:This process:DeprecationWarning"}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

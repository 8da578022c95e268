"""What a real Milvus writes, on real brokers, beside what its queries answer."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count

import pytest
from milvus_rest import MilvusRest
from waiting import wait_until

import mqplug
import mqplug_milvus
from mqplug_devbrokers import KafkaServer, MilvusServer, PulsarServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_milvus import Tables

pytestmark = [pytest.mark.xdist_group("milvus"), pytest.mark.timeout(300)]
PATIENCE_S = 60


def tables_of(mq):
    """Return the tables that the events in all topics make."""
    tables = Tables()
    for topic in sorted(mq.topics()):
        if "-rootcoord-dml_" in topic:
            for event in mqplug_milvus.read_events(mq, topic):
                tables.apply(event)
    return tables


def decoded(mq, collection="things"):
    """Return a collection's rows by key, as Milvus' REST interface shows them."""
    try:
        return {key: {**row, "id": key} for key, row in tables_of(mq)[collection].rows.items()}
    except KeyError:
        return {}


def wait_for_equal(mq, milvus, rows):
    """Wait until so many rows are decoded, and are what the query answers: both follow the ticks."""
    end = time.monotonic() + PATIENCE_S
    while (got := decoded(mq)) != (want := milvus.rows()) or len(got) != rows:
        assert time.monotonic() < end, (len(got), len(want))
        time.sleep(0.1)
    return want


def changed(milvus, first):
    """Insert rows in several requests, and delete some of them."""
    keys = [key for at in range(first, first + 300, 60) for key in milvus.insert(range(at, at + 60))]
    milvus.delete(keys[10:30])
    return keys


@pytest.fixture
def open_queue(monkeypatch):
    """Return a function that opens the queue of a Milvus by its own file and variables."""

    def connect(server):
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        return mqplug.connect(server.configuration)

    return connect


def test_on_kafka(open_queue):
    """Decoded rows equal the query's; so they do after Milvus was killed and its topics were moved to another Kafka."""
    with KafkaServer(settings=MilvusServer.KAFKA_SETTINGS) as kafka, started(partial(MilvusServer, kafka)) as server:
        milvus = MilvusRest(server.address)
        milvus.create()
        changed(milvus, 0)
        with open_queue(server) as mq:
            before = wait_for_equal(mq, milvus, 280)
            check_checkpoints(mq, server)
            milvus.insert(range(1000, 1020))  # in no file of Milvus yet, only in its topics
            server.kill()
            with KafkaServer(settings=MilvusServer.KAFKA_SETTINGS) as other:
                copy_with_offsets(mq, other)
                kafka.stop()
                server.move_to(other)
                server.start()
                with open_queue(server) as moved:
                    assert wait_for_equal(moved, milvus, 300).items() > before.items()
                    changed(milvus, 2000)
                    wait_for_equal(moved, milvus, 580)


def copy_with_offsets(mq, target):
    """Copy all topics to a fresh Kafka, each message at the offset that it had."""
    with mqplug.connect(target.url) as other:
        for topic in mq.topics():
            other.create_topic(topic, partitions=len(mq.partitions(topic)), exist_ok=True)
            with other.producer(topic) as out:
                for message in mq.read(topic):
                    stored = out.submit(message.value, headers=message.headers, timestamp=message.timestamp)
                    assert message.id.coordinates == stored.result().coordinates


@pytest.mark.night
def test_on_pulsar(open_queue):
    """Decoded rows equal the query's while Milvus runs on Pulsar, and checkpoints are Pulsar's positions."""
    with (
        PulsarServer(settings=MilvusServer.PULSAR_SETTINGS) as pulsar,
        started(partial(MilvusServer, pulsar)) as server,
    ):
        milvus = MilvusRest(server.address)
        milvus.create()
        changed(milvus, 0)
        with open_queue(server) as mq:
            wait_for_equal(mq, milvus, 280)
            check_checkpoints(mq, server)


def check_checkpoints(mq, server):
    """Check that each checkpoint is a position in its topic, and is written back as it was."""
    found = mqplug_milvus.checkpoints(server.etcd)
    assert found
    for checkpoint in found.values():
        position = checkpoint.position(mq)
        assert mqplug_milvus.place(position) == checkpoint.place
        first = next(mq.read(checkpoint.topic, start=position))
        assert mqplug_milvus.decode(first).time >= 0


@pytest.mark.night
def test_its_own_rocksmq(tmp_path):
    """The messages of Milvus' own RocksMQ are copied while it runs, and the decoded rows equal the query's."""
    with started(MilvusServer) as server:
        milvus = MilvusRest(server.address)
        milvus.create()
        changed(milvus, 0)
        end = time.monotonic() + PATIENCE_S
        for number in count():
            store = tmp_path / str(number)
            command = [
                sys.executable,
                "-m",
                "mqplug_cli",
                "rocksmq",
                "import-milvus",
                server.rocksmq,
                f"rocksmq://{store}",
            ]
            subprocess.run(command, check=True, capture_output=True)
            with mqplug.connect(f"rocksmq://{store}") as mq:
                got = decoded(mq)
            if got == milvus.rows() and len(got) == 280:
                break
            assert time.monotonic() < end


REPLICA = """
import json, sqlite3, sys
import mqplug, mqplug_milvus
from mqplug_milvus import Delete, Insert

rows = sqlite3.connect(sys.argv[2])
rows.execute("create table if not exists things (key integer primary key, time integer, row text)")
with mqplug.connect(sys.argv[1]) as mq, mqplug_milvus.events(mq, "things", group="replica") as feed:
    for event in feed:
        with rows:
            if isinstance(event, Insert):
                for row, time in zip(event.rows(), event.times):
                    key = row.pop("id")
                    rows.execute("insert or replace into things values (?, ?, ?)", (key, time, json.dumps(row)))
            elif isinstance(event, Delete):
                for key, time in zip(event.keys, event.times):
                    rows.execute("delete from things where key = ? and time < ?", (key, time))
"""


@pytest.mark.night
def test_a_replica_that_is_killed(tmp_path):
    """A replica of which the program is killed ten times, while rows come, equals the query at the end."""
    file = tmp_path / "replica.db"
    settings = {**MilvusServer.KAFKA_SETTINGS, "group.min.session.timeout.ms": "1000"}
    with KafkaServer(settings=settings) as kafka, started(partial(MilvusServer, kafka)) as server:
        milvus = MilvusRest(server.address)
        milvus.create()
        milvus.insert(range(10))
        url = f"{kafka.url}?session_timeout=2"
        for number in range(1, 11):
            with replicating(url, file):
                keys = milvus.insert(range(number * 100, number * 100 + 50))
                wait_until(lambda keys=keys: replicated(file).keys() & set(keys), PATIENCE_S)
                milvus.delete(keys[:5])
        wait_until(lambda: len(milvus.rows()) == 460, PATIENCE_S)
        with replicating(url, file):
            wait_until(
                lambda: replicated(file) == {key: without_key(row) for key, row in milvus.rows().items()}, PATIENCE_S
            )


@contextmanager
def replicating(url, file):
    """Run the replica's program, and kill it at the end."""
    with subprocess.Popen([sys.executable, "-c", REPLICA, url, str(file)]) as process:
        try:
            yield
        finally:
            process.kill()


def replicated(file):
    """Return the rows of the replica by key."""
    with closing(sqlite3.connect(file, timeout=30)) as rows, suppress(sqlite3.OperationalError):
        return {key: json.loads(row) for key, row in rows.execute("select key, row from things")}
    return {}


def without_key(row):
    """Return a row without its key."""
    return {name: value for name, value in row.items() if name != "id"}

"""Tasks and owners that are killed, and a broker that is restarted, during a write. Needs no Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from clusters import new_name

import mqplug
from mqplug_spark._clients import drop_client
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.write_options import MARKS_TOPIC, WriteMark, WriteOptions, parse_write_options
from mqplug_spark._write.marks import prepare_marks
from mqplug_spark._write.task import Task, WrittenByTask
from mqplug_spark._write.task_write import write_rows
from mqplug_spark._write.writers import commit_all

if TYPE_CHECKING:
    from mqplug_devbrokers import KafkaServer

pytestmark = pytest.mark.timeout(180)

OWNER = """
import sys, mqplug
with mqplug.connect(sys.argv[1]) as mq:
    mq.create_topic("orders", partitions=2, exist_ok=True)
    print("ready", flush=True)
    sys.stdin.read()
"""
TASK = """
import sys, pyarrow as pa
from mqplug_spark._options.write_options import WriteMark, parse_write_options
from mqplug_spark._write.task import Task
from mqplug_spark._write.task_write import write_rows

def rows():
    yield pa.record_batch({"value": pa.array([b"lost"] * 60_000)})
    print("ready", flush=True)
    sys.stdin.readline()
    yield pa.record_batch({"value": pa.array([b"late"])})

options = parse_write_options({"url": sys.argv[1], "topic": sys.argv[2]})
try:
    write_rows(options, Task(0, WriteMark(sys.argv[2], 1), True, "first"), rows())
except Exception as error:
    print(type(error).__name__, flush=True)
else:
    print("written", flush=True)
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait until it is gone."""
    process.kill()
    process.communicate()


def batches(number: int, between: Callable[[], object] = lambda: None) -> Iterator[pa.RecordBatch]:
    """Five batches of a task's rows, with an event after the second."""
    for batch in range(5):
        yield pa.record_batch({"value": pa.array([b"%d-%d-%d" % (number, batch, row) for row in range(2000)])})
        if batch == 1:
            between()


def expected(*tasks: int) -> Counter[bytes]:
    """The values that the tasks write."""
    return Counter(value for number in tasks for batch in batches(number) for value in batch["value"].to_pylist())


def stored(client: mqplug.Client, topic: str) -> Counter[bytes]:
    """The values that consumers see."""
    return Counter(message.value or b"" for message in client.read(topic))


def task(number: int, writer: str = "job") -> Task:
    """A task of a marked write."""
    return Task(number, WriteMark(writer, 1), once=True, execution="first")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A RocksMQ store that this process uses like Spark's tasks and driver."""
    yield f"rocksmq://{tmp_path}"
    drop_client(BackendSettings(url=f"rocksmq://{tmp_path}"))


def test_the_owner_of_a_store_is_killed_while_tasks_stage(url: str) -> None:
    """Tasks continue with the next owner, and the commit makes all of their rows visible, once."""
    owner = start(OWNER, url)
    options = parse_write_options({"url": url, "topic": "orders"})
    written = [
        write_rows(options, task(0), batches(0)),
        write_rows(options, task(1), batches(1, between=lambda: kill(owner))),
    ]
    commit_all(options, written)
    commit_all(options, [write_rows(options, task(0), batches(0))])
    with mqplug.connect(url) as client:
        assert stored(client, "orders") == expected(0, 1)


@pytest.mark.parametrize(
    "after", [0, 0.005, pytest.param(0.02, marks=pytest.mark.night), pytest.param(0.06, marks=pytest.mark.night)]
)
def test_the_owner_of_a_store_is_killed_during_the_commit(url: str, after: float) -> None:
    """The commit asks the next owner, which ingests all rows or knows that they are stored, whenever the first dies."""
    owner = start(OWNER, url)
    options = parse_write_options({"url": url, "topic": "orders"})
    written: list[WrittenByTask] = [write_rows(options, task(number), batches(number)) for number in range(3)]
    killer = Timer(after, owner.kill)
    killer.start()
    commit_all(options, written)
    killer.join()
    kill(owner)
    with mqplug.connect(url) as client:
        assert stored(client, "orders") == expected(0, 1, 2)


@pytest.fixture
def target(kafka_server: KafkaServer) -> Iterator[tuple[mqplug.Client, WriteOptions]]:
    """A Kafka client, and the options for writes to an empty topic."""
    topic = new_name("disturbed")
    with mqplug.connect(kafka_server.url) as client:
        client.create_topic(topic, partitions=2)
        prepare_marks(client, MARKS_TOPIC)
        yield client, parse_write_options({"url": kafka_server.url, "topic": topic})
    drop_client(BackendSettings(url=kafka_server.url))


def test_a_task_is_killed_in_its_transaction(
    kafka_server: KafkaServer, target: tuple[mqplug.Client, WriteOptions]
) -> None:
    """No row of a killed task is visible; its next attempt does not wait for it, and its rows are written once."""
    client, options = target
    topic = options.topic or ""
    killed = start(TASK, kafka_server.url, topic)
    kill(killed)
    for _ in range(2):
        write_rows(options, task(0, topic), batches(0))
    assert stored(client, topic) == expected(0)


def test_a_task_that_was_given_up_commits_nothing(
    kafka_server: KafkaServer, target: tuple[mqplug.Client, WriteOptions]
) -> None:
    """A task that was paused while its next attempt ran is fenced when it continues."""
    client, options = target
    topic = options.topic or ""
    lost = start(TASK, kafka_server.url, topic)
    os.kill(lost.pid, signal.SIGSTOP)
    try:
        write_rows(options, task(0, topic), batches(0))
    finally:
        os.kill(lost.pid, signal.SIGCONT)
    said, _ = lost.communicate("continue\n", timeout=60)
    assert said == "Fenced\n"
    assert stored(client, topic) == expected(0)


@pytest.mark.disturbs
def test_the_broker_is_restarted_during_a_task(
    kafka_server: KafkaServer, target: tuple[mqplug.Client, WriteOptions]
) -> None:
    """A task continues when its broker is back, or fails and its next attempt writes the rows: once in either case."""
    client, options = target
    topic = options.topic or ""
    for attempt in range(3):
        try:
            write_rows(
                options, task(0, topic), batches(0, between=kafka_server.restart if attempt == 0 else lambda: None)
            )
        except mqplug.Error:
            assert attempt < 2
    assert stored(client, topic) == expected(0)

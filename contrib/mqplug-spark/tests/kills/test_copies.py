"""Streams that copy topics, while the driver, tasks, executors and the owner of a RocksMQ store are killed.

At the end, the copies are compared with their sources, message by message. Five kills hit moments where
the promises are hardest to keep; ``MQPLUG_KILLS=50`` makes fifty random ones.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from killed_processes import DEADLINE_S, Program, command_line, descendants, kill

import mqplug

if TYPE_CHECKING:
    from mqplug_devbrokers import KafkaServer, PulsarServer

HERE = Path(__file__).parent
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
PARTITIONS = 2
THREADS, EXECUTORS = "local[2,4]", "local-cluster[2,1,1024]"

# Each copy is disturbed where its promise is hardest to keep.
KILLS = ("owner", "worker kafka-kafka", "driver rocksmq-rocksmq", "executor", "driver kafka-kafka")
OTHERS = (
    "worker rocksmq-rocksmq",
    "worker kafka-rocksmq",
    "driver kafka-rocksmq",
    "driver pulsar-pulsar",
    "driver",
    "worker",
)

pytestmark = [pytest.mark.night, pytest.mark.timeout(600 + 240 * int(os.environ.get("MQPLUG_KILLS", "5")))]


@attrs.frozen
class Place:
    """A topic of a backend."""

    url: str
    topic: str

    def rows(self) -> list[list[tuple[object, ...]]]:
        """Return the messages of each partition, in order, without times and ids, which a copy does not keep."""
        found: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]
        with mqplug.connect(self.url) as client:
            for message in client.read(self.topic, timeout=DEADLINE_S):
                found[message.partition].append((message.value, message.key, *message.headers))
        return found


@attrs.frozen
class Copy:
    """One topic that a stream copies to another."""

    source: Place
    target: Place

    def options(self, name: str) -> dict[str, object]:
        """Return the copy in the form that the program accepts."""
        return {
            "name": name,
            "source": {"url": self.source.url, "subscribe": self.source.topic},
            "target": {"url": self.target.url, "topic": self.target.topic},
        }


@pytest.fixture
def copies(kafka_server: KafkaServer, pulsar_server: PulsarServer, tmp_path: Path) -> dict[str, Copy]:
    """Four copies of three topics: to RocksMQ from itself and from Kafka, and within Kafka and within Pulsar."""
    urls = {"rocksmq": f"rocksmq://{tmp_path / 'store'}", "kafka": kafka_server.url, "pulsar": pulsar_server.url}
    made = uuid.uuid4().hex[:8]

    def place(backend: str, role: str) -> Place:
        topic = f"{role}-{made}"
        with mqplug.connect(urls[backend]) as client:
            client.create_topic(topic, partitions=PARTITIONS, exist_ok=True)
        return Place(urls[backend], topic)

    pairs = [("rocksmq", "rocksmq"), ("kafka", "kafka"), ("kafka", "rocksmq"), ("pulsar", "pulsar")]
    return {f"{one}-{other}": Copy(place(one, "source"), place(other, f"copy-of-{one}")) for one, other in pairs}


class Run:
    """A sender, and a driver that copies its messages."""

    def __init__(self, copies: dict[str, Copy], folder: Path) -> None:
        self._copies = copies
        self._folder = folder
        places = [(copy.source.url, copy.source.topic) for copy in copies.values()]
        self._places = [text for place in dict.fromkeys(places) for text in place]
        self._sender: Program
        self.driver: Program

    def start_sender(self) -> None:
        """Start a sender with a new name."""
        self._sender = Program(self._folder, HERE / "sending_program.py", uuid.uuid4().hex[:6], *self._places)
        self._sender.wait_for("sending")

    def start_driver(self, master: str = THREADS) -> None:
        """Start the driver, which continues all copies. Wait until all of them run."""
        task = {
            "folder": str(self._folder), "master": master, "settings": SETTINGS,
            "copies": [copy.options(name) for name, copy in self._copies.items()],
        }  # fmt: skip
        self._master = master
        self.driver = Program(self._folder, HERE / "copying_program.py", json.dumps(task))
        self._wait_for_batches()

    def kill(self, what: str) -> None:
        """Kill a process at a random instant, or exactly where the copy's name says. Check that all copies continue."""
        whom, _, copy = what.partition(" ")
        if copy:
            self._kill_within_batch(what)
        elif whom == "driver":
            self._restart_driver(THREADS)
        else:
            if whom == "executor" and self._master != EXECUTORS:
                self._restart_driver(EXECUTORS)
            time.sleep(random.uniform(0, 2))
            {"owner": self._kill_owner, "worker": self._kill_worker, "executor": self._kill_executor}[whom]()
        self._wait_for_batches()

    def _kill_within_batch(self, what: str) -> None:
        """Request the kill, and wait until a batch reaches that point."""
        asked = self._folder / what
        asked.touch()
        end = time.monotonic() + DEADLINE_S
        while asked.exists():
            assert self.driver.process.poll() is None, self.driver.errors()
            assert time.monotonic() < end, f"no batch came to {what}: {self.driver.errors()}"
            time.sleep(0.01)
        if what.startswith("driver"):
            assert self.driver.wait() < 0
            self.start_driver()

    def _restart_driver(self, master: str) -> None:
        time.sleep(random.uniform(0, 2))
        self.driver.kill()
        self.start_driver(master)

    def _kill_worker(self) -> None:
        """Kill a process that runs tasks, which is the fork of another."""
        forked = [
            child
            for parent in descendants(self.driver.process.pid)
            if "pyspark.daemon" in command_line(parent)
            for child in descendants(parent)
        ]
        kill(random.choice(forked))

    def _kill_executor(self) -> None:
        every = descendants(self.driver.process.pid)
        kill(random.choice([pid for pid in every if "CoarseGrainedExecutorBackend" in command_line(pid)]))

    def _kill_owner(self) -> None:
        """Kill the process that has the store open: the sender, a task, or the planner of a query's batches."""
        owner = json.loads((self._folder / "store" / "owner").read_text())["pid"]
        planning = owner in descendants(self.driver.process.pid) and "source_runner" in command_line(owner)
        kill(owner)
        if owner == self._sender.process.pid:
            self._sender.wait()
            self.start_sender()
        elif planning:  # Spark ends the query then
            assert self.driver.wait() > 0
            self.start_driver()

    def _wait_for_batches(self) -> None:
        for name in self._copies:
            self.driver.wait_for(name)

    def finish(self) -> None:
        """Stop the sender, then the driver when it has copied everything."""
        self._sender.kill()
        (self._folder / "finish").touch()
        assert self.driver.wait() == 0, self.driver.errors()

    def end(self) -> None:
        """End all processes."""
        for program in (getattr(self, "_sender", None), getattr(self, "driver", None)):
            if program is not None and program.process.poll() is None:
                program.kill()


@pytest.fixture
def run(java: None, copies: dict[str, Copy], tmp_path: Path) -> Iterator[Run]:
    """A running sender and driver."""
    made = Run(copies, tmp_path)
    try:
        made.start_sender()
        made.start_driver()
        yield made
    finally:
        made.end()


def _kills() -> list[str]:
    """Return the usual kills, or as many as ``MQPLUG_KILLS`` says."""
    amount = int(os.environ.get("MQPLUG_KILLS", "0"))
    return random.choices(KILLS + OTHERS, k=amount) if amount else list(KILLS)


def test_nothing_is_lost_and_nothing_comes_twice(run: Run, copies: dict[str, Copy]) -> None:
    """After kills of all participants, each copy has all messages in order: exactly once, on Pulsar at least once."""
    kills = _kills()
    for each in kills:
        run.kill(each)
    run.finish()
    for name, copy in copies.items():
        for wanted, found in zip(copy.source.rows(), copy.target.rows(), strict=True):
            lost, twice = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
            assert wanted, name
            assert not lost, f"{name} has lost messages"
            if name == "pulsar-pulsar":
                assert set(found) == set(wanted)
            else:
                assert not twice, f"{name} has messages twice"
                assert found == wanted, f"{name} has another order"

"""A Kafka that is killed under a running Milvus and a reader of its events."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest
from milvus_rest import MilvusRest
from waiting import wait_until

import mqplug
import mqplug_milvus
from mqplug_devbrokers import KafkaServer, MilvusServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_milvus import Table

pytestmark = [pytest.mark.xdist_group("milvus"), pytest.mark.night, pytest.mark.timeout(600)]
KILLS = 3
AWAY_S = 2.0
PATIENCE_S = 120


class Worker(threading.Thread):
    """Does one thing again and again until it is stopped, and keeps its error."""

    def __init__(self, work):
        super().__init__()
        self._work = work
        self._ended = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self._ended.is_set():
                self._work()
        except BaseException as error:
            self.error = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def inserting(milvus):
    """Return a function that inserts ten rows, and the keys that Milvus answered. A refused insert is left."""
    stored = []

    def insert():
        try:
            stored.extend(milvus.insert(range(len(stored), len(stored) + 10)))
        except (AssertionError, OSError):
            time.sleep(0.2)

    return insert, stored


def test_a_killed_kafka():
    """While Kafka is killed and comes back, inserts and a feed continue; then all stored rows are in both."""
    table = Table("id")
    with KafkaServer(settings=MilvusServer.KAFKA_SETTINGS) as kafka, started(partial(MilvusServer, kafka)) as server:
        milvus = MilvusRest(server.address)
        milvus.create()
        milvus.insert(range(10))
        insert, stored = inserting(milvus)
        with (
            mqplug.connect(kafka.url) as mq,
            mqplug_milvus.events(mq, "things", group="replica") as feed,
        ):

            def follow():
                for event in feed.take(timeout=0.5):
                    table.apply(event)

            def is_equal():
                follow()
                return set(stored) <= table.rows.keys() and shown(table) == milvus.rows()

            with Worker(follow), Worker(insert):
                for _ in range(KILLS):
                    wait_for_more(stored)
                    kafka.kill()
                    time.sleep(AWAY_S)  # Milvus and the feed meet its absence
                    kafka.start()
                wait_for_more(stored)
            wait_until(is_equal, PATIENCE_S)


def shown(table):
    """Return the rows as Milvus' REST interface shows them."""
    return {key: {**row, "id": key} for key, row in table.rows.items()}


def wait_for_more(stored):
    """Wait until fifty rows more are stored."""
    before = len(stored)
    wait_until(lambda: len(stored) >= before + 50, PATIENCE_S)

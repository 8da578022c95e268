"""Rows of every field type of a real Milvus, beside what its queries answer to its own client."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from recordings import plain

import mqplug
import mqplug_milvus
from mqplug_devbrokers import KafkaServer, MilvusServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_milvus import Tables

pytestmark = [pytest.mark.xdist_group("milvus"), pytest.mark.night, pytest.mark.timeout(600)]
DRIVER = Path(__file__).with_name("pymilvus_driver.py")
CLIENT = ["pymilvus==2.3.8", "marshmallow<4", "setuptools<70"]  # it needs both, and asks for no version
PATIENCE_S = 60


def run_driver(address, out):
    """Run the driver in an environment of its own, and return what Milvus answered."""
    uv = pytest.importorskip("uv")
    needs = [word for package in CLIENT for word in ("--with", package)]
    command = [uv.find_uv_bin(), "run", "--no-project", "--isolated", "--quiet", *needs, "python", DRIVER]
    done = subprocess.run([*command, address, out], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(out.read_text())


def tables(mq):
    """Return the tables that the events of all topics make."""
    found = Tables()
    for topic in mq.topics(mqplug.matching(".*-rootcoord-dml_[0-9]+")):
        for event in mqplug_milvus.read_events(mq, topic):
            found.apply(event)
    return found


def rows(found, collection):
    """Return a collection's rows by key: none if it does not exist, or no longer."""
    with suppress(KeyError):
        return plain(found[collection].rows)
    return {}


def differing(found, answered):
    """Return the keys whose rows are not what the query answers."""
    pairs = [(name, rows(found, name), want) for name, want in answered.items()]
    return [(name, key) for name, got, want in pairs for key in got.keys() | want if got.get(key) != want.get(key)]


def test_rows_of_all_types_equal_the_query(tmp_path):
    """5,000 rows of each kind of key, with partitions, upserts, deletes and drops, are what Milvus' query has."""
    with KafkaServer(settings=MilvusServer.KAFKA_SETTINGS) as kafka, started(partial(MilvusServer, kafka)) as server:
        answers = run_driver(server.address, tmp_path / "answers.json")
        answered = {name: {row["pk"]: row for row in each} for name, each in answers.items()}
        assert {name: len(each) for name, each in answered.items()} == {"numbers": 3310, "texts": 4800, "gone": 0}
        end = time.monotonic() + PATIENCE_S
        with mqplug.connect(kafka.url) as mq:
            while wrong := differing(found := tables(mq), answered):
                assert time.monotonic() < end, (len(wrong), sorted(wrong)[:10])
                time.sleep(0.1)
    assert set(found.names.values()) == set(answered)

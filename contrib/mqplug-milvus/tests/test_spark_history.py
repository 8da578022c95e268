"""A collection's history as a Spark table, beside what Milvus' queries answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from milvus_rest import MilvusRest
from recordings import answers, plain, replay
from written_messages import field

import mqplug
import mqplug_milvus
from mqplug_devbrokers import KafkaServer, MilvusServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_milvus import Insert, PartitionDropped, Tables

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.xdist_group("milvus"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or newer"),
]
PROGRAM = Path(__file__).with_name("spark_history.py")
WAYS = ["batch", "stream"]


def run_spark(url, collection, out):
    """Run the program that writes the collection's rows."""
    command = [sys.executable, str(PROGRAM), url, collection, str(out)]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def rows(folder, key):
    """Return the rows in a folder of Parquet files by key, as Milvus' query returns them."""
    import pyarrow.parquet as pq

    found = {}
    for stored in pq.read_table(folder).to_pylist():
        row = {name: json.loads(value) if name in {"doc", "$meta"} else value for name, value in stored.items()}
        found[row[key]] = plain(row | row.pop("$meta", {}))
    return found


@pytest.mark.parametrize("collection", ["things", pytest.param("words", marks=pytest.mark.night)])
def test_recorded_messages(collection, tmp_path):
    """Spark's rows of every type, after upserts and deletes, are those that Milvus' query answered."""
    url = f"rocksmq://{tmp_path / 'store'}"
    with mqplug.connect(url) as mq:
        replay(mq, "kafka")
    run_spark(url, collection, tmp_path)
    for way in WAYS:
        assert rows(tmp_path / way, "pk") == answers("kafka", collection)


@pytest.mark.night
def test_a_dropped_partition(tmp_path):
    """Rows of a dropped partition are gone, and the others stay."""
    url = f"rocksmq://{tmp_path / 'store'}"
    with mqplug.connect(url) as mq:
        replay(mq, "kafka")
        (things,) = (each for each in mqplug_milvus.collections(mq).values() if each.collection == "things")
        tables, inserts = Tables(), set()
        for topic in things.topics:
            for event in mqplug_milvus.read_events(mq, topic):
                tables.apply(event)
                inserts |= {event.partition_id} if isinstance(event, Insert) else set()
        dropped = max(inserts)
        event = PartitionDropped(time=2**62, collection="things", collection_id=0, partition="", partition_id=dropped)
        tables["things"].apply(event)
        before = answers("kafka", "things")
        assert 0 < len(tables["things"]) < len(before)
        body = field(6, things.collection_id) + field(7, dropped)
        with mq.producer(things.topics[0]) as out:
            out.send(field(1, field(1, 201) + field(3, 2**62)) + body)
    run_spark(url, "things", tmp_path)
    for way in WAYS:
        assert rows(tmp_path / way, "pk") == plain(tables["things"].rows)


@pytest.mark.night
def test_a_real_milvus(tmp_path):
    """Spark's rows of a running Milvus equal its query, and a stream that is started again adds what is new."""
    import pyarrow.parquet as pq

    with KafkaServer(settings=MilvusServer.KAFKA_SETTINGS) as kafka, started(partial(MilvusServer, kafka)) as server:
        milvus = MilvusRest(server.address)
        milvus.create()
        for first in (0, 1000):
            milvus.delete(milvus.insert(range(first, first + 500))[100:150])
            milvus.wait_for(450 * (first // 1000 + 1))
            run_spark(kafka.url, "things", tmp_path)
            for way in WAYS:
                assert rows(tmp_path / way, "id") == milvus.rows()
        events = pq.read_table(tmp_path / "history").column("$event").to_pylist()
        assert (events.count("insert"), events.count("delete")) == (1000, 100)

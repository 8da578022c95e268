"""A RocksMQ store on Spark, owned by the driver's Python, by ``mqplug rocksmq serve``, or by neither.

``test_sessions.py`` runs this module again, with executors in separate processes.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

import mqplug
from mqplug import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

pytestmark = pytest.mark.timeout(360)  # the first test that needs Spark starts it

OWNERS = ("served", pytest.param("driver", marks=pytest.mark.night), pytest.param("nobody", marks=pytest.mark.night))
PARTITIONS = 2
ROWS = 40_000  # in each partition, of 1 KiB each: more than the pipes between processes hold


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that no process has open, with a topic of two partitions. Idle Spark workers may keep others open."""
    url = f"rocksmq://{tmp_path / uuid.uuid4().hex}"  # pytest reuses the folder of a test that passed
    with mqplug.connect(url, sync="os") as mq:
        mq.create_topic("orders", partitions=PARTITIONS)
        with mq.producer("orders") as out:
            for partition in range(PARTITIONS):
                for first in range(0, ROWS, 1_000):
                    out.send_many([row(number, partition) for number in range(first, first + 1_000)])
    return url


@pytest.fixture
def orders(spark: SparkSession, url: str) -> DataFrameReader:
    """A read of the topic."""
    return spark.read.format("mqplug").option("url", url).option("subscribe", "orders")


def row(number: int, partition: int) -> Record:
    """A 1 KiB record that begins with its number."""
    return Record(b"%-1024d" % number, partition=partition)


@contextmanager
def owned(url: str, owner: str) -> Iterator[Callable[[], None]]:
    """Open the store in the owner. Yield a function that ends the owner abruptly."""
    if owner == "driver":
        with mqplug.connect(url) as client:
            yield client.close
    elif owner == "served":
        command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", url.removeprefix("rocksmq://")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            try:
                yield process.kill
            finally:
                process.kill()
    else:
        yield lambda: None


def numbers_by_partition(frame: DataFrame) -> dict[int, list[int]]:
    """The numbers of each partition's rows, in order."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for partition, number in frame.selectExpr("partition", "int(trim(string(value))) AS number").collect():
        found[partition].append(number)
    return found


def held_up(frame: DataFrame, folder: Path) -> DataFrame:
    """The same rows, but each task waits before its first row until the file ``go`` exists."""
    holding, go = folder / "holding", folder / "go"

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time
        import uuid

        for number, batch in enumerate(batches):
            if number == 0:
                (holding / uuid.uuid4().hex).touch()
                end = time.monotonic() + 100
                while not go.exists():
                    assert time.monotonic() < end, "nobody let go"
                    time.sleep(0.01)
            yield batch

    return frame.mapInArrow(hold, frame.schema)


@contextmanager
def in_the_middle(folder: Path, act: Callable[[], None]) -> Iterator[None]:
    """Act when every task waits, then let them continue."""
    (folder / "holding").mkdir()

    def act_and_let_go() -> None:
        try:
            wait_until(lambda: len(list((folder / "holding").iterdir())) >= PARTITIONS, 90)
            act()
        finally:
            (folder / "go").touch()

    with ThreadPoolExecutor(1) as other:
        acted = other.submit(act_and_let_go)
        yield
        acted.result()


@pytest.mark.night
@pytest.mark.parametrize("owner", OWNERS)
def test_a_store_is_read_while_its_owner_ends(orders: DataFrameReader, url: str, owner: str, tmp_path: Path) -> None:
    """Tasks read through the owner's socket, or own the store for a while; they continue if the owner is killed."""
    with owned(url, owner) as end, in_the_middle(tmp_path, end):
        found = numbers_by_partition(held_up(orders.load(), tmp_path))
    assert found == {partition: list(range(ROWS)) for partition in range(PARTITIONS)}

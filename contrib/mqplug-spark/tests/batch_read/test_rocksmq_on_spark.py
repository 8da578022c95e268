"""A RocksMQ store on Spark: one process owns it, and tasks run in others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mqplug
from mqplug import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.python, pytest.mark.timeout(180)]  # the first test that needs Spark starts it


def test_a_store_that_no_process_has_open_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks that find no owner open the store themselves, pass it on to each other, and leave it closed."""
    url = f"rocksmq://{tmp_path}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=4)
        with mq.producer("orders") as out:
            for partition in range(4):
                out.send_many([Record(b"x" * 100, partition=partition)] * 2_000 * (partition + 1))
    frame = spark.read.format("mqplug").option("url", url).option("subscribe", "orders").load()
    counts = dict(frame.groupBy("partition").count().collect())
    assert counts == {partition: 2_000 * (partition + 1) for partition in range(4)}
    with mqplug.connect(url) as mq:
        assert sum(mark.count for mark in mq.watermarks("orders").values()) == 20_000
        mq.create_topic("audit")

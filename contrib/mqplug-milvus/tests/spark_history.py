"""Writes a collection's history and its rows to Parquet with Spark, in a batch and with a stream that continues.

A program of its own: a Spark session belongs to its process, and other tests have theirs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import mqplug
import mqplug_milvus
from mqplug_milvus.spark import changes, current

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main(url: str, name: str, out: Path) -> None:
    """Write `batch` and `stream`, the rows as each way has them, and `history`, which the stream appends to."""
    with mqplug.connect(url) as mq:
        (collection,) = (each for each in mqplug_milvus.collections(mq).values() if each.collection == name)
    spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
    options = {"url": url, "subscribe": ",".join(collection.topics), "startingOffsets": "earliest"}

    batch = spark.read.format("mqplug").options(**options).load()
    current(changes(batch, collection), collection).write.mode("overwrite").parquet(str(out / "batch"))

    stream = spark.readStream.format("mqplug").options(**options).load()
    writer = changes(stream, collection).writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(out / "checkpoint")).start(str(out / "history"))
    query.awaitTermination()
    history = spark.read.parquet(str(out / "history"))
    current(history, collection).write.mode("overwrite").parquet(str(out / "stream"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

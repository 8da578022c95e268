"""The calls of Spark's guides to streaming and to Kafka, with mqplug's format and the backend's options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, over, send
from pyspark.sql import functions
from queries import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)  # the first test that needs Spark or Kafka starts it

READ = ".format('mqplug').option('url', url).option('subscribe', 'FROM').option('startingOffsets', 'earliest')"
WRITE = ".format('mqplug').option('url', url).option('topic', 'TO')"
TEXTS = "selectExpr('CAST(key AS STRING)', 'CAST(value AS STRING)')"

EXAMPLES = {
    "named": "df.TEXTS.writeStream.queryName('copies')WRITE.trigger(availableNow=True).start()",
    "words": "df.select(explode(split(df.value.cast('string'), ' ')).alias('value')).writeStreamWRITE"
    ".trigger(availableNow=True).start()",
    "as arguments": "df.TEXTS.writeStream.trigger(availableNow=True).start("
    "format='mqplug', outputMode='append', queryName='copies', url=url, topic='TO')",
    "topics in rows": "df.selectExpr(\"'TO' as topic\", 'key', 'value').writeStream"
    ".format('mqplug').option('url', url).trigger(availableNow=True).start()",
    "partitioned": "df.TEXTS.writeStream.partitionBy('key')WRITE.trigger(availableNow=True).start()",
    "once": "df.TEXTS.writeStreamWRITE.trigger(once=True).start()",
    "every second": "df.TEXTS.writeStreamWRITE.trigger(processingTime='1 second').start()",
    "without duplicates": "df.withWatermark('timestamp', '10 seconds').dropDuplicates(['value', 'timestamp']).TEXTS"
    ".writeStreamWRITE.trigger(availableNow=True).start()",
    "joined": "df.join(spark.range(100).selectExpr('cast(id as string) as text'), expr('cast(value as string) = text'))"
    ".selectExpr('text as value').writeStreamWRITE.trigger(availableNow=True).start()",
}
"""Streams from the topic FROM into the topic TO. Each writes as many messages as it finds, all of them different."""


@pytest.mark.parametrize("name", ["named", *(pytest.param(each, marks=pytest.mark.night) for each in [*EXAMPLES][1:])])
@over("rocksmq", at_night=["kafka"])
def test_an_example_of_the_guide_runs(
    spark: SparkSession, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path, name: str
) -> None:
    """An example with another format stores the messages that it reads, whatever options Spark adds itself."""
    source, target = make_topic(), make_topic()
    send(cluster, source, 4)
    text = EXAMPLES[name].replace("TEXTS", TEXTS).replace("WRITE", WRITE).replace("TO", target)
    names = {"spark": spark, "url": cluster.url, **vars(functions)}
    exec(f"df = spark.readStream{READ.replace('FROM', source)}.load()", names)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        if name == "every second":
            query = eval(text, names)
            query.processAllAvailable()
            query.stop()
        else:
            finished(lambda: eval(text, names))
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    messages = list(cluster.client.read(target))
    assert len({(message.key, message.value, message.id) for message in messages}) == len(messages) == 4


@over("rocksmq")
def test_a_named_query_reads_into_memory(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """The in-memory table, with which the guide shows results, has the name of the query."""
    send(cluster, topic, 3)
    reader = spark.readStream.format("mqplug").option("url", cluster.url).option("subscribe", topic)
    values = reader.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING)")
    finished(values.writeStream.queryName("in_memory").format("memory").trigger(availableNow=True).start)
    assert sorted(row.value for row in spark.sql("select * from in_memory").collect()) == ["0", "1", "2"]

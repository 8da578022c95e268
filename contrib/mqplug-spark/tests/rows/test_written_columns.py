"""The schema of rows for a write."""

from __future__ import annotations

import pytest
from clusters import Cluster, over
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from mqplug import ConfigError
from mqplug_spark import MqplugDataSource

TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def headers(value: DataType) -> DataType:
    """Headers with values of this type."""
    return ArrayType(StructType().add("key", "string").add("value", value))


def schema(**columns: DataType) -> StructType:
    """A schema of named columns."""
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


def check(written: StructType, topic: str | None, url: str = "kafka://localhost") -> None:
    """Plan a write of rows with this schema. A refused schema is refused before the backend is contacted."""
    MqplugDataSource({"url": url} | ({} if topic is None else {"topic": topic})).writer(written, overwrite=False)


@over("rocksmq")
def test_the_columns_of_spark_sql_kafka_and_timestamp_are_taken(cluster: Cluster, topic: str) -> None:
    """Value and key may be strings or binary."""
    check(schema(value=TEXT), topic, cluster.url)
    check(
        schema(key=BYTES, value=BYTES, topic=TEXT, partition=INT, timestamp=TimestampType(), headers=headers(BYTES)),
        None,
        cluster.url,
    )


@over("rocksmq")
def test_what_was_read_can_be_written(cluster: Cluster, topic: str) -> None:
    """A write accepts all columns of a read, and ignores offset, timestampType and id."""
    options = {"url": cluster.url, "subscribe": topic, "includeHeaders": "true", "includeId": "true"}
    check(MqplugDataSource(options).schema(), topic, cluster.url)


@pytest.mark.parametrize(
    ("columns", "topic", "says"),
    [
        ({"key": TEXT}, "orders", "column 'value' is missing"),
        ({"value": TEXT}, None, "no topic is given"),
        ({"value": TEXT, "keys": TEXT}, "orders", "unknown column 'keys': did you mean 'key'"),
        ({"value": TEXT, "Value": TEXT}, "orders", "unknown column 'Value': did you mean 'value'"),
        ({"value": INT}, "orders", "'value' must be binary or string, not int"),
        ({"value": TEXT, "key": LONG}, "orders", "'key' must be binary or string, not bigint"),
        ({"value": TEXT, "topic": BYTES}, None, "'topic' must be string, not binary"),
        ({"value": TEXT, "partition": LONG}, "orders", r"must be int, not bigint.*cast\('int'\)"),
        ({"value": TEXT, "timestamp": LONG}, "orders", "'timestamp' must be timestamp, not bigint"),
        ({"value": TEXT, "headers": MapType(TEXT, BYTES)}, "orders", "'headers' must be array<struct<key:"),
        ({"value": TEXT, "headers": headers(TEXT)}, "orders", "'headers' must be"),
    ],
)
def test_other_columns_are_named(columns: dict[str, DataType], topic: str | None, says: str) -> None:
    """A column that is unknown, missing or of another type raises ConfigError with its name."""
    with pytest.raises(ConfigError, match=says):
        check(schema(**columns), topic)


def test_two_columns_of_one_name_are_refused() -> None:
    """Spark allows two columns of one name, but a write cannot know which one is meant."""
    with pytest.raises(ConfigError, match="duplicate column 'value'"):
        check(schema(value=TEXT).add("value", "binary"), "orders")

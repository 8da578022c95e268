"""Options of writes, before any request to a broker."""

from __future__ import annotations

import pytest

from mqplug import ConfigError
from mqplug_spark._options.write_options import (
    WriteMark,
    WriteOptions,
    parse_stream_write_options,
    parse_write_options,
)


def options(**given: str) -> WriteOptions:
    """Options of a batch write."""
    return parse_write_options({"url": "kafka://localhost:9092", **given})


def test_a_write_needs_no_options_but_its_backend() -> None:
    """By default, rows name their topics, send_many chooses partitions, and each call writes the rows again."""
    made = options()
    assert (made.topic, made.partitioner, made.mark) == (None, "murmur2", None)


def test_options_are_taken() -> None:
    """Case is ignored in names; includeHeaders is accepted as in spark-sql-kafka."""
    made = options(TOPIC="orders", partitioner="CRC32", Writer="import", number="7", includeHeaders="true")
    assert (made.topic, made.partitioner, made.mark) == ("orders", "crc32", WriteMark("import", 7))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topik": "orders"}, "unknown option 'topik'.*Did you mean 'topic'"),
        ({"path": "orders"}, "save\\(\\) was given a path"),
        ({"subscribe": "orders"}, "unknown option 'subscribe'"),
        ({"topic": ""}, "the option 'topic' must name one topic, not ''"),
        ({"topic": "orders,audit"}, "the option 'topic' must name one topic, not 'orders,audit'"),
        ({"checkpointLocation": "/c"}, "'checkpointLocation' is an option of streams"),
        ({"queryname": "copy"}, "'queryName' is an option of streams"),
        ({"partitioner": "random"}, "unknown partitioner 'random'.*Choose from murmur2"),
        ({"kafka.partitioner.class": "x.Y"}, "it names a Java class"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false"),
        ({"writer": "import"}, "'writer' is given without 'number'"),
        ({"number": "1"}, "'number' is given without 'writer'"),
        ({"writer": "", "number": "1"}, "'writer' must be a name"),
        ({"writer": "w" * 201, "number": "1"}, "'writer' must be a name"),
        ({"writer": "import", "number": "-1"}, "'number' must be a whole number"),
        ({"writer": "import", "number": "1.0"}, "'number' must be a whole number"),
        ({"writer": "import", "number": str(2**63)}, "'number' must be a whole number"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], says: str) -> None:
    """An unknown option or a wrong value raises ConfigError, which says what would be right."""
    with pytest.raises(ConfigError, match=says):
        options(**given)


def test_a_stream_takes_what_spark_hands_down() -> None:
    """Spark passes the name of the query and the location of its checkpoint to the sink of a stream."""
    given = {"url": "kafka://localhost", "topic": "orders", "queryname": "copy", "checkpointlocation": "/c"}
    assert parse_stream_write_options(given).topic == "orders"
    with pytest.raises(ConfigError, match=r"start\(\) was given a path"):
        parse_stream_write_options({**given, "path": "/data"})


def test_a_stream_has_a_mark_of_its_own() -> None:
    """A streaming write is marked with its query and batch, so it refuses the options that mark a batch write."""
    with pytest.raises(ConfigError, match="foreachBatch"):
        parse_stream_write_options({"url": "kafka://localhost", "writer": "import", "number": "1"})

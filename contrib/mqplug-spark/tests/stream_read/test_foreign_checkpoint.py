"""Reading the position of a stopped query of spark-sql-kafka from its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqplug import ConfigError
from mqplug_spark._ranges.read_range import Partition
from mqplug_spark._stream_read.initial_offset import read_places

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def write(folder: Path, name: str, *lines: str) -> None:
    """Write one file of a checkpoint."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines))


def offsets(*numbers: int, topic: str = "orders") -> str:
    """The offsets of a topic in the connector's format."""
    return json.dumps({topic: dict(enumerate(numbers))}, separators=(",", ":"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query that finished batches 9 and 10 and planned 11."""
    for batch in (9, 10, 11):
        write(tmp_path, f"offsets/{batch}", "v1", METADATA, offsets(batch * 10, batch))
    write(tmp_path, "offsets/.11.crc", "x")
    for batch in (9, 10):
        write(tmp_path, f"commits/{batch}", "v1", "{}")
    return tmp_path


def places(*numbers: int, topic: str = "orders") -> dict[Partition, int]:
    """The offsets of a topic by partition."""
    return {Partition(topic, partition): number for partition, number in enumerate(numbers)}


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_query_goes_on_behind_the_last_batch_that_is_done(checkpoint: Path, scheme: str) -> None:
    """Batch 11 was planned but not done, so it is planned anew."""
    assert read_places(f"{scheme}{checkpoint}/") == places(100, 10)


def test_a_query_that_finished_no_batch_begins_where_it_began(tmp_path: Path) -> None:
    """If no batch is done, only the source's own file has the start. Its first byte is not text."""
    write(tmp_path, "offsets/0", "v1", METADATA, offsets(70, 7))
    write(tmp_path, "sources/0/0", "\0v1", offsets(40, 4))
    assert read_places(str(tmp_path)) == places(40, 4)


def test_other_sources_of_the_query_are_passed_over(checkpoint: Path) -> None:
    """A query may combine topics with files and rates; several Kafka sources are read together."""
    lines = ["-", '{"logOffset":3}', "17", offsets(5), offsets(6, topic="audit")]
    write(checkpoint, "offsets/10", "v1", METADATA, *lines)
    assert read_places(str(checkpoint)) == places(5) | places(6, topic="audit")


def test_a_source_may_have_a_name(checkpoint: Path) -> None:
    """Newer logs put the name of the source before its offset."""
    write(checkpoint, "offsets/10", "v2", METADATA, f"source-0:{offsets(5)}")
    assert read_places(str(checkpoint)) == places(5)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "holds no batch: its folder offsets has no files"),
        ({"offsets/0": ["v1", METADATA, "17"], "commits/0": ["v1", "{}"]}, "holds no Kafka offsets"),
        ({"offsets/0": ["v1", METADATA, offsets(5)]}, "holds no Kafka offsets"),
        (
            {"offsets/0": ["v1", METADATA, offsets(5), offsets(6)], "commits/0": ["v1", "{}"]},
            r"reads orders\[0\] with two sources",
        ),
        ({"commits/3": ["v1", "{}"]}, r"cannot be read .*offsets/3"),
    ],
)
def test_a_folder_that_is_no_such_checkpoint_is_named(tmp_path: Path, files: dict[str, list[str]], says: str) -> None:
    """The error says what is wrong with the folder, and which one to name."""
    for name, lines in files.items():
        write(tmp_path, name, *lines)
    with pytest.raises(ConfigError, match=says) as refused:
        read_places(str(tmp_path))
    assert str(tmp_path) in str(refused.value)
    assert "checkpointLocation" in str(refused.value)


def test_a_relative_path_is_one_of_the_driver(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is resolved like Spark's checkpointLocation, and an error shows the whole path."""
    monkeypatch.chdir(checkpoint.parent)
    assert read_places(checkpoint.name) == places(100, 10)
    with pytest.raises(ConfigError, match=f"'{checkpoint.parent}/elsewhere' holds no batch"):
        read_places("elsewhere")


@pytest.mark.parametrize("path", ["wasb://container/x", "dbfs:/x"])
def test_other_file_systems_are_refused_by_name(path: str) -> None:
    """A file system that the driver's Python cannot read is an immediate error."""
    with pytest.raises(ConfigError, match=r"startingOffsets: the checkpoint .* cannot be read by the driver's Python"):
        read_places(path)

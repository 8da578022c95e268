"""Reading the position of a stopped query of spark-sql-kafka from its checkpoint."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from planned_marks import client
from reads import COLUMNS

import mqplug
from mqplug import ConfigError, Position
from mqplug_spark import MqplugDataSource

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


def start_of(path: str, **partitions: int) -> dict[str, list[int]]:
    """Return the offsets by topic at which a query of topics with as many partitions begins."""
    partitions = partitions or {"orders": 2}
    held = client(**{topic: [(0, 1000)] * count for topic, count in partitions.items()})
    given = {"url": f"kafka://{uuid.uuid4().hex}", "subscribe": ",".join(partitions)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mqplug, "connect", lambda *_, **__: held)
        reader = MqplugDataSource({**given, "startingOffsets": f"checkpoint:{path}"}).streamReader(COLUMNS)
        begun = reader.initialOffset()
    return {
        topic: [Position.parse(text).coordinates[0] for _, text in sorted(texts.items())]
        for topic, texts in begun.items()
    }


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_query_goes_on_behind_the_last_batch_that_is_done(checkpoint: Path, scheme: str) -> None:
    """Batch 11 was planned but not done, so it is planned anew."""
    assert start_of(f"{scheme}{checkpoint}/") == {"orders": [100, 10]}


def test_a_query_that_finished_no_batch_begins_where_it_began(tmp_path: Path) -> None:
    """If no batch is done, only the source's own file has the start. Its first byte is not text."""
    write(tmp_path, "offsets/0", "v1", METADATA, offsets(70, 7))
    write(tmp_path, "sources/0/0", "\0v1", offsets(40, 4))
    assert start_of(str(tmp_path)) == {"orders": [40, 4]}


def test_other_sources_of_the_query_are_passed_over(checkpoint: Path) -> None:
    """A query may combine topics with files and rates; several Kafka sources are read together."""
    lines = ["-", '{"logOffset":3}', "17", offsets(5), offsets(6, topic="audit")]
    write(checkpoint, "offsets/10", "v1", METADATA, *lines)
    assert start_of(str(checkpoint), orders=1, audit=1) == {"orders": [5], "audit": [6]}


def test_a_source_may_have_a_name(checkpoint: Path) -> None:
    """Newer logs put the name of the source before its offset."""
    write(checkpoint, "offsets/10", "v2", METADATA, f"source-0:{offsets(5)}")
    assert start_of(str(checkpoint), orders=1) == {"orders": [5]}


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
        start_of(str(tmp_path))
    assert str(tmp_path) in str(refused.value)
    assert "checkpointLocation" in str(refused.value)


def test_a_relative_path_is_one_of_the_driver(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is resolved like Spark's checkpointLocation, and an error shows the whole path."""
    monkeypatch.chdir(checkpoint.parent)
    assert start_of(checkpoint.name) == {"orders": [100, 10]}
    with pytest.raises(ConfigError, match=f"'{checkpoint.parent}/elsewhere' holds no batch"):
        start_of("elsewhere")


@pytest.mark.parametrize("path", ["wasb://container/x", "dbfs:/x"])
def test_other_file_systems_are_refused_by_name(path: str) -> None:
    """A file system that the driver's Python cannot read is an immediate error."""
    with pytest.raises(ConfigError, match=r"startingOffsets: the checkpoint .* cannot be read by the driver's Python"):
        start_of(path)

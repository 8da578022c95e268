"""Where a new query begins: as its options say, or where a query of spark-sql-kafka stopped.

``startingOffsets=checkpoint:PATH`` reads that position from the checkpoint of the stopped query. Spark writes
``offsets/N`` when it plans batch N, and ``commits/N`` when the batch is done. The query continues after the last batch
that is done; a batch that was only planned is planned anew. If no batch is done, the query begins where the old one
began, which ``sources/0/0`` records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqplug import EARLIEST, Client, ConfigError, Watermarks
from mqplug_spark._options.bounds import Bound, Offset, Point
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.data_loss import LossReports, what_is_left
from mqplug_spark._ranges.positions import resolve_bound
from mqplug_spark._ranges.read_range import Partition
from mqplug_spark._stream_read.backlog import Marks, present
from mqplug_spark._stream_read.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Places = dict[Partition, int]

_BATCH: Final = re.compile(r"(?:.*/)?([0-9]+)", re.ASCII)
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:/")
_HADOOP_SCHEME: Final = re.compile("s3[an]://")
_NAMED_SOURCE: Final = re.compile(r"^[^{\s]*:(?=\{)")  # newer logs name the source of a line


def initial_offset(client: Client, options: ReadOptions, losses: LossReports) -> StreamOffset:
    """Return the position that the options name in each partition. A position that retention removed is a loss."""
    marks = present(client, options.topics)
    bound = options.starting
    if options.checkpoint is not None:
        bound = _taken_over(options.checkpoint, read_places(options.checkpoint), marks, losses)
    by_topic: dict[str, dict[int, Watermarks]] = {}
    for (topic, number), mark in marks.items():
        by_topic.setdefault(topic, {})[number] = mark
    found = resolve_bound(client, bound, by_topic, options.timestamp_strategy)
    return StreamOffset(
        {each: what_is_left(client, found[each.topic][each.number], mark, options) for each, mark in marks.items()}
    )


def _taken_over(path: str, places: Places, marks: Marks, losses: LossReports) -> Bound:
    """Return the start at a checkpoint's offsets; at EARLIEST in partitions that the old query did not know."""
    topics = {partition.topic for partition in marks}
    for partition in sorted(places.keys() - marks.keys()):
        if partition.topic not in topics:
            raise ConfigError(
                f"startingOffsets: the checkpoint {path!r} belongs to a query that also reads {partition.topic!r}",
                topic=partition.topic, operation="plan a stream", fix="Read the same topics",
            )  # fmt: skip
        losses.report(partition, f"{partition} is gone; the stopped query read it up to {places[partition]}")
    each: dict[str, dict[int, Point]] = {topic: {} for topic in topics}
    for partition in marks:
        known = partition in places
        each[partition.topic][partition.number] = Offset(places[partition]) if known else EARLIEST
    return Bound("startingOffsets", each=each)


def read_places(path: str) -> Places:
    """Return the offsets at which a checkpoint's query continues. Raise ``ConfigError`` if it has no Kafka offsets."""
    from pyarrow import ArrowException

    if not _SCHEME.match(path):
        path = str(Path(path).absolute())  # on the driver, as Spark reads a relative checkpointLocation
    try:
        files, folder = _file_system(path)
        return _Checkpoint(path, files, folder.rstrip("/")).places()
    except (OSError, ArrowException) as error:
        raise _unusable(path, f"cannot be read by the driver's Python: {error}") from None


def _file_system(path: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    if path.startswith("/"):
        return LocalFileSystem(), path
    found: tuple[FileSystem, str] = FileSystem.from_uri(_HADOOP_SCHEME.sub("s3://", path))
    return found


class _Checkpoint:
    """The files of one checkpoint."""

    def __init__(self, path: str, files: FileSystem, folder: str) -> None:
        self._path = path
        self._files = files
        self._folder = folder

    def places(self) -> Places:
        done = self._batches("commits")
        if done:
            return self._of_sources(self._read(f"offsets/{max(done)}").splitlines()[2:])
        if not self._batches("offsets"):
            raise _unusable(self._path, "holds no batch: its folder offsets has no files")
        lines = [self._read(f"sources/{number}/0") for number in self._batches("sources")]
        return self._of_sources([line[line.find("{") :] for line in lines])

    def _of_sources(self, lines: list[str]) -> Places:
        """Return the offsets of a query's Kafka sources. Only they name topics and partitions."""
        found: Places = {}
        for line in lines:
            for partition, offset in _kafka_offsets(_NAMED_SOURCE.sub("", line, count=1)):
                if partition in found:
                    raise _unusable(self._path, f"reads {partition} with two sources")
                found[partition] = offset
        if not found:
            raise _unusable(self._path, "holds no Kafka offsets")
        return found

    def _batches(self, folder: str) -> list[int]:
        from pyarrow.fs import FileSelector

        listed = self._files.get_file_info(FileSelector(f"{self._folder}/{folder}", allow_not_found=True))
        return sorted(int(match[1]) for each in listed if (match := _BATCH.fullmatch(each.path)))

    def _read(self, name: str) -> str:
        with self._files.open_input_stream(f"{self._folder}/{name}") as file:
            return bytes(file.read()).decode()


def _kafka_offsets(line: str) -> Iterator[tuple[Partition, int]]:
    try:
        stored: Any = json.loads(line)
    except json.JSONDecodeError:
        return
    if not isinstance(stored, dict):
        return
    for topic, partitions in stored.items():
        if not isinstance(partitions, dict):
            continue
        for number, offset in partitions.items():
            if number.isascii() and number.isdigit() and isinstance(offset, int):
                yield Partition(topic, int(number)), offset


def _unusable(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"startingOffsets: the checkpoint {path!r} {why}", operation="plan a stream",
        fix="Name the checkpointLocation of the stopped query",
    )  # fmt: skip

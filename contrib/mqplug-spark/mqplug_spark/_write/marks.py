"""The marks of exactly-once writes: records of one topic, in the same transactions as the rows.

The mark of a committed task holds a fingerprint of its rows. So a repeated write finds what is already stored, however
it divides the rows. Group offsets would not do, because they cannot be listed. The topic is compacted: it keeps the
last mark of each task of each writer.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from itertools import repeat
from operator import xor
from typing import Any, Final
from weakref import WeakKeyDictionary
from zlib import crc32

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from mqplug import EARLIEST, AccessDenied, Client, ConfigError, MessageId, Producer, Start, TopicNotFound, after
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.write_options import WriteOptions

_NULL: Final = b"\0mqplug null\xff"  # stands for None, which differs from an empty value
_MASK: Final = 0xFFFF_FFFF
_STEP_ROWS: Final = 512  # at a time, so that their bytes stay in the processor's cache

PARTITIONS: Final = 8
READ_TIMEOUT_S: Final = 90.0  # longer than the default limit of a transaction, which a killed task leaves open
SEND_TIMEOUT_S: Final = 30.0
MAX_KEPT: Final = 64  # writers whose marks a process remembers
_OF_KAFKA: Final = {"cleanup.policy": "compact", "segment.bytes": 16 << 20, "min.cleanable.dirty.ratio": 0.1}


@attrs.define
class Fingerprint:
    """The number of a task's rows in all topics, and a checksum that ignores their order."""

    rows: int = 0
    checksum: int = 0

    def add(self, topic: str, columns: pa.RecordBatch) -> None:
        """Add rows."""
        for first in range(0, len(columns), _STEP_ROWS):
            self._add(topic, columns.slice(first, _STEP_ROWS))

    def _add(self, topic: str, columns: pa.RecordBatch) -> None:
        sums = [crc32(topic.encode())] * len(columns)
        for name in ("partition", "timestamp"):
            if name in columns.schema.names:
                numbers = pc.fill_null(columns.column(name).cast(pa.int64()), -1).to_pylist()
                sums = [(each * 0x9E37_79B1 + number) & _MASK for each, number in zip(sums, numbers, strict=True)]
        for name in ("key", "value"):
            texts = _texts(columns, name)
            sums = list(map(crc32, texts, map(xor, sums, map(len, texts))))
        if "headers" in columns.schema.names:
            headers = columns.column("headers").to_pylist()
            sums = [crc32(repr(each or []).encode(), start) for each, start in zip(headers, sums, strict=True)]
        self.rows += len(columns)
        self.checksum = (self.checksum + sum(sums)) & 0xFFFF_FFFF_FFFF_FFFF


def _texts(columns: pa.RecordBatch, name: str) -> list[bytes]:
    if name not in columns.schema.names:
        return list(repeat(_NULL, len(columns)))
    column = columns.column(name)
    filled = pc.fill_null(column, _NULL) if column.null_count else column
    texts: list[bytes] = filled.to_pylist()
    return texts


@attrs.frozen
class Mark:
    """The rows that a task committed under a number, in one execution of the write."""

    number: int
    execution: str
    rows: Fingerprint


@attrs.frozen
class Look:
    """Whether the rows of a repeated task are the same as those committed before; None while it compares them."""

    number: int
    execution: str
    same: bool | None


class Marks:
    """The marks of one writer, as of the last ``read``."""

    def __init__(self, topic: str, writer: str) -> None:
        self._topic = topic
        self._writer = writer
        self._partition = crc32(writer.encode()) % PARTITIONS
        self._last: MessageId | None = None
        self.by_task: dict[int, Mark] = {}
        self.looks: dict[int, Look] = {}
        self.done = -1
        """The highest number under which all rows are stored."""

    def read(self, client: Client) -> None:
        """Read the new marks up to the current end. Wait for a transaction that is open there."""
        start: Start = EARLIEST if self._last is None else after(self._last)
        for message in client.read(
            self._topic, start=start, partitions=[self._partition], missing="next", timeout=READ_TIMEOUT_S
        ):
            self._last = message.id
            if message.key and message.value:
                writer, kind, task = json.loads(message.key)
                if writer == self._writer:
                    self._take(kind, task, json.loads(message.value))

    def _take(self, kind: str, task: int, said: Mapping[str, Any]) -> None:
        if kind == "done":
            self.done = max(self.done, said["number"])
        elif kind == "rows":
            rows = Fingerprint(said["rows"], int(said["sum"], 16))
            self.by_task[task] = Mark(said["number"], said["execution"], rows)
        elif kind == "look":
            self.looks[task] = Look(said["number"], said["execution"], said["same"])

    def of_others(self, number: int, execution: str) -> dict[int, Mark]:
        """Return the marks of other executions of the write under a number, by task."""
        return {
            task: mark for task, mark in self.by_task.items() if mark.number == number and mark.execution != execution
        }

    def looks_of(self, number: int, execution: str) -> dict[int, Look]:
        """Return the looks of an execution's tasks, by task."""
        return {task: look for task, look in self.looks.items() if (look.number, look.execution) == (number, execution)}

    def rows_record(self, task: int, mark: Mark) -> dict[str, Any]:
        """Return the record of a task's mark, to send in its transaction."""
        return self._record(
            "rows", task, number=mark.number, execution=mark.execution, rows=mark.rows.rows,
            sum=f"{mark.rows.checksum:x}",
        )  # fmt: skip

    def store_look(self, client: Client, task: int, look: Look) -> None:
        """Store what a task found, for the other tasks."""
        self._store(client, self._record("look", task, number=look.number, execution=look.execution, same=look.same))

    def store_done(self, client: Client, number: int) -> None:
        """Record for later writes that all rows of this number are stored."""
        self._store(client, self._record("done", 0, number=number))

    def _record(self, kind: str, task: int, **said: object) -> dict[str, Any]:
        key, value = json.dumps([self._writer, kind, task]), json.dumps(said)
        return {"value": value.encode(), "key": key.encode(), "partition": self._partition, "topic": self._topic}

    def _store(self, client: Client, record: Mapping[str, Any]) -> None:
        out = _outs.get(client)
        if out is None:
            out = _outs.setdefault(client, client.producer())
        out.send(**record, timeout=SEND_TIMEOUT_S)


_outs: WeakKeyDictionary[Client, Producer] = WeakKeyDictionary()  # opening one takes longer than sending
_kept: OrderedDict[tuple[BackendSettings, str, str], Marks] = OrderedDict()


def marks_of(options: WriteOptions, writer: str) -> Marks:
    """Return the marks of a writer, with those that this process has already read."""
    key = (options.backend, options.marks_topic, writer)
    marks = _kept.setdefault(key, Marks(options.marks_topic, writer))
    _kept.move_to_end(key)
    while len(_kept) > MAX_KEPT:
        _kept.popitem(last=False)
    return marks


def prepare_marks(client: Client, topic: str) -> None:
    """Create the topic of marks if it does not exist."""
    try:
        there = len(client.partitions(topic))
    except TopicNotFound:
        there = PARTITIONS
        _create(client, topic)
    if there < PARTITIONS:
        raise ConfigError(
            f"the topic of marks, {topic!r}, has {there} partitions, but needs {PARTITIONS}",
            topic=topic, operation="write", fix="Name another topic with option('marksTopic', ...)",
        )  # fmt: skip


def _create(client: Client, topic: str) -> None:
    options = _OF_KAFKA if client.backend == "kafka" else None
    try:
        client.create_topic(topic, partitions=PARTITIONS, options=options, exist_ok=True)
    except AccessDenied as error:
        error.fix = (
            f"Ask an administrator for the topic, with {PARTITIONS} partitions and cleanup.policy=compact, and for the "
            "rights to read and write it. If it has another name, set option('marksTopic', ...)"
        )
        raise

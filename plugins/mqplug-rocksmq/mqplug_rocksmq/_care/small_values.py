"""The small values of a store, decoded by kind; undecodable ones become findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import attrs

from mqplug import Corrupt
from mqplug_rocksmq._care.damage import SurveyReport, UnreadableKeys, read_around_damage
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._format.hand_out_notes import read_note
from mqplug_rocksmq._format.keys import (
    CHANGES,
    COUNTER,
    GROUP,
    HANDED_OUT,
    INGESTED_RUN,
    INTENT,
    LOG,
    NOT_UNDERSTOOD,
    STEP_MARK,
    STORE,
    TIME,
    TOPIC,
    TRANSACTION,
    IngestedRun,
    LogRecord,
    StoredPosition,
    TimeMark,
    group_of,
    log_of,
    read_count,
    read_ingested_run,
    read_json,
    read_log_changes,
    read_log_value,
    read_mark,
    read_position,
    read_step_mark,
)
from mqplug_rocksmq._store.ingest import Intent
from mqplug_rocksmq._store.topics import Topic
from mqplug_rocksmq._store.transactions import HeldName

_FIRST_FORMAT_WITH_COPIES = 3
_KIND_NAMES = {
    STORE: "the id of the store",
    COUNTER: "the number of the next log",
    CHANGES: "the number of changes",
    TOPIC: "a topic",
    LOG: "the record of a log",
    TIME: "an entry of the time index",
    GROUP: "the position of a group",
    HANDED_OUT: "a hand-out note",
    INGESTED_RUN: "an ingested run",
    INTENT: "the intent of an ingest",
    TRANSACTION: "the record of a transaction name",
    STEP_MARK: "the mark of a transaction name",
}


class LogName(NamedTuple):
    """The topic and partition of a log."""

    topic: str
    partition: int


@attrs.define
class SmallValues:
    """All small values of a store. ``other`` has the values that are kept as they are stored."""

    store: str | None = None
    format: int = 0
    counter: int = 0
    changes: int = 0
    topics: dict[str, Topic] = attrs.field(factory=dict)
    owners: dict[int, LogName] = attrs.field(factory=dict)
    records: dict[int, LogRecord] = attrs.field(factory=dict)
    marks: dict[int, dict[int, TimeMark]] = attrs.field(factory=dict)
    places: dict[int, dict[str, StoredPosition]] = attrs.field(factory=dict)
    ingested_runs: dict[int, list[IngestedRun]] = attrs.field(factory=dict)
    segments: set[int] = attrs.field(factory=set)  # of ingested runs or of an unfinished ingest
    other: dict[bytes, bytes] = attrs.field(factory=dict)

    @classmethod
    def read(cls, pages: Pages, report: SurveyReport) -> SmallValues:
        """Read and decode all small values that can be read."""
        contents = cls()
        contents._take_all(pages, "meta", "small values", report)
        contents._take_copies(pages, report)
        for topic in contents.topics.values():
            contents.owners |= {log: LogName(topic.name, partition) for partition, log in enumerate(topic.logs)}
        return contents

    def _take_copies(self, pages: Pages, report: SurveyReport) -> None:
        """Take the copies of topics whose records are lost, and report topics without a copy."""
        copies = SmallValues()
        copies._take_all(pages, "default", "copies of topics", report)
        for name in copies.topics.keys() - self.topics.keys():
            report.add("the record of this topic is missing, and only its copy is left", name)
        if self.format >= _FIRST_FORMAT_WITH_COPIES:
            for name in self.topics.keys() - copies.topics.keys():
                report.add("the copy of this topic's record is missing", name)
        self.topics = copies.topics | self.topics

    def _take_all(self, pages: Pages, family: str, what: str, report: SurveyReport) -> None:
        """Take all of a column family that can be read, and report the rest."""
        for each in read_around_damage(pages, family):
            if isinstance(each, UnreadableKeys):
                report.add(f"{what} from {each.start!r} on cannot be read: {each.error.message}")
            else:
                self._take(*each, report)

    def _take(self, key: bytes, value: bytes, report: SurveyReport) -> None:
        put = self._READERS.get(key[:1])
        if put is None or (len(key) > 1 and key[:1] in (STORE, COUNTER, CHANGES)):
            self.other[key] = value
            return
        try:
            put(self, key, value)
        except (Corrupt, *NOT_UNDERSTOOD):
            report.add(f"{_KIND_NAMES[key[:1]]} under {key!r} cannot be understood: {value[:40]!r}")

    def _topic(self, key: bytes, value: bytes) -> None:
        topic = Topic.read(key, value)
        self.topics[topic.name] = topic

    def _store(self, _: bytes, value: bytes) -> None:
        stored = read_json(value)
        self.store, self.format = str(stored["id"]), int(stored["format"])

    def _mark(self, key: bytes, value: bytes) -> None:
        mark = read_mark(key, value)
        self.marks.setdefault(log_of(key), {})[mark.base] = mark

    def _place(self, key: bytes, value: bytes) -> None:
        self.places.setdefault(log_of(key), {})[group_of(key)] = read_position(value)

    def _ingested_run(self, key: bytes, value: bytes) -> None:
        run = read_ingested_run(key, value)
        self.ingested_runs.setdefault(log_of(key), []).append(run)
        self.segments.add(run.segment)

    def _intent(self, _: bytes, value: bytes) -> None:
        self.segments |= {file.segment for file in Intent.read(value).files}

    def _handed(self, key: bytes, value: bytes) -> None:
        read_note(value)
        self.other[key] = value

    def _transaction(self, key: bytes, value: bytes) -> None:
        HeldName.read(value)
        self.other[key] = value

    def _step_mark(self, key: bytes, value: bytes) -> None:
        read_step_mark(value)
        self.other[key] = value

    def _record(self, key: bytes, value: bytes) -> None:
        self.records[log_of(key)] = read_log_value(value)
        self.changes = max(self.changes, read_log_changes(value))

    def _counter(self, _: bytes, value: bytes) -> None:
        self.counter = read_count(value)

    def _changes(self, _: bytes, value: bytes) -> None:
        self.changes = max(self.changes, read_count(value))

    _READERS: ClassVar[dict[bytes, Callable[[SmallValues, bytes, bytes], None]]] = {
        STORE: _store,
        COUNTER: _counter,
        CHANGES: _changes,
        TOPIC: _topic,
        LOG: _record,
        TIME: _mark,
        GROUP: _place,
        HANDED_OUT: _handed,
        INGESTED_RUN: _ingested_run,
        INTENT: _intent,
        TRANSACTION: _transaction,
        STEP_MARK: _step_mark,
    }

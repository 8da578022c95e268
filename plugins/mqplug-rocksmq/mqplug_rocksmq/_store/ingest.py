"""Ingestion of staged files: all or none, and only once, even if the process is killed.

It takes three durable steps. An intent records the batch to ingest. RocksDB ingests the files, all or none, into
segments that no log uses. One write makes them the next messages of their logs, records the batch for its writer, and
removes the intent. The next opener of the store resumes after the last completed step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from mqplug import ConfigError, Corrupt, Error, OutcomeUnknown, StorageFull, Timeout
from mqplug.spi import Deadline
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.engine import WriteReceipt
from mqplug_rocksmq._engine.log_state import LogState
from mqplug_rocksmq._engine.rocks import MAX_KEY_OFFSET, Changes
from mqplug_rocksmq._format.keys import (
    COUNTER,
    FREED,
    INTENT,
    WRITER,
    IngestedRun,
    TimeMark,
    ingested_run_key,
    ingested_run_value,
    json_value,
    log_key,
    log_value,
    mark_key,
    mark_value,
    range_value,
    read_count,
    read_json,
)
from mqplug_rocksmq._format.page import message_count
from mqplug_rocksmq._store.offset_leases import lease_offsets
from mqplug_rocksmq._store.staging import StagedFile, StagedRun, StagingDirectory, files_from_json, files_to_json

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.engine import Engine
    from mqplug_rocksmq._engine.tuning import Tuning
    from mqplug_rocksmq._store.retention import RetentionWorker
    from mqplug_rocksmq._store.topics import TopicTable

T = TypeVar("T")
_log = logging.getLogger("mqplug.rocksmq")
_STAGE_AGAIN: Final = "Stage the messages again"
_INGEST_AGAIN: Final = "Repeat the ingest: a batch is ingested once"
_UNDO_S: Final = 10.0


class IngestOutcome(NamedTuple):
    """The result of a batch: its messages and their offsets by log. *repeated*: it had been ingested before."""

    messages: int
    placed: dict[int, tuple[int, int]]  # by log: the first offset, and the one after the last
    repeated: bool = False


class Intent(NamedTuple):
    """A batch that is about to be ingested."""

    writer: str
    number: int
    files: Sequence[StagedFile]

    @property
    def value(self) -> bytes:
        """The stored form of the intent."""
        return json_value({"writer": self.writer, "number": self.number, "files": files_to_json(self.files)})

    @classmethod
    def read(cls, value: bytes) -> Intent:
        """Return the intent from its stored value."""
        said = read_json(value)
        return cls(said["writer"], said["number"], files_from_json(said["files"]))

    @property
    def runs(self) -> list[tuple[int, StagedRun]]:
        """All runs, each with its segment."""
        return [(file.segment, run) for file in self.files for run in file.runs]


class Ingestion:
    """Ingests staged files, one batch at a time."""

    def __init__(
        self, engine: Engine, topics: TopicTable, staging: StagingDirectory, retention: RetentionWorker, tuning: Tuning
    ) -> None:
        self._staging = staging
        self._most = None if tuning.budget_bytes is None else tuning.budget_bytes // 2
        self._engine = engine
        self._topics = topics
        self._grew = retention.grew
        self._busy = threading.Lock()

    def ingest(
        self, writer: str, number: int, files: Sequence[StagedFile], timeout: float | None = None
    ) -> IngestOutcome:
        """Ingest files, unless this or a larger number of the writer has been ingested."""
        deadline = Deadline(timeout)
        with self._exclusively(deadline):
            self._finish(deadline)
            if known := self._known(writer, number):
                self._staging.remove(file.segment for file in files)
                return known
            for file in files:
                self._check(file)
                _left(deadline)
            return self._ingest(Intent(writer, number, files), deadline)

    def reserve(self, timeout: float | None = None) -> int:
        """Return the number of a new segment, for a file to stage."""
        if self._most is not None and self._staging.size() > self._most:
            raise StorageFull(
                f"more than {self._most} bytes are already staged, and disk_max_bytes leaves no space for more",
                fix="Ingest or discard the staged messages, or raise disk_max_bytes",
            )
        return self._topics.reserve(timeout)

    def recover(self) -> None:
        """Finish the ingest that an earlier owner did not complete."""
        try:
            deadline = Deadline(None)
            with self._exclusively(deadline):
                self._finish(deadline)
        except StorageFull:
            _log.warning(
                "the disk is full: a staged batch whose ingest was interrupted will be ingested once there is space"
            )

    def discard(self, files: Sequence[StagedFile], timeout: float | None = None) -> None:
        """Remove staged files, unless they were ingested. An interrupted ingest of them is undone."""
        deadline = Deadline(timeout)
        segments = {file.segment for file in files}
        with self._exclusively(deadline):
            intent = self._intent()
            if intent and segments & {file.segment for file in intent.files}:
                self._undo()
            self._staging.remove(segments)

    @contextmanager
    def _exclusively(self, deadline: Deadline) -> Iterator[None]:
        if not self._busy.acquire(timeout=deadline.remaining(threading.TIMEOUT_MAX)):
            raise Timeout("another ingest did not finish in time", fix=_INGEST_AGAIN, backend="rocksmq")
        try:
            yield
        finally:
            self._busy.release()

    # earlier batches --------------------------------------------------------------------------------------

    def _known(self, writer: str, number: int) -> IngestOutcome | None:
        with self._engine.lock:
            self._engine.check()
            stored = self._engine.pages.get(_writer_key(writer))
        if stored is None:
            return None
        last = read_json(stored)
        if number > last["number"]:
            return None
        if number < last["number"]:
            return IngestOutcome(0, {}, repeated=True)
        return IngestOutcome(last["messages"], {log: (first, end) for log, first, end in last["placed"]}, repeated=True)

    def _check(self, file: StagedFile) -> None:
        """Raise unless this file can be ingested."""
        for run in file.runs:
            self._topics.log(run.log)
        self._staging.verify(file)
        with self._engine.lock:
            self._engine.check()
            pages = self._engine.pages
            given_out = read_count(pages.get(COUNTER))
            used = self._topics.find(file.segment) is not None or pages.last(file.segment) is not None
        if file.segment >= given_out or used:
            raise ConfigError(f"the segment {file.segment} was not reserved for staging", fix=_STAGE_AGAIN)

    # the three steps ---------------------------------------------------------------------------------------

    def _ingest(self, intent: Intent, deadline: Deadline) -> IngestOutcome:
        self._safely(lambda changes: changes.put(INTENT, intent.value), deadline)
        try:
            return self._complete(intent, deadline)
        except Timeout:
            raise  # the next ingest resumes
        except Error as error:
            self._undo_after(error)
            raise

    def _complete(self, intent: Intent, deadline: Deadline) -> IngestOutcome:
        self._ingest_files(intent)
        logs = {run.log: self._topics.log(run.log) for _, run in intent.runs}
        taken = self._safely(lambda changes: self._place(changes, intent, logs), deadline, logs.values())
        self._staging.remove(file.segment for file in intent.files)  # a kill may have left a second link
        grown = sum(run.size for _, run in intent.runs)
        with self._engine.lock:
            self._engine.disk_space.took(grown)
        self._grew(grown, *logs.values())
        return taken

    def _ingest_files(self, intent: Intent) -> None:
        with self._engine.lock:
            self._engine.check()
            pages = self._engine.pages
            # RocksDB ingests all or none, so the first file shows which.
            if intent.files and pages.last(intent.files[0].segment) is None:
                pages.ingest([self._staging.file(file.segment) for file in intent.files])
            for file in intent.files:
                last = pages.last(file.segment)
                if last is None or last[0] + message_count(last[1]) != file.messages:
                    raise Corrupt(
                        f"the file of segment {file.segment} does not match its description", fix=_STAGE_AGAIN
                    )

    def _place(self, changes: Changes, intent: Intent, logs: Mapping[int, LogState]) -> IngestOutcome:
        placed: dict[int, tuple[int, int]] = {}
        for number in logs:
            self._topics.log(number)  # raises if the log has been deleted
        for segment, run in intent.runs:
            log = logs[run.log]
            first, _ = placed.get(run.log, (log.next, 0))
            _append_run(changes, log, segment, run)
            placed[run.log] = first, log.end
        for log in logs.values():
            changes.put(log_key(log.number), log_value(log.record))
        messages = sum(file.messages for file in intent.files)
        listed = [[log, first, end] for log, (first, end) in placed.items()]
        marker = {"number": intent.number, "messages": messages, "placed": listed}
        changes.put(_writer_key(intent.writer), json_value(marker))
        changes.delete(INTENT)
        return IngestOutcome(messages, placed)

    # interrupted ingests ---------------------------------------------------------------------------------

    def _finish(self, deadline: Deadline) -> None:
        """Resume an interrupted ingest, or undo it if it can no longer succeed."""
        intent = self._intent()
        if intent is None:
            return
        try:
            self._complete(intent, deadline)
        except (StorageFull, Timeout):
            raise
        except Error as error:
            _log.warning(
                "the interrupted ingest of batch %d of writer %r was undone: %s", intent.number, intent.writer, error
            )
            self._undo()

    def _intent(self) -> Intent | None:
        with self._engine.lock:
            self._engine.check()
            stored = self._engine.pages.get(INTENT)
        return None if stored is None else Intent.read(stored)

    def _undo_after(self, error: Error) -> None:
        try:
            self._undo()
        except Error as worse:
            raise OutcomeUnknown(
                f"{error.message}; the batch may or may not be ingested later", fix=_INGEST_AGAIN
            ) from worse

    def _undo(self) -> None:
        def plan(changes: Changes) -> None:
            stored = self._engine.pages.get(INTENT)
            for file in Intent.read(stored).files if stored else ():
                changes.drop_pages(file.segment, 0, MAX_KEY_OFFSET)
                changes.put(log_key(file.segment, FREED), range_value(0, MAX_KEY_OFFSET))
            changes.delete(INTENT)

        self._safely(plan, Deadline(_UNDO_S), frees=True)

    def _safely(
        self,
        plan: Callable[[Changes], T],
        deadline: Deadline,
        grown: Iterable[LogState] = (),
        *,
        frees: bool = False,
    ) -> T:
        """Apply changes, which may make logs grow, and sync them in every mode."""
        return self._engine.retried(lambda: self._apply(plan, deadline, grown, frees=frees), deadline.timeout_left())

    def _apply(self, plan: Callable[[Changes], T], deadline: Deadline, grown: Iterable[LogState], *, frees: bool) -> T:
        engine, receipt = self._engine, WriteReceipt()
        with engine.lock, engine.rollback():
            changes = engine.changes(frees=frees)
            result = plan(changes)
            waits = not engine.write(changes, done=receipt)
            try:
                if not waits:
                    engine.durability.sync_locked()
            finally:
                for log in grown:
                    engine.durability.grew(log)
        if waits:
            receipt.wait(_left(deadline))
        return result


def _append_run(changes: Changes, log: LogState, segment: int, run: StagedRun) -> None:
    """Append a run to its log, as an ingested run."""
    ingested = IngestedRun(log.next, segment, run.start, run.messages, log.end)
    now = clock.now_ms()
    for each in run.marks:
        mark = TimeMark(max(log.newest, each.time), ingested.base + each.at, log.size + each.size, now)
        changes.put(mark_key(log.number, mark.time, mark.base), mark_value(mark))
    changes.put(ingested_run_key(log.number, ingested.base), ingested_run_value(ingested))
    log.has_ingested_runs = True
    log.newest = max(log.newest, run.marks[-1].time)
    log.marked_size, log.marked_at, log.marked_time = log.size + run.marks[-1].size, now, log.newest
    log.next = log.end = ingested.end
    log.size += run.size
    log.messages += run.messages
    lease_offsets(log)


def _left(deadline: Deadline) -> float | None:
    """Return the remaining seconds. Raise ``Timeout`` if there are none."""
    if deadline.expired:
        raise Timeout("the staged messages were not ingested in time", fix=_INGEST_AGAIN, backend="rocksmq")
    return deadline.timeout_left()


def _writer_key(writer: str) -> bytes:
    return WRITER + writer.encode()

"""Reads through the compiled part, without a Python object for each message.

The first messages that it reads in a process are compared with the plain client's, and are delivered only if both have
read the same. The comparison may take several polls, so that each stays within its timeout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING

from mqplug import Batch, Error, Log, Position
from mqplug.spi import Headers, Numbers
from mqplug.spi.compiled import CompiledUse
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._consume.client_source import ClientSource
from mqplug_kafka._consume.message_source import Fetched, Name, Offsets, PartitionError, Rows

if TYPE_CHECKING:
    import pyarrow

    from mqplug_kafka_native import Reader, Run


FIRST_MESSAGES = 100  # at most, until they are compared with the plain client's

ANSWER_S = 2.0  # within this time the plain client must have read them
COLUMNS = ("coordinates", "keys", "values", "headers", "timestamps", "log_times")


class CompiledSource:
    """The compiled part's reader as a source of messages. It has a check until one has succeeded in this process."""

    def __init__(self, reader: Reader, check: FirstMessagesCheck | None) -> None:
        self._reader = reader
        self._check = check
        self.assignment = CompiledAssignment(reader)

    @property
    def is_refuted(self) -> bool:
        """Whether another source should replace it, because the check failed or got no answer."""
        return self._check is not None and self._check.has_failed

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for one message, and take the others that have arrived."""
        runs, errors = self._reader.poll(most if self._check is None else min(most, FIRST_MESSAGES), timeout)
        return Fetched(
            [((topic, partition), CompiledRows(run)) for topic, partition, run in runs],
            [PartitionError((topic, partition), offset, error) for topic, partition, offset, error in errors],
        )

    def is_verified(self, fetched: Fetched, timeout: float) -> bool:
        """Return whether the plain client reads the same. Always true after the first success.

        Messages are delivered unverified while no plain client can be made, as with a damaged renewed certificate.
        """
        if self._check is None or not fetched.runs:
            return True
        if not self._check.confirms(fetched, timeout):
            return False
        if self._check.has_succeeded:
            self._check = None
        return True

    def pause(self, names: Iterable[Name]) -> None:
        """Stop fetching these partitions."""
        self._reader.pause([(*name, 0) for name in names])

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again."""
        self._reader.resume([(*name, 0) for name in names])

    def close(self) -> None:
        """End the reader."""
        if self._check is not None:
            self._check.end()
        self._reader.close()


class CompiledAssignment:
    """Partitions are added and removed one by one."""

    restarts_all = False

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def accept(self) -> None:
        """Do nothing: there is no group."""

    def add(self, added: Offsets, held: Offsets) -> None:
        """Fetch more partitions."""
        self._reader.assign([(*name, offset) for name, offset in added.items()])

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        """Stop fetching partitions."""
        self._reader.unassign([(*name, 0) for name in removed])


class CompiledRows:
    """A run of the compiled part. Lists are made on demand; Arrow arrays are views of its memory."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    def next_offset(self) -> int:
        """Return the offset after the last message."""
        return self._run.next_offset()

    def coordinates(self) -> Sequence[Numbers]:
        """Return the offsets."""
        return self._run.coordinates()

    def details(self) -> None:
        """Return None: an offset needs no detail."""

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys."""
        return self._run.keys()

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""
        return self._run.values()

    def headers(self) -> Sequence[Headers]:
        """Return the headers, in order, with their duplicates."""
        return self._run.headers()

    def timestamps(self) -> Sequence[int]:
        """Return creation or arrival times, depending on the topic's configuration."""
        return self._run.times()

    def log_times(self) -> Sequence[int]:
        """Return the timestamps: Kafka keeps one time for each message, and searches by it."""
        return self._run.times()

    def attempts(self) -> None:
        """Return None: Kafka does not count deliveries."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the columns as arrays over the run's memory."""
        from mqplug_kafka._consume.arrow_views import views

        return views(self._run, names)


class FirstMessagesCheck:
    """Reads the fetched messages again with another client, and compares."""

    def __init__(self, create: Callable[[], ClientSource], part: CompiledUse) -> None:
        self._create = create
        self._part = part
        self._reading: _SecondReading | None = None
        self._is_late = False

    @property
    def has_failed(self) -> bool:
        """Whether the plain client reads something different, or did not answer in time."""
        return self._is_late or not self._part.usable("reads")

    @property
    def has_succeeded(self) -> bool:
        """Whether the plain client reads the same."""
        return self._part.is_proven("reads")

    def confirms(self, fetched: Fetched, timeout: float) -> bool:
        """Return whether the plain client is known to read the same, within the timeout, or cannot be made now."""
        if self.has_succeeded:  # by another reader's check
            self.end()
            return True
        if self._reading is None or not self._reading.covers(fetched):
            self.end()
            try:
                self._reading = _SecondReading(self._create(), fetched)
            except Error as error:
                logger.warning("messages are not compared with those of confluent-kafka: %s", error)
                return True
        if not self._reading.is_done(timeout):
            self._is_late = self._reading.is_late
            return False
        difference = self._reading.difference(fetched)
        self.end()
        if difference is not None:
            self._part.refuse("reads", f"it did not read the same as confluent-kafka: {difference}")
            return False
        self._part.prove("reads")
        return True

    def end(self) -> None:
        """End the plain client."""
        if self._reading is not None:
            Thread(target=self._reading.source.close, name="mqplug-kafka-end", daemon=True).start()
            self._reading = None


class _SecondReading:
    """The same offsets, read by a plain client."""

    def __init__(self, source: ClientSource, fetched: Fetched) -> None:
        self.source = source
        self._end = time.monotonic() + ANSWER_S
        first: dict[Name, int] = {}
        self._until: dict[Name, int] = {}
        for name, rows in fetched.runs:
            first.setdefault(name, rows.coordinates()[0][0])
            self._until[name] = rows.next_offset()
        self._left = dict(self._until)
        self._found: dict[Name, list[Rows]] = {name: [] for name in first}
        source.assignment.add(first, first)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._end

    def covers(self, fetched: Fetched) -> bool:
        """Return whether it includes all of these messages."""
        return all(self._until.get(name, 0) >= rows.next_offset() for name, rows in fetched.runs)

    def is_done(self, timeout: float) -> bool:
        """Continue to read. Return whether it has all messages."""
        end = time.monotonic() + timeout
        while self._left:
            for name, rows in self.source.fetch(1000, max(0.0, end - time.monotonic()), lambda: None).runs:
                self._found[name].append(rows)
                if rows.next_offset() >= self._left.get(name, 0):
                    self._left.pop(name, None)
            if time.monotonic() >= end:
                break
        return not self._left

    def difference(self, fetched: Fetched) -> str | None:
        """Return the name of a column that differs, or None."""
        for name in fetched.names:
            ours = [rows for at, rows in fetched.runs if at == name]
            if ours and (found := _difference(name, ours, self._found[name])) is not None:
                return found
        return None


def _difference(name: Name, ours: list[Rows], theirs: list[Rows]) -> str | None:
    """Return the first column that differs within our messages, or None."""
    count = sum(map(len, ours))
    for column in COLUMNS:
        left = [cell for rows in ours for cell in getattr(rows, column)()]
        right = [cell for rows in theirs for cell in getattr(rows, column)()][:count]
        if left != right:
            return f"{column} of partition {name[1]}"
    if "pyarrow" in sys.modules and not _arrow(name, ours).equals(_arrow(name, theirs).slice(0, count)):
        return f"Arrow columns of partition {name[1]}"
    return None


def _arrow(name: Name, runs: list[Rows]) -> pyarrow.Table:
    import pyarrow as pa

    log = Log("kafka", "", *name, "")
    batches = [Batch(log, Position(log, (rows.next_offset(),)), len(rows), rows) for rows in runs]
    names = ["key", "value", "offset", "headers", "timestamp", "log_time", "timestamp_type"]
    return pa.Table.from_batches([each.to_arrow(names) for each in batches]).combine_chunks()

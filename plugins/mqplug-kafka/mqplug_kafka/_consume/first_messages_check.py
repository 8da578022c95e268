"""Compares the first messages that the compiled part reads in a process with those that the plain client reads.

They are delivered only when the plain client has read the same. That takes as many polls as it takes, so that none
lasts longer than it may.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING

from mqplug import Batch, Log, Position
from mqplug_kafka._cluster.native_part import NativePart
from mqplug_kafka._consume.client_source import ClientSource
from mqplug_kafka._consume.message_source import Fetched, Name, Rows

if TYPE_CHECKING:
    import pyarrow

ANSWER_S = 2.0  # until the plain client must have read them
COLUMNS = ("coordinates", "keys", "values", "headers", "timestamps", "log_times")


class FirstMessagesCheck:
    """Reads what was fetched once more, by another client."""

    def __init__(self, create: Callable[[], ClientSource], part: NativePart) -> None:
        self._create = create
        self._part = part
        self._reading: _SecondReading | None = None
        self._is_late = False

    @property
    def has_failed(self) -> bool:
        """Whether the plain client reads something else, or did not answer in time."""
        return self._is_late or not self._part.usable("reads")

    def confirms(self, fetched: Fetched, timeout: float) -> bool:
        """Return whether the plain client reads the same, as far as that is known within the timeout."""
        if self._part.is_proven("reads"):  # by another reader
            self.end()
            return True
        if self._reading is None or not self._reading.covers(fetched):
            self.end()
            self._reading = _SecondReading(self._create(), fetched)
        if not self._reading.is_done(timeout):
            self._is_late = self._reading.is_late
            return False
        difference = self._reading.difference(fetched)
        self.end()
        if difference is not None:
            self._part.refuse("reads", f"it read something else than confluent-kafka: {difference}")
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
            first.setdefault(name, rows.columns().coordinates()[0][0])
            self._until[name] = rows.next_offset()
        self._left = dict(self._until)
        self._found: dict[Name, list[Rows]] = {name: [] for name in first}
        source.assignment.add(first, first)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._end

    def covers(self, fetched: Fetched) -> bool:
        """Return whether it is about these, and perhaps more."""
        return all(self._until.get(name, 0) >= rows.next_offset() for name, rows in fetched.runs)

    def is_done(self, timeout: float) -> bool:
        """Read on. Return whether it has all."""
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
        """Return what differs, or None."""
        for name in fetched.names:
            ours = [rows for at, rows in fetched.runs if at == name]
            if ours and (found := _difference(name, ours, self._found[name])) is not None:
                return found
        return None


def _difference(name: Name, ours: list[Rows], theirs: list[Rows]) -> str | None:
    """Return the first column that differs, up to the end of ours."""
    count = sum(map(len, ours))
    for column in COLUMNS:
        left = [cell for rows in ours for cell in getattr(rows.columns(), column)()]
        right = [cell for rows in theirs for cell in getattr(rows.columns(), column)()][:count]
        if left != right:
            return f"{column} of partition {name[1]}"
    if "pyarrow" in sys.modules and not _arrow(name, ours).equals(_arrow(name, theirs).slice(0, count)):
        return f"Arrow columns of partition {name[1]}"
    return None


def _arrow(name: Name, runs: list[Rows]) -> pyarrow.Table:
    import pyarrow as pa

    log = Log("kafka", "", *name, "")
    batches = [Batch(log, Position(log, (rows.next_offset(),)), len(rows), rows.columns()) for rows in runs]
    names = ["key", "value", "offset", "headers", "timestamp", "log_time", "timestamp_type"]
    return pa.Table.from_batches([each.to_arrow(names) for each in batches]).combine_chunks()

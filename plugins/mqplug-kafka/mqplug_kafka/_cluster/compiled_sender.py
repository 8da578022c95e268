"""Sends through the compiled part, which takes whole runs with all their columns, and returns one report for each."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from mqplug.spi import Run, Sending
from mqplug.spi.compiled import CompiledUse
from mqplug_kafka._cluster.sender import RecordReports, RunReports

if TYPE_CHECKING:
    from mqplug_kafka_native import Report


COLUMNS = ("value", "key", "headers", "timestamp")
ANY_TIME = sys.maxsize


class CompiledSender:
    """The compiled part's sender. Each report goes to the owner of its run, in a thread that polls."""

    def __init__(self, part: CompiledUse, options: dict[str, Any]) -> None:
        self._part = part
        self._sender = part.module.Sender(options)
        self._reports: list[Report] = []
        self.is_unsound = False

    def __len__(self) -> int:
        return len(self._sender) + len(self._reports)

    def send(self, record: Sending, reports: RecordReports) -> None:
        """As ``Sender.send``, as a run of one."""
        headers = (record.headers,) if record.headers else None
        times = None if record.timestamp is None else (record.timestamp,)
        self._sender.send(
            reports, record.topic, record.partition, 1, (record.value,), (record.key,), headers, times, ANY_TIME
        )

    def send_run(self, run: Run, reports: RunReports, future_max: float) -> bool:
        """As ``Sender.send_run``. Refuse the run if a record cannot be stored unchanged.

        Such a record has a header with NUL in its name, or a timestamp that is 0 or too far in the future.
        """
        columns = _columns(run)
        latest = ANY_TIME if columns[3] is None else int((time.time() + future_max) * 1000)
        taken: bool = self._sender.send(reports, run.topic, run.partition, len(run), *columns, latest)
        return taken

    def poll(self, timeout: float) -> None:
        """Wait for reports, and pass on the arrived ones."""
        try:
            self._sender.poll(timeout, self._reports)
        finally:
            self._pass_on()

    def flush(self, timeout: float) -> int:
        """Wait for all reports without lingering, and pass them on. Return how many are missing."""
        try:
            missing: int = self._sender.flush(timeout, self._reports)
        finally:
            self._pass_on()
        return missing

    def _pass_on(self) -> None:
        while self._reports:
            try:
                report = self._reports.pop(0)
            except IndexError:  # another thread was faster
                return
            report.owner.take_report(report)
            if not report.is_sound:
                self.is_unsound = True
                self._part.refuse("sends", "its reports on a run contradicted each other")

    def purge(self) -> None:
        """Drop the records in flight. They are reported as dropped."""
        self._sender.purge()

    def list_topics(self, topic: str, timeout: float) -> None:
        """Learn of a topic's partitions."""
        self._sender.look_at(topic, timeout)

    def init_transactions(self, timeout: float) -> None:
        """Claim the transaction name."""
        self._sender.init_transactions(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._sender.begin_transaction()

    def commit_transaction(self, timeout: float) -> None:
        """Commit it."""
        self._sender.commit_transaction(timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort it."""
        self._sender.abort_transaction(timeout)

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: Any, timeout: float) -> None:
        """Store positions of a group in it."""
        rows = [(each.topic, each.partition, each.offset, each.metadata) for each in positions]
        self._sender.send_offsets_to_transaction(rows, group, timeout)


def _columns(run: Run) -> Sequence[Any]:
    """Return values, keys, headers and timestamps, as Arrow arrays if the run has arrays."""
    arrow = run.arrow(COLUMNS)
    if arrow:
        return [arrow.get(name) for name in COLUMNS]
    return run.values, run.keys, run.headers, run.timestamps

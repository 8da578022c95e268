"""Sends with one call of the native client for each message.

The native client calls back for each message, on a thread of its own. If a callback runs Python, that thread and the
sending one hand the interpreter's lock to each other for each message, which costs more than everything else. So the
messages of a run report to a method written in C, ``dict.setdefault`` of a dictionary for each message: it then holds
the result and the id. Only the last message of a run calls back in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from threading import Event
from typing import Any

from _pulsar import Result

import mqplug
from mqplug.spi import Numbers, Run, Sending
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._produce.native_messages import message_of
from mqplug_pulsar._produce.sent import Lane, settle_duplicate, settle_failed

Report = dict[Any, Any]
"""The native id of a message by its result; empty until it is reported. A message that the native client refused has
the exception, by ``REFUSED``.
"""
REFUSED = None


class PlainReports:
    """Reports that the native client's threads take in by themselves."""

    def __init__(self) -> None:
        self._something = Event()  # was settled since the last wait

    def record(self, sending: Sending, lane: Lane) -> SentRecord:
        return SentRecord(sending, lane)

    def run(self, run: Run, lane: Lane) -> SentRun:
        return SentRun(run, lane)

    def wait(self, timeout: float) -> None:
        self._something.wait(timeout)
        self._something.clear()

    def ring(self) -> None:
        if not self._something.is_set():
            self._something.set()


class SentRecord:
    """One record."""

    __slots__ = ("_lane", "_report", "_sending")

    def __init__(self, sending: Sending, lane: Lane) -> None:
        self._sending = sending
        self._lane = lane
        self._report: Report = {}

    @property
    def is_complete(self) -> bool:
        return bool(self._report)

    def hand_over(self, native: Any) -> None:
        record = self._sending
        try:
            native.send_async(message_of(record.value, record.key, record.headers, record.timestamp), self._reported)
        except Exception as error:  # noqa: BLE001 - refused by the client: it was never sent
            self._reported(REFUSED, error)

    def _reported(self, result: Any, native: Any) -> None:
        self._report[result] = native
        self._lane.reported(self)

    def settle(self) -> None:
        _settle(self._sending, self._report, self._lane)

    def failed(self, error: mqplug.Error) -> None:
        self._sending.failed(error)

    def unknown(self, error: mqplug.Error) -> None:
        self._sending.unknown(error)


class SentRun:
    """The records of a run."""

    __slots__ = ("_lane", "_reports", "_run")

    def __init__(self, run: Run, lane: Lane) -> None:
        self._run = run
        self._lane = lane
        self._reports: list[Report] = []

    @property
    def is_complete(self) -> bool:
        return all(self._reports)

    def hand_over(self, native: Any) -> None:
        run, reports, send_async = self._run, self._reports, native.send_async
        none = repeat(None)
        messages = map(message_of, run.values, run.keys or none, run.headers or repeat(()), run.timestamps or none)
        for left in range(len(run), 0, -1):
            report: Report = {}
            reports.append(report)
            try:
                send_async(next(messages), report.setdefault if left > 1 else self._last_reported)
            except Exception as error:  # noqa: BLE001 - refused by the client: it was never sent
                report[REFUSED] = error
        if REFUSED in reports[-1]:
            self._lane.reported(self)

    def _last_reported(self, result: Any, native: Any) -> None:
        self._reports[-1][result] = native
        self._lane.reported(self)

    def settle(self) -> None:
        places = self._places()
        if places is not None:
            self._run.stored(self._lane.log, *places)
            return
        for sending, report in zip(self._run.sendings(), self._reports, strict=True):
            _settle(sending, report, self._lane)

    def _places(self) -> tuple[Sequence[Numbers], Sequence[Numbers]] | None:
        """Return coordinates and detail of each record; None unless all are stored."""
        if not all(self._reports) or any(REFUSED in report for report in self._reports):
            return None
        return message_ids.places_in_order([native for report in self._reports for native in report.values()])

    def failed(self, error: mqplug.Error) -> None:
        self._run.failed(error)

    def unknown(self, error: mqplug.Error) -> None:
        self._run.unknown(error)


def _settle(sending: Sending, report: Report, lane: Lane) -> None:
    """Settle one record by its report. Without one, it ended with its native producer."""
    outcome: tuple[Any, Any] = next(iter(report.items()), (Result.AlreadyClosed, None))
    result, native = outcome
    if result is REFUSED:
        error = mqplug.Error(f"the native client refused the message: {native}", topic=sending.topic)
        error.__cause__ = native
        sending.failed(error)
    elif result != Result.Ok:
        settle_failed(sending, result, lane)
    elif native.ledger_id() >= 0:
        sending.stored(lane.log, message_ids.coordinates(native), message_ids.detail(native))
    else:
        settle_duplicate(sending)

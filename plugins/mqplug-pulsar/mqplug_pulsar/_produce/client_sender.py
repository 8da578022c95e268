"""Hands records over to the client's producers with one call for each message, and settles them.

The client calls back for each message, on a thread of its own. If a callback runs Python, that thread and the sending
one pass the interpreter's lock back and forth for each message, which costs more than everything else. So the callback
of a message in a run is a method written in C: ``dict.setdefault`` of a dictionary for each message, which then holds
the result and the id. Only the last message of a run calls back in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from threading import Event
from typing import Any, Protocol, TypeVar

from _pulsar import MessageBuilder, Result

import mqplug
from mqplug import Log
from mqplug.spi import Headers, Numbers, Run, Sending
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.escapes import EPOCH, headers_to_properties, key_to_text

R = TypeVar("R", Sending, Run)

DUPLICATE = "the broker dropped the message as a duplicate: it is already stored, under an id that is not reported"


class Lane(Protocol):
    """The partition to which records are sent."""

    log: Log

    def begin(self, pending: Pending) -> None:
        """Note that these records are about to be handed over."""

    def withdraw(self, pending: Pending) -> None:
        """Forget these records: they were not handed over."""

    def reported(self, pending: Pending) -> None:
        """Take the report on the last of these records, and ring. Other reports may come later. Must not raise."""

    def take(self, pending: Pending) -> None:
        """Do the same as ``reported``, without ringing."""

    def error_of(self, result: Any) -> tuple[bool, mqplug.Error]:
        """Return whether this result proves that a message was not stored, and its error."""
        ...


HandOver = Callable[[R, Any, Lane], None]
"""Hands a record or a run over to a producer of the client, for a lane."""


class Pending(Protocol):
    """Records that were handed over together and have no outcome yet."""

    @property
    def is_complete(self) -> bool:
        """Whether all reports are in."""
        ...

    def settle(self) -> None:
        """Settle its records by their reports. A record without a report ended with the client's producer."""

    def unknown(self, error: mqplug.Error) -> None:
        """Settle its records as possibly stored."""


class Sender(Protocol):
    """Hands records over to the client's producers, and waits for their reports."""

    def send_record(self, record: Sending, native: Any, lane: Lane) -> None:
        """Hand over a record."""

    def send_run(self, run: Run, native: Any, lane: Lane) -> None:
        """Hand over a run."""

    def flush(self, native: Any) -> None:
        """Make a client's producer send its batch now, if that is possible. Do not wait for it."""

    def wait(self, timeout: float) -> None:
        """Wait until a record is settled, and settle reported records. The pumping thread calls it."""

    def ring(self) -> None:
        """Make ``wait`` return: a record was settled."""


def settle_failed(record: Sending, result: Result, lane: Lane) -> None:
    """Settle one record by a result other than ``Ok``."""
    proven, error = lane.error_of(result)
    (record.failed if proven else record.unknown)(error)


def settle_duplicate(record: Sending) -> None:
    """Settle one record whose result is ``Ok`` but that has no id."""
    record.unknown(mqplug.OutcomeUnknown(DUPLICATE))


def message_of(
    value: bytes | None, key: bytes | None = None, headers: Headers = (), timestamp: int | None = None
) -> Any:
    """Return a record as a client's message. If the client refuses it, raise the client's error.

    It is built without ``pulsar.Producer``, which would repeat the checks of the core.
    """
    builder = MessageBuilder()
    if value is None:
        builder.set_null_value()
    else:
        builder.content(value)
    if key is not None:
        builder.partition_key(key_to_text(key))
    if headers:
        builder.properties(headers_to_properties(headers))
    if timestamp is not None:
        if timestamp == 0:
            builder.property(EPOCH, "")
        else:
            builder.event_timestamp(timestamp)
    return builder.build()


Report = dict[Any, Any]
"""The client's id of a message, by its result; empty until it is reported. A message that the client refused has the
exception, by ``REFUSED``.
"""
REFUSED = None


class ClientSender:
    """Hands each message over with one call of the client, whose own threads take the reports."""

    def __init__(self) -> None:
        self._something = Event()  # set if a record was settled since the last wait

    def send_record(self, record: Sending, native: Any, lane: Lane) -> None:
        pending = PendingRecord(record, lane)
        lane.begin(pending)
        pending.hand_over(native)

    def send_run(self, run: Run, native: Any, lane: Lane) -> None:
        pending = PendingRun(run, lane)
        lane.begin(pending)
        pending.hand_over(native)

    def flush(self, native: Any) -> None:
        """Do nothing: the client sends its batch after ``batch_delay``.

        Its own flush takes its lock without releasing Python's, while its thread holds that lock and waits for
        Python's: a deadlock.
        """

    def wait(self, timeout: float) -> None:
        self._something.wait(timeout)
        self._something.clear()

    def ring(self) -> None:
        if not self._something.is_set():
            self._something.set()


class PendingRecord:
    """One record."""

    __slots__ = ("_lane", "_record", "_report")

    def __init__(self, record: Sending, lane: Lane) -> None:
        self._record = record
        self._lane = lane
        self._report: Report = {}

    @property
    def is_complete(self) -> bool:
        return bool(self._report)

    def hand_over(self, native: Any) -> None:
        """Hand it over to this client's producer."""
        record = self._record
        try:
            native.send_async(message_of(record.value, record.key, record.headers, record.timestamp), self._reported)
        except Exception as error:  # noqa: BLE001 - refused by the client: it was never sent
            self._reported(REFUSED, error)

    def _reported(self, result: Any, native: Any) -> None:
        self._report[result] = native
        self._lane.reported(self)

    def settle(self) -> None:
        _settle(self._record, self._report, self._lane)

    def unknown(self, error: mqplug.Error) -> None:
        self._record.unknown(error)


class PendingRun:
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
        """Hand them over to this client's producer."""
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

    def unknown(self, error: mqplug.Error) -> None:
        self._run.unknown(error)


def _settle(sending: Sending, report: Report, lane: Lane) -> None:
    """Settle one record by its report. Without one, it ended with the client's producer."""
    outcome: tuple[Any, Any] = next(iter(report.items()), (Result.AlreadyClosed, None))
    result, native = outcome
    if result is REFUSED:
        error = mqplug.Error(f"pulsar-client refused the message: {native}", topic=sending.topic)
        error.__cause__ = native
        sending.failed(error)
    elif result != Result.Ok:
        settle_failed(sending, result, lane)
    elif native.ledger_id() >= 0:
        sending.stored(lane.log, message_ids.coordinates(native), message_ids.detail(native))
    else:
        settle_duplicate(sending)

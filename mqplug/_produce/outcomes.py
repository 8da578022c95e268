"""Counts of the outcomes of a producer's records, and the failures that no caller has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mqplug._model.errors import Error, SendFailed
from mqplug._model.outcome import OutcomeUnknown
from mqplug._produce.handle import SendHandle, SingleSend
from mqplug._produce.lingering import CollectedRun

if TYPE_CHECKING:
    from mqplug._produce.handle import IdParts
    from mqplug._produce.send_run import SendRun


@attrs.frozen
class ProducerStatistics:
    """Counts of a producer's messages by outcome. ``accepted`` is the sum of the first four."""

    stored: int
    failed: int
    """Certainly not stored."""
    unknown: int
    waiting: int
    """Messages in flight."""
    bytes: int
    """Bytes of the values, keys and headers of all accepted messages."""

    @property
    def accepted(self) -> int:
        """The number of messages that the producer accepted."""
        return self.stored + self.failed + self.unknown + self.waiting


MAX_KEPT_FAILURES = 10_000  # unseen ones; further ones are only counted


class Outcomes:
    """Counts the outcomes of one producer. The queue's lock is held in all calls."""

    def __init__(self) -> None:
        self.stored = self.failed = self.unknown = self.bytes = 0
        self._unseen: list[tuple[SendHandle | SendRun, Error]] = []  # some may be seen later
        self._unseen_more = 0

    def count(self, unit: SingleSend | SendRun) -> None:
        """Count a settled record, or the records of a settled run."""
        self.bytes += unit.size
        if isinstance(unit, SingleSend):
            self._count(unit, unit.outcome)
        elif unit.is_stored:
            self.stored += len(unit)
        elif isinstance(unit, CollectedRun):
            for row in range(len(unit)):
                self._count(unit.handle(row), unit.outcome_of(row))
        else:
            for outcome in unit.results():
                self._count(unit, outcome)

    def _count(self, unit: SendHandle | SendRun, outcome: IdParts | Error | None) -> None:
        if type(outcome) is tuple:
            self.stored += 1
        elif isinstance(outcome, Error):
            if isinstance(outcome, OutcomeUnknown):
                self.unknown += 1
            else:
                self.failed += 1
            self._keep_unseen(unit, outcome)

    def _keep_unseen(self, unit: SendHandle | SendRun, error: Error) -> None:
        while self._unseen and self._unseen[-1][0].was_seen:
            self._unseen.pop()
        if unit.was_seen:
            return
        if len(self._unseen) < MAX_KEPT_FAILURES:
            self._unseen.append((unit, error))
        else:
            self._unseen_more += 1

    def take_unseen(self, where: dict[str, Any]) -> Error | None:
        """Return the unseen failures as one error, once. It is ``OutcomeUnknown`` if all are in doubt."""
        kept, more = self._unseen, self._unseen_more
        self._unseen, self._unseen_more = [], 0
        failed = [error for unit, error in kept if not unit.was_seen]
        if not failed:
            return None
        count, first = len(failed) + more, failed[0]
        error: Error
        if all(isinstance(each, OutcomeUnknown) for each in failed):
            error = OutcomeUnknown(f"{count} messages may or may not be stored, first: {first.message}", **where)
        else:
            error = SendFailed(f"{count} submitted messages failed, first: {first}", results=failed, **where)
        error.__cause__ = first
        return error

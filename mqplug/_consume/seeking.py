"""Seeks of a consumer: resolved to positions, and carried out at the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqplug._base.deadline import Deadline
from mqplug._consume.fetching import POLL_SLICE_S
from mqplug._consume.start_positions import position_of, refuse_lost, resolve
from mqplug._model.errors import NotAssigned, Timeout
from mqplug._model.position import After, Before, Position, Start
from mqplug._plugins.backend import NO_TIMEOUT_S

if TYPE_CHECKING:
    from mqplug._consume.assignment import Assignment
    from mqplug._consume.driver_session import DriverSession
    from mqplug._consume.fetching import Fetcher
    from mqplug._model.log import Log


class Seeker:
    """Carries out the seeks of one consumer."""

    def __init__(self, driver_session: DriverSession, assignment: Assignment, fetcher: Fetcher) -> None:
        self._driver_session = driver_session
        self._assignment = assignment
        self._fetcher = fetcher

    def seek(self, start: Start, partition: int | None, missing: str, deadline: Deadline) -> None:
        """Go on reading at this start. The lock is held."""
        positions = self._positions(start, partition, deadline)
        lenient = missing == "next" or not isinstance(start, Before | After | Position)
        if not lenient:
            refuse_lost(self._driver_session.backend, self._driver_session.connection, positions, deadline)
        self._move(positions, lenient, deadline)

    def _positions(self, start: Start, partition: int | None, deadline: Deadline) -> dict[Log, Position]:
        if isinstance(start, Before | After | Position):
            position = position_of(self._driver_session.connection, start, self._driver_session.logs)
            self.await_assignment(deadline)
            logs = [position.log]
        else:
            self.await_assignment(deadline)
            logs = [log for log in self._assignment if partition in {None, log.partition}]
        if not logs or any(self._assignment.get(log) is None for log in logs):
            which = repr(logs[0]) if logs else f"partition {partition}"
            raise NotAssigned(f"{which} is not held by this consumer", **self._driver_session.where("seek"))
        return resolve(self._driver_session.backend, self._driver_session.connection, start, logs, deadline)

    def _move(self, positions: Mapping[Log, Position], lenient: bool, deadline: Deadline) -> None:
        with self._assignment.committing:
            try:
                self._driver_session.open(deadline).seek(positions, deadline.remaining(NO_TIMEOUT_S))
            except Timeout as error:
                for log in positions:
                    self._assignment.fail(log, error, moved=True)
                raise
            self._assignment.hold(positions, lenient=lenient)

    def await_assignment(self, deadline: Deadline) -> None:
        """Wait until this member of a group holds a partition. The lock is held."""
        while not self._assignment:
            self._fetcher.poll_once(deadline.remaining(POLL_SLICE_S))
            if not self._assignment and deadline.expired:
                raise Timeout(
                    "this member of the group was given no partition in time",
                    operation="seek", fix="Allow more time, or close another member",
                )  # fmt: skip

"""Moving a consumer: what a seek means, and how it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqplug._base.deadline import Deadline
from mqplug._consume.fetching import SLICE
from mqplug._consume.starts import position_of, refuse_lost, resolve
from mqplug._model.errors import NotAssigned, Timeout
from mqplug._model.position import After, Before, Position, Start
from mqplug._plugins.backend import NO_END

if TYPE_CHECKING:
    from mqplug._consume.assignment import Holdings
    from mqplug._consume.driver_session import Grip
    from mqplug._consume.fetching import Fetcher
    from mqplug._model.log import Log


class Seeker:
    """The seeks of one consumer."""

    def __init__(self, grip: Grip, holdings: Holdings, fetcher: Fetcher) -> None:
        self._grip = grip
        self._holdings = holdings
        self._fetcher = fetcher

    def seek(self, start: Start, partition: int | None, missing: str, deadline: Deadline) -> None:
        """Go on reading elsewhere. The gate is held."""
        positions = self._positions(start, partition, deadline)
        lenient = missing == "next" or not isinstance(start, Before | After | Position)
        if not lenient:
            refuse_lost(self._grip.backend, self._grip.connection, positions, deadline)
        self._move(positions, lenient, deadline)

    def _positions(self, start: Start, partition: int | None, deadline: Deadline) -> dict[Log, Position]:
        if isinstance(start, Before | After | Position):
            position = position_of(self._grip.connection, start, self._grip.logs)
            self.await_assignment(deadline)
            logs = [position.log]
        else:
            self.await_assignment(deadline)
            logs = [log for log in self._holdings if partition in {None, log.partition}]
        if not logs or any(self._holdings.get(log) is None for log in logs):
            which = repr(logs[0]) if logs else f"partition {partition}"
            raise NotAssigned(f"{which} is not held by this consumer", **self._grip.where("seek"))
        return resolve(self._grip.backend, self._grip.connection, start, logs, deadline)

    def _move(self, positions: Mapping[Log, Position], lenient: bool, deadline: Deadline) -> None:
        with self._holdings.committing:
            try:
                self._grip.open(deadline).seek(positions, deadline.remaining(NO_END))
            except Timeout as error:
                for log in positions:
                    self._holdings.fail(log, error, moved=True)
                raise
            self._holdings.hold(positions, lenient=lenient)

    def await_assignment(self, deadline: Deadline) -> None:
        """With a group: wait until this member holds something. The gate is held."""
        while not self._holdings:
            self._fetcher.poll_once(deadline.remaining(SLICE))
            if not self._holdings and deadline.expired:
                raise Timeout(
                    "this member of the group was given no partition in time",
                    operation="seek", fix="Allow more time, or close another member",
                )  # fmt: skip

"""Topics that appear and disappear while a consumer follows a pattern."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from mqplug._base.deadline import Deadline
from mqplug._model.errors import ConnectError, Timeout
from mqplug._model.position import EARLIEST
from mqplug._plugins.backend import NO_TIMEOUT_S

if TYPE_CHECKING:
    from mqplug._consume.assignment import Assignment
    from mqplug._consume.driver_session import DriverSession
    from mqplug._model.log import Log
    from mqplug._model.names import Matching
    from mqplug._model.position import Position
    from mqplug.spi._actions import GroupStart

logger = logging.getLogger("mqplug")

LOOK_EVERY_S = 3.0  # a new topic is read within ten seconds, even if one look fails
LOOK_S = 5.0  # for one look and its changes

FindLogs = Callable[[Deadline], "list[Log]"]


class TopicFollower:
    """A periodic look for the topics of a pattern, which makes the consumer's driver read the current ones.

    ``find`` returns the logs of all topics that match now.
    """

    def __init__(
        self, pattern: Matching, find: FindLogs, driver_session: DriverSession, assignment: Assignment
    ) -> None:
        self._pattern = pattern
        self._find = find
        self._session = driver_session
        self._assignment = assignment
        self._looked = time.monotonic()

    def look_soon(self) -> None:
        """Make the next ``look_in_turn`` look."""
        self._looked = -math.inf

    def look_in_turn(self) -> None:
        """Look for topics if a look is due. An outage is logged once, like that of any other call."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        try:
            self.look()
        except (ConnectError, Timeout) as error:
            if not self._session.outage.note(error):
                raise

    def look(self) -> bool:
        """Look for topics. Return whether they have changed."""
        self._looked = time.monotonic()
        deadline = Deadline(LOOK_S)
        logs = self._find(deadline)
        if set(logs) == set(self._session.logs):
            return False
        with self._session.entering(deadline):
            self._change(logs, deadline)
        return True

    def _change(self, logs: list[Log], deadline: Deadline) -> None:
        """Read these logs: new ones from their first message. Stop reading logs that are gone."""
        session, before = self._session, set(self._session.logs)
        if session.closed:
            return
        gone = list(before.difference(logs))
        new = [log for log in logs if log not in before]
        logger.info("%s: %d partitions added, %d removed", self._pattern, len(new), len(gone))
        self._assignment.lost(gone)
        start: GroupStart = EARLIEST
        if session.group is None:
            added = session.backend.resolve(EARLIEST, new, deadline)
            self._assignment.hold(added, lenient=True)
            start = {**_positions(session.options.start), **added}
        options = session.options
        session.options = attrs.evolve(options, logs=logs, start=start)
        session.logs[:] = logs
        driver = session.driver
        try:
            if driver is None:
                session.open(deadline)
            else:
                driver.follow(session.options, deadline.remaining(NO_TIMEOUT_S))
        except BaseException:  # the next look finds the same change, and tries again
            session.options = attrs.evolve(options, logs=[log for log in options.logs if log in logs])
            session.logs[:] = session.options.logs
            raise


def _positions(start: GroupStart) -> Mapping[Log, Position]:
    return start if isinstance(start, Mapping) else {}

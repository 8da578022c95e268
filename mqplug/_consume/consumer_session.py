"""A consumer's session: fetches, acks, seeks and closes, for the plain consumer and the asyncio one.

In the background it polls while the caller is away, so that the member stays in its group, and stores acks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from mqplug._base.closing import Session, close_native
from mqplug._base.deadline import Deadline
from mqplug._consume.assignment import ConsumerStatistics, PartitionState, partition_state
from mqplug._consume.fetching import POLL_MESSAGES, POLL_SLICE_S
from mqplug._consume.start_positions import position_of, refuse_lost, resolve
from mqplug._model.errors import CloseIncomplete, ConnectError, Error, NotAssigned, Timeout, TopicNotFound
from mqplug._model.log import Log
from mqplug._model.names import check_partition
from mqplug._model.position import After, Before, Position, Start
from mqplug._plugins.backend import NO_TIMEOUT_S

if TYPE_CHECKING:
    from mqplug._consume.acking import Acknowledgements
    from mqplug._consume.assignment import Assignment, HeldPartition
    from mqplug._consume.dead_letters import DeadLetters
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.driver_session import DriverSession
    from mqplug._consume.fetching import Fetcher
    from mqplug._consume.topic_following import TopicFollower
    from mqplug._model.position import Watermarks


AWAY_AFTER_S = 1.0  # since the last poll: then the background thread polls for the caller
COMMIT_INTERVAL_S = 1.0
BACKGROUND_COMMIT_S = 5.0
ENTER_S = 30.0  # for a running poll, which is woken, and a user's callback in it
LEAVE_S = 5.0  # for the commit, and for the close of the driver, when a member leaves its group


class ConsumerSession(Session):
    """An open consumer: its driver, its assignment, its fetched messages and its acks."""

    def __init__(
        self,
        driver_session: DriverSession,
        assignment: Assignment,
        fetcher: Fetcher,
        acks: Acknowledgements,
        seeker: Seeker,
        dead_letters: DeadLetters | None,
        follower: TopicFollower | None,
        on_closed: Callable[[ConsumerSession], None],
    ) -> None:
        super().__init__()
        self.group = driver_session.group
        self.shares = driver_session.shares
        self.driver_session = driver_session
        self.assignment = assignment
        self.fetcher = fetcher
        self.acks = acks
        self.fetch_messages = self._fetch_messages()
        """How many messages to fetch at least, although a caller wants one."""
        if self.group is not None:
            fetcher.leave_group = self._leave_group
        self._seeker = seeker
        self._dead_letters = dead_letters
        self._follower = follower
        self._on_closed = on_closed
        self._progress = (0, 0)
        self._last_progress = time.monotonic()
        self._holds_something = True

    def _fetch_messages(self) -> int:
        driver = self.driver_session.driver
        if self.shares:
            return 1  # other members cannot get a fetched message
        return POLL_MESSAGES if driver is None else driver.poll_messages

    # fetching ----------------------------------------------------------------------------------------------

    def check_read_to_end(self, timeout: float | None) -> None:
        """Raise ``Timeout`` unless all messages up to ``until`` were received."""
        if not self.fetcher.stopping and not self.assignment.finished:
            advice = "An open transaction may hold messages back: pass a longer timeout, or None to wait forever"
            if not self.driver_session.connection.capabilities.transactions:
                advice = "Check that the server answers, and that its client can read the next message"
            raise Timeout(
                f"no message came within {timeout:g} s before the end was reached: {self.assignment.unread()}",
                fix=advice,
            )

    def check_can_run(self) -> None:
        """Raise unless a handler may run, which needs a group and excludes ``auto_ack``."""
        self.driver_session.check_open()
        self.driver_session.require_group("run")
        if self.acks.auto_ack:
            raise TypeError("run() acks a message when its handler returns: open the consumer without auto_ack=")

    def begin_work(self, delivery: Delivery) -> None:
        """Fetch nothing more of this delivery's partition until ``end_work``."""
        held = self.assignment.get(delivery.batch.log)
        if held is not None:
            held.busy = True

    def end_work(self, delivery: Delivery, *, return_rest: bool = False) -> None:
        """Continue with the partition of this delivery. With ``return_rest``, its remaining messages come first."""
        held = self.assignment.get(delivery.batch.log)
        if held is not None and held.tracker is delivery.tracker:
            held.busy = False
            if return_rest and delivery.left:
                self.fetcher.hold_back(held)

    def stop(self) -> None:
        """End iteration after the current message. Safe from any thread and from a signal handler."""
        self.fetcher.stopping = True
        delivery = self.fetcher.current
        if delivery is not None:
            delivery.hold_back()

    # acks and positions ------------------------------------------------------------------------------------

    def commit_after_run(self, deadline: Deadline) -> None:
        """Store the acks of the handlers."""
        self.driver_session.check_open()
        self.acks.commit_at_close(deadline)

    def seek(self, start: Start, partition: int | None, missing: str, deadline: Deadline) -> None:
        """Continue reading at this start, in its own partition, in the named one, or in all."""
        self.driver_session.check_open()
        self.acks.check_no_step("seek")
        with self.driver_session.entering(deadline), self.driver_session.context("seek"):
            self.driver_session.check_open()
            self._seeker.seek(start, partition, missing, deadline)

    def positions(self, topic: str | None) -> dict[int, Position]:
        """Return the position of the next message of each held partition."""
        return {held.log.partition: held.tracker.position for held in self._chosen((), topic)}

    def committed(self, topic: str | None, deadline: Deadline) -> dict[int, Position | None]:
        """Return the group's stored position in each partition, or None for a partition without one."""
        session = self.driver_session
        session.check_open()
        group = session.require_group("read committed positions")
        self._check_reads(topic)
        logs = [log for log in _known_logs(session, self.assignment) if topic in {None, log.topic}]
        stored = session.backend.group_positions(group, logs, deadline)
        return {log.partition: stored[log].position if log in stored else None for log in logs}

    def watermarks(self, topic: str | None, deadline: Deadline) -> dict[int, Watermarks]:
        """Return the watermarks of each held partition."""
        logs = [held.log for held in self._chosen((), topic)]
        found = self.driver_session.backend.watermarks(logs, None, deadline)
        return {log.partition: found[log] for log in logs}

    def logs(self) -> list[Log]:
        """Return the currently held logs, in order."""
        self.driver_session.check_open()
        return sorted(self.assignment, key=lambda log: (log.topic, log.partition))

    def states(self) -> list[PartitionState]:
        """Return the state of each held partition."""
        self.driver_session.check_open()
        with self.assignment.committing:
            return [partition_state(held) for log in self.logs() if (held := self.assignment.get(log)) is not None]

    def statistics(self) -> ConsumerStatistics:
        """Return counts of messages, acks and polls."""
        fetcher, acks = self.fetcher, self.acks
        return ConsumerStatistics(
            received=fetcher.received, returned=acks.returned,
            dead_lettered=acks.buried, late_acks=acks.late,
            commits=acks.commits, polls=fetcher.polls, gaps=fetcher.gaps,
        )  # fmt: skip

    def set_paused(self, partitions: tuple[int, ...], topic: str | None, deadline: Deadline, *, paused: bool) -> None:
        """Pause or resume these partitions; by default all held ones."""
        for partition in partitions:
            check_partition(partition)
        session = self.driver_session
        session.check_open()
        with session.entering(deadline), session.context("pause" if paused else "resume"):
            for held in self._chosen(partitions, topic):
                held.paused = paused
                if paused:
                    self.fetcher.hold_back(held)
            self.fetcher.sync_pauses(session.open(deadline))

    def _chosen(self, partitions: tuple[int, ...], topic: str | None) -> list[HeldPartition]:
        """Return the held partitions of one topic: the named ones, or all."""
        if topic is None and len({log.topic for log in self.driver_session.logs}) > 1:
            raise TypeError("this consumer reads several topics: pass topic=")
        self._check_reads(topic)
        logs = {log.partition: log for log in self.logs() if topic in {None, log.topic}}
        for partition in partitions:
            if partition not in logs:
                where = self.driver_session.where("choose partitions")
                raise NotAssigned(f"partition {partition} is not held by this consumer", **where)
        found = (self.assignment.get(log) for number, log in logs.items() if not partitions or number in partitions)
        return [held for held in found if held is not None]

    def _check_reads(self, topic: str | None) -> None:
        topics = {log.topic for log in self.driver_session.logs}
        if topic is not None and topic not in topics:
            named = ", ".join(map(repr, sorted(topics)))
            raise ValueError(f"this consumer does not read {topic!r}; expected one of {named}")

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Store acks, leave the group, and close the driver. Wakes a blocked receive."""
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if mine:
                self._close(deadline)

    def _close(self, deadline: Deadline) -> None:
        session = self.driver_session
        session.closed = True
        self.stop()
        failure = self._settle_at_close(deadline)
        driver = session.release()
        of_driver = None
        if driver is not None:
            of_driver = close_native(f"a consumer of {session.topic}", driver.close, deadline)
        self._on_closed(self)
        self.assignment.drop_all()
        self.fetcher.forget()
        if failure is not None:
            raise CloseIncomplete(
                f"the last acks could not be stored: {failure.message}",
                **session.where("close"),
                fix="Expect messages acked in the last second to be delivered again",
            ) from failure
        if of_driver is not None:
            raise of_driver.at(**session.where("close"))

    def _settle_at_close(self, deadline: Deadline) -> Error | None:
        """Store dead letters and acks. Return the error if they could not be stored."""
        try:
            with self.driver_session.entering(deadline):
                if self._dead_letters is not None:
                    self._dead_letters.close(deadline)
                    self.acks.collect()
                if self.group is not None and self.driver_session.is_open:
                    with suppress(TopicNotFound):  # a deleted topic needs no acks; the other acks are stored
                        self.acks.commit_at_close(deadline)
        except Error as error:
            return error
        return None

    def __repr__(self) -> str:
        group = f", group {self.group!r}" if self.group is not None else ""
        closed = ", closed" if self.closed else ""
        return f"<Consumer {self.driver_session.backend.name} {self.driver_session.topic}{group}{closed}>"

    # in the background -------------------------------------------------------------------------------------

    def look_for_topics_soon(self) -> None:
        """Look for topics in the next round, if the consumer follows a pattern."""
        if self._follower is not None:
            self._follower.look_soon()

    def work_in_background(self) -> None:
        """Poll while the caller is away, and store acks every second."""
        session = self.driver_session
        if self.closed:
            return
        if self._follower is not None:
            self._follower.look_in_turn()
        if self.group is None or not session.is_open:
            return
        self.acks.collect()
        now = time.monotonic()
        if now - self.fetcher.last_poll > AWAY_AFTER_S and not session.lock.busy:
            with session.entering(Deadline(POLL_SLICE_S)):
                if self._is_gone(now):
                    self._leave_group()
                elif not self.closed:
                    session.tend(POLL_SLICE_S)
        due = now - self.acks.last_commit > COMMIT_INTERVAL_S and not self.assignment.committing.locked()
        if self.acks.step is None and due and session.is_open:
            try:
                self.acks.commit_in_background(Deadline(BACKGROUND_COMMIT_S))
            except (ConnectError, Timeout):
                if not session.outage.ongoing:  # an outage was logged when it began
                    raise
            except TopicNotFound:
                if self._follower is None:
                    raise
                self._follower.look()

    def _is_gone(self, now: float) -> bool:
        """Return whether the caller has taken nothing for longer than ``max_processing``."""
        most = self.driver_session.options.max_processing
        current = self.fetcher.current
        progress = (self.fetcher.polls, current.left if current is not None else 0)
        if progress != self._progress:
            self._progress, self._last_progress = progress, now
        idle_since = max(self._last_progress, self.fetcher.last_poll, self.fetcher.last_handled)
        return most is not None and not self.shares and now - idle_since > most

    def _leave_group(self) -> None:
        """Release the partitions of an absent caller to the other members. The next receive joins again."""
        with suppress(Error):
            self.acks.commit(Deadline(LEAVE_S))
        self._release_driver()

    def join_again(self, before: Callable[[Deadline], None]) -> None:
        """Leave the group, because its stored state is unknown. The next receive calls ``before``, and joins again.

        Acks that are not stored yet are dropped, and their messages are delivered again.
        """
        if self.driver_session.closed:
            return
        with self.driver_session.entering(Deadline(ENTER_S)):
            self.driver_session.before_open = before
            self._release_driver()

    def _release_driver(self) -> None:
        driver = self.driver_session.release()
        self.assignment.lost(list(self.assignment))
        self.assignment.unstored.clear()  # the caller was absent, or begins a step again
        if driver is not None:
            failure = close_native(f"a consumer of {self.driver_session.topic}", driver.close, Deadline(LEAVE_S))
            if failure is not None:
                raise failure


def _known_logs(session: DriverSession, assignment: Assignment) -> list[Log]:
    """Return the logs that a consumer was opened for, and the added partitions that it holds."""
    return list(dict.fromkeys([*session.logs, *assignment]))


class Seeker:
    """The seeks of one consumer."""

    def __init__(self, driver_session: DriverSession, assignment: Assignment, fetcher: Fetcher) -> None:
        self._driver_session = driver_session
        self._assignment = assignment
        self._fetcher = fetcher

    def seek(self, start: Start, partition: int | None, missing: str, deadline: Deadline) -> None:
        """Continue reading at this start. The lock is held."""
        positions = self._positions(start, partition, deadline)
        lenient = missing == "next" or not isinstance(start, Before | After | Position)
        if not lenient:
            refuse_lost(self._driver_session.backend, positions, deadline)
        self._move(positions, lenient, deadline)

    def _positions(self, start: Start, partition: int | None, deadline: Deadline) -> dict[Log, Position]:
        if isinstance(start, Before | After | Position):
            known = _known_logs(self._driver_session, self._assignment)
            position = position_of(self._driver_session.backend, start, known)
            self.await_assignment(deadline)
            logs = [position.log]
        else:
            self.await_assignment(deadline)
            logs = [log for log in self._assignment if partition in {None, log.partition}]
        if not logs or any(self._assignment.get(log) is None for log in logs):
            which = repr(logs[0]) if logs else f"partition {partition}"
            raise NotAssigned(f"{which} is not held by this consumer", **self._driver_session.where("seek"))
        return resolve(self._driver_session.backend, start, logs, deadline)

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
                    "this member of the group got no partition in time",
                    operation="seek",
                    fix="Allow more time, or close another member",
                )

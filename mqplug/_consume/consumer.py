"""Consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Literal

from mqplug._base.closing import Closable, close_native
from mqplug._base.deadline import Deadline, check_timeout
from mqplug._consume.fetching import POLL_MESSAGES, POLL_SLICE_S
from mqplug._consume.start_positions import check_start
from mqplug._consume.status import ConsumerStatistics, PartitionState, describe
from mqplug._model.batch import Batch, empty_batch
from mqplug._model.checks import check_missing, whole_number
from mqplug._model.errors import Closed, CloseIncomplete, ConnectError, Error, NotAssigned, Timeout, TopicNotFound
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Message
from mqplug._model.names import check_partition
from mqplug._model.position import After, Before, Position, Start

if TYPE_CHECKING:
    from mqplug._consume.acking import Acknowledgements
    from mqplug._consume.assignment import Assignment, HeldPartition
    from mqplug._consume.dead_letters import DeadLetters
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.driver_session import DriverSession
    from mqplug._consume.fetching import Fetcher
    from mqplug._consume.handler_threads import Handler
    from mqplug._consume.seeking import Seeker
    from mqplug._model.watermarks import Watermarks

AWAY_AFTER_S = 1.0  # seconds after which the keeper polls for a caller that is busy elsewhere
COMMIT_INTERVAL_S = 1.0

EMPTY_BATCH = empty_batch()


class Consumer(Closable):
    """Receives the messages of one or many topics. Made by ``Client.consumer``.

    One thread at a time receives; ``ack``, ``nack``, ``commit``, ``seek``, ``pause``, ``stop`` and ``close`` may come
    from any thread.
    """

    def __init__(
        self,
        driver_session: DriverSession,
        assignment: Assignment,
        fetcher: Fetcher,
        acks: Acknowledgements,
        seeker: Seeker,
        dead_letters: DeadLetters | None,
        on_closed: Callable[[Consumer], None],
    ) -> None:
        super().__init__()
        self.group = driver_session.group
        self._driver_session = driver_session
        self._assignment = assignment
        self._fetcher = fetcher
        self._acks = acks
        self._seeker = seeker
        self._dead_letters = dead_letters
        self._on_closed = on_closed
        self._messages: Iterator[Message] = iter(())
        self._progress = (0, 0)
        self._last_seen = time.monotonic()
        self._holds_something = True
        self.ack = acks.ack  # type: ignore[method-assign]  # one call less for each message

    # receiving ---------------------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came in time. Waits for ever by default; 0 polls."""
        if timeout is not None:
            check_timeout(timeout)  # before what is at hand already
        for message in self._messages:
            return message
        deadline = Deadline(timeout)
        while (delivery := self._next_delivery(deadline)) is not None:
            for message in delivery.messages:
                return message
        return None

    def receive_many(self, most: int, timeout: float | None = None) -> Batch:
        """Up to so many messages of one partition, as soon as there are any; an empty batch when none came."""
        check_most(most)
        deadline = Deadline(timeout)
        with self._driver_session.lock.receiving():
            self._fetcher.return_rest()
            while (delivery := self._fetcher.next_delivery(deadline, most)) is not None:
                if batch := delivery.hand_out_all():
                    return batch
            return EMPTY_BATCH

    def batches(self, most: int = POLL_MESSAGES) -> Iterator[Batch]:
        """All messages in batches of one partition each; ends as iteration does."""
        check_most(most)
        return self._batches(most)

    def _batches(self, most: int) -> Iterator[Batch]:
        while True:
            try:
                batch = self.receive_many(most)
            except Closed:
                return
            if not batch:
                return
            yield batch

    def __iter__(self) -> Iterator[Message]:
        """All messages, for ever; ends at ``stop``, at ``close``, and at ``until``."""
        return chain.from_iterable(self._deliveries())

    def _deliveries(self) -> Iterator[Iterator[Message]]:
        forever = Deadline(None)
        yield self._messages
        while not self._closed:
            try:
                delivery = self._next_delivery(forever)
            except Closed:
                return
            if delivery is None:
                return
            yield delivery.messages

    def _next_delivery(self, deadline: Deadline) -> Delivery | None:
        most = 1 if self._driver_session.shares else POLL_MESSAGES  # what is taken from a shared log, nobody else gets
        with self._driver_session.lock.receiving():
            delivery = self._fetcher.next_delivery(deadline, most)
        if delivery is not None:
            self._messages = delivery.messages
        return delivery

    def run(self, handler: Handler, *, threads: int = 1) -> None:
        """Call ``handler`` with each message, on so many threads, until ``stop``, ``close`` or ``until``.

        A message is acked when the handler returns, and given back when it raises: then it comes again, as ``retry=``
        says. In order, one partition is handled by one thread at a time; in ``key_shared``, one key is. SIGTERM
        stops; what is in hand is finished, and its acks are stored.
        """
        whole_number("threads", threads, 1)
        if not callable(handler):
            raise TypeError(f"a handler is called with each message; {type(handler).__name__} cannot be called")
        from mqplug._consume.handler_threads import HandlerThreads

        self._prepare_run()
        self._fetcher.return_rest()
        HandlerThreads(self._driver_session, self._assignment, self._fetcher, self._acks, handler, threads).run(
            self.stop
        )
        if not self._closed:
            self.commit()

    def _prepare_run(self) -> None:
        self._driver_session.check_open()
        self._driver_session.require_group("run")
        if self._fetcher.auto_ack:
            raise TypeError("run() acks a message when its handler returns: open the consumer without auto_ack=")

    # settling ----------------------------------------------------------------------------------------------

    def ack(self, message: Message | MessageId) -> None:
        """This message is done. Recorded at once; stored by ``commit``, by close, and within a second."""
        self._acks.ack(message)

    def ack_through(self, message: Message | MessageId) -> None:
        """This message and all that were delivered before it in its partition are done."""
        self._acks.ack_through(message)

    def nack(self, message: Message, delay: float | None = None, *, reason: object = None) -> None:
        """This message is not done: it comes again, after ``delay`` seconds or as ``retry=`` says, as another attempt.

        In order, its partition waits for it. Where the attempts are used up, it goes to the ``dead_letter`` topic, with
        ``reason`` among its headers.
        """
        self._acks.nack(message, delay, reason)

    @contextmanager
    def handling(self, message: Message) -> Iterator[Message]:
        """Ack the message at the end of the block; give it back if the block raises, which goes on to the caller."""
        if not isinstance(message, Message):
            raise TypeError(f"handling() takes a Message, not {type(message).__name__}")
        try:
            yield message
        except Exception as error:
            self.nack(message, reason=error)
            raise
        self.ack(message)

    def commit(self, timeout: float | None = 30) -> None:
        """Store all acks so far, durably."""
        deadline = Deadline(timeout)
        self._driver_session.check_open()
        self._driver_session.require_group("commit")
        self._acks.commit(deadline)

    # positions ---------------------------------------------------------------------------------------------

    def seek(
        self,
        to: Start | MessageId,
        *,
        inclusive: bool = True,
        partition: int | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> None:
        """Go on reading elsewhere.

        An id or position moves its own partition; any other start moves all partitions held, or the one that
        ``partition`` names. ``seek(id)`` delivers that message first, ``inclusive=False`` the one after it. With a
        group, its stored position has moved when this returns. ``missing="next"`` goes on with the first retained
        message where what was asked for is gone; otherwise that is ``PositionLost``, and nothing changes.
        """
        deadline = Deadline(timeout)
        start = _target(to, inclusive)
        if partition is not None:
            check_partition(partition)
        check_missing(missing)
        self._driver_session.check_open()
        with self._driver_session.entering(deadline), self._driver_session.context("seek"):
            self._driver_session.check_open()
            self._seeker.seek(start, partition, missing, deadline)

    def position(self, topic: str | None = None) -> dict[int, Position]:
        """For each partition held: the position of the next message that will be delivered."""
        return {held.log.partition: held.tracker.position for held in self._chosen((), topic)}

    def committed(self, topic: str | None = None, timeout: float | None = 30) -> dict[int, Position | None]:
        """For each partition: the group's stored position; None where there is none."""
        deadline = Deadline(timeout)
        self._driver_session.check_open()
        group = self._driver_session.require_group("ask for what is committed")
        self._check_reads(topic)
        logs = [log for log in self._driver_session.logs if topic in {None, log.topic}]
        stored = self._driver_session.backend.group_positions(self._driver_session.connection, group, logs, deadline)
        return {log.partition: stored[log].position if log in stored else None for log in logs}

    def watermarks(self, topic: str | None = None, timeout: float | None = 30) -> dict[int, Watermarks]:
        """What each partition that is held retains."""
        deadline = Deadline(timeout)
        logs = [held.log for held in self._chosen((), topic)]
        found = self._driver_session.backend.watermarks(self._driver_session.connection, logs, None, deadline)
        return {log.partition: found[log] for log in logs}

    def assignment(self) -> list[Log]:
        """The logs held now, in order."""
        self._driver_session.check_open()
        return sorted(self._assignment, key=lambda log: (log.topic, log.partition))

    def state(self) -> list[PartitionState]:
        """How each partition that is held stands, and what it waits for."""
        self._driver_session.check_open()
        with self._assignment.committing:
            return [describe(held) for log in self.assignment() if (held := self._assignment.get(log)) is not None]

    def statistics(self) -> ConsumerStatistics:
        """What this consumer did so far."""
        fetcher, acks = self._fetcher, self._acks
        return ConsumerStatistics(
            received=fetcher.received, returned=acks.returned,
            dead_lettered=acks.buried, late_acks=acks.late,
            commits=acks.commits, polls=fetcher.polls, gaps=fetcher.gaps,
        )  # fmt: skip

    @property
    def late_acks(self) -> int:
        """Acks that came after a seek or a hand-over, or twice: they change nothing, and are counted here."""
        return self._acks.late

    # pausing -----------------------------------------------------------------------------------------------

    def pause(self, *partitions: int, topic: str | None = None, timeout: float | None = 30) -> None:
        """Deliver nothing of these partitions until ``resume``; of all that are held, where none is named."""
        self._set_paused(partitions, topic, Deadline(timeout), paused=True)

    def resume(self, *partitions: int, topic: str | None = None, timeout: float | None = 30) -> None:
        """Go on with these partitions where they were paused; with all, where none is named."""
        self._set_paused(partitions, topic, Deadline(timeout), paused=False)

    def _set_paused(self, partitions: tuple[int, ...], topic: str | None, deadline: Deadline, *, paused: bool) -> None:
        for partition in partitions:
            check_partition(partition)
        self._driver_session.check_open()
        with self._driver_session.entering(deadline), self._driver_session.context("pause" if paused else "resume"):
            for held in self._chosen(partitions, topic):
                held.paused = paused
                if paused:
                    self._fetcher.hold_back(held)
            self._fetcher.quieten(self._driver_session.open(deadline))

    def _chosen(self, partitions: tuple[int, ...], topic: str | None) -> list[HeldPartition]:
        """The partitions that are held of one topic: those that are named, or all."""
        if topic is None and len({log.topic for log in self._driver_session.logs}) > 1:
            raise TypeError("this consumer reads several topics: say which one")
        self._check_reads(topic)
        held = {log.partition: log for log in self.assignment() if topic in {None, log.topic}}
        for partition in partitions:
            if partition not in held:
                raise NotAssigned(
                    f"partition {partition} is not held by this consumer",
                    **self._driver_session.where("choose partitions"),
                )
        found = (self._assignment.get(log) for number, log in held.items() if not partitions or number in partitions)
        return [each for each in found if each is not None]

    def _check_reads(self, topic: str | None) -> None:
        if topic is not None and topic not in (topics := sorted({log.topic for log in self._driver_session.logs})):
            raise ValueError(f"this consumer does not read {topic!r}: it reads {', '.join(map(repr, topics))}")

    # ending ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End iteration after the message in hand. Safe from any thread and from a signal handler."""
        self._fetcher.stopping = True
        delivery = self._fetcher.current
        if delivery is not None:
            delivery.hold_back()

    def close(self, timeout: float | None = 30) -> None:
        """Store acks, leave the group, let go. May be called twice; wakes a blocked receive."""
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if mine:
                self._close(deadline)

    def _close(self, deadline: Deadline) -> None:
        self._driver_session.closed = True
        self.stop()
        failure = self._settle_at_close(deadline)
        driver = self._driver_session.release()
        of_driver = None
        if driver is not None:
            of_driver = close_native(f"a consumer of {self._driver_session.topic}", driver.close, deadline)
        self._on_closed(self)
        self._assignment.drop_all()
        if failure is not None:
            raise CloseIncomplete(
                f"the last acks could not be stored: {failure.message}",
                **self._driver_session.where("close"), fix="The messages acked in the last second may come back",
            ) from failure  # fmt: skip
        if of_driver is not None:
            raise of_driver.at(**self._driver_session.where("close"))

    def _settle_at_close(self, deadline: Deadline) -> Error | None:
        failure = None
        try:
            with self._driver_session.entering(deadline):
                if self._dead_letters is not None:
                    self._dead_letters.close(deadline)
                    self._acks.collect()
                if self.group is not None and self._driver_session.is_open:
                    with suppress(TopicNotFound):  # what was deleted does not come back; the rest is stored
                        self._acks.commit(deadline)
        except Error as error:
            failure = error
        return failure

    def __repr__(self) -> str:
        group = f", group {self.group!r}" if self.group is not None else ""
        closed = ", closed" if self._closed else ""
        return f"<Consumer {self._driver_session.backend.name} {self._driver_session.topic}{group}{closed}>"

    # what the keeper does ----------------------------------------------------------------------------------

    def _keep(self) -> None:
        """The keeper's round: poll for a caller that is away, and store acks every second."""
        if self._closed or self.group is None or not self._driver_session.is_open:
            return
        self._acks.collect()
        now = time.monotonic()
        if now - self._fetcher.last_poll > AWAY_AFTER_S and not self._driver_session.lock.busy:
            with self._driver_session.entering(Deadline(POLL_SLICE_S)):
                if self._is_gone(now):
                    self._leave()
                elif not self._closed:
                    self._driver_session.tend(POLL_SLICE_S)
        if now - self._acks.last_commit > COMMIT_INTERVAL_S and self._driver_session.is_open:
            try:
                self._acks.commit(Deadline(POLL_SLICE_S * 50))
            except (ConnectError, Timeout):
                if not self._driver_session.outage.goes_on:  # else that was told
                    raise

    def _is_gone(self, now: float) -> bool:
        """Whether the caller has taken nothing for longer than ``max_processing``."""
        most = self._driver_session.options.max_processing
        current = self._fetcher.current
        progress = (self._fetcher.polls, current.left if current is not None else 0)
        if progress != self._progress:
            self._progress, self._last_seen = progress, now
        return (
            most is not None
            and not self._driver_session.shares
            and now - max(self._last_seen, self._fetcher.last_poll) > most
        )

    def _leave(self) -> None:
        """Let the other members have the work of a caller that is gone; its next receive joins again."""
        with suppress(Error):
            self._acks.commit(Deadline(POLL_SLICE_S * 50))
        driver = self._driver_session.release()
        self._assignment.lost(list(self._assignment))
        if driver is not None:
            failure = close_native(
                f"a consumer of {self._driver_session.topic}", driver.close, Deadline(POLL_SLICE_S * 50)
            )
            if failure is not None:
                raise failure


def check_most(most: int) -> None:
    """``TypeError`` or ``ValueError`` for what is no number of messages."""
    whole_number("the number of messages of receive_many() and batches()", most, 1)


def _target(to: Start | MessageId, inclusive: bool) -> Start:
    if isinstance(to, MessageId):
        return Before(to) if inclusive else After(to)
    return check_start(to)
